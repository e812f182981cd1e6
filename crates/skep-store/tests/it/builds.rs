//! Templates of teams, their builds, tags and logs.

use std::collections::BTreeMap;

use jiff::Timestamp;
use skep_store::{
    BuildRetention, BuildStatus, DeleteOutcome, LogFilter, LogLine, NewBuild, RequestOutcome,
    StartOutcome, StartedBuild, TemplateRecord,
};
use skep_types::{
    BuildBase, BuildContext, BuildFailure, BuildId, BuildLogEntry, BuildOrder, BuildPhase,
    BuildStep, BuiltTemplate, EndReason, Ending, Instruction, LogLevel, Redacted,
    RegistryCredentials, Resources, SandboxId, Sharing, TemplateId, TemplateImage, TemplateStart,
    Usage,
};

use crate::Record;

const LIMIT: u32 = 2;

impl Record {
    async fn request(&self, name: &str, tags: &[&str]) -> (TemplateRecord, BuildId) {
        let new = NewBuild {
            team: self.team.clone(),
            name: name.to_owned(),
            template: TemplateId::random(),
            build: BuildId::random(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
            resources: Resources::default(),
            at: Timestamp::now(),
            limit: LIMIT,
        };
        let requested = self.store.templates().request(new).recorded();
        match requested.await.unwrap() {
            RequestOutcome::Recorded(requested) => (requested.template, requested.build),
            other @ (RequestOutcome::NameIsAnId | RequestOutcome::TooMany) => panic!("{other:?}"),
        }
    }

    async fn start(&self, order: BuildOrder, digest: &str) -> StartOutcome {
        let builds = self.store.builds();
        let starting = builds.start(order, digest.to_owned(), Timestamp::now(), LIMIT);
        starting.recorded().await.unwrap()
    }

    async fn end(&self, build: BuildId, result: Result<BuiltTemplate, BuildFailure>) -> bool {
        let ending = self.store.builds().end(build, result, Timestamp::now());
        ending.recorded().await.unwrap()
    }

    /// Builds one that is ready.
    async fn build(&self, name: &str, tags: &[&str]) -> (TemplateRecord, BuildId) {
        let (template, build) = self.request(name, tags).await;
        let order = self.order(&template, build);
        assert!(matches!(
            self.start(order, "d").await,
            StartOutcome::Started(_)
        ));
        assert!(self.end(build, Ok(built())).await);
        (template, build)
    }

    fn order(&self, template: &TemplateRecord, build: BuildId) -> BuildOrder {
        BuildOrder {
            build,
            template: template.id.clone(),
            team: self.team.clone(),
            base: BuildBase::Template {
                reference: "base".to_owned(),
                image: Box::new(image()),
                context: context(),
            },
            steps: vec![
                step(Instruction::Run {
                    command: "make".to_owned(),
                    user: Some("root".to_owned()),
                }),
                step(Instruction::Copy {
                    source: "a".to_owned(),
                    destination: "/a".to_owned(),
                    owner: None,
                    mode: Some(0o644),
                    files: "a".repeat(64).parse().unwrap(),
                }),
                step(Instruction::Environment(vec![(
                    "A".to_owned(),
                    "1".to_owned(),
                )])),
                step(Instruction::WorkDirectory("/a".to_owned())),
                step(Instruction::User {
                    name: "me".to_owned(),
                    administrator: true,
                }),
            ],
            start_command: Some("serve".to_owned()),
            ready_command: None,
            resources: Resources::default(),
            force: true,
        }
    }

    async fn version(&self, template: &TemplateRecord, tag: &str) -> Option<BuildId> {
        let tags = self.store.tags();
        let found = tags.version(template.id.clone(), tag.to_owned()).await;
        found.unwrap().map(|version| version.build)
    }

    async fn status(&self, build: BuildId) -> BuildStatus {
        self.store
            .builds()
            .find(build)
            .await
            .unwrap()
            .unwrap()
            .status
    }
}

impl Record {
    /// Makes a sandbox of a version, and returns its id.
    async fn sandbox_of(&self, template: &TemplateRecord, build: BuildId) -> SandboxId {
        let mut order = self.sandbox();
        order.base = format!("{}:{build}", template.id);
        let id = order.id.clone();
        let inserting = self.store.sandboxes().insert(order, None);
        inserting.recorded().await.unwrap();
        id
    }

    async fn end_sandbox(&self, id: SandboxId) {
        let ending = Ending {
            reason: EndReason::Killed,
            usage: Usage::default(),
            at: Timestamp::now(),
        };
        let ending = self.store.sandboxes().ended(id, ending);
        ending.recorded().await.unwrap();
    }
}

fn step(instruction: Instruction) -> BuildStep {
    BuildStep {
        instruction,
        force: false,
    }
}

fn image() -> TemplateImage {
    TemplateImage {
        id: TemplateId::random(),
        name: "base".to_owned(),
        layers: vec![[7; 32].into()],
        env: vec![("PATH".to_owned(), "/bin".to_owned())],
        user: "user".to_owned(),
        workdir: Some("/srv".to_owned()),
        resources: Resources::default(),
        sharing: Sharing::BetweenTeams,
        start: Some(Box::new(TemplateStart {
            command: Some("serve".to_owned()),
            ready: Some("sleep 1".to_owned()),
            user: "user".to_owned(),
            workdir: None,
            env: vec![("A".to_owned(), "1".to_owned())],
        })),
    }
}

fn context() -> BuildContext {
    BuildContext {
        user: "user".to_owned(),
        work_directory: None,
        environment: BTreeMap::from([("A".to_owned(), "1".to_owned())]),
    }
}

fn built() -> BuiltTemplate {
    BuiltTemplate {
        image: image(),
        context: context(),
        size: 4096,
    }
}

fn failure() -> BuildFailure {
    BuildFailure {
        phase: Some(BuildPhase::Step(2)),
        message: "it broke".to_owned(),
    }
}

#[tokio::test]
async fn a_template_keeps_its_id_over_builds_and_loses_it_with_its_deletion() {
    let record = Record::new().await;
    let (first, _) = record.request("app", &["default"]).await;
    let (second, _) = record.request("app", &["default"]).await;
    assert_eq!(first.id, second.id);
    let deleting = record
        .store
        .templates()
        .delete(first.id.clone(), Timestamp::now());
    let deleted = deleting.recorded().await.unwrap();
    assert_eq!(deleted, DeleteOutcome::Deleted(Vec::new()));
    let (third, _) = record.request("app", &["default"]).await;
    assert_ne!(first.id, third.id);
}

#[tokio::test]
async fn a_newer_request_fails_those_that_wait_with_a_tag_of_its_own() {
    let record = Record::new().await;
    let (_, old) = record.request("app", &["default"]).await;
    let (_, other) = record.request("app", &["v1"]).await;
    record.request("app", &["default", "v2"]).await;
    assert_eq!(record.status(old).await, BuildStatus::Error);
    assert_eq!(record.status(other).await, BuildStatus::Waiting);
}

#[tokio::test]
async fn an_order_survives_the_server_without_its_credentials() {
    let record = Record::new().await;
    let (template, build) = record.request("app", &["default"]).await;
    let order = record.order(&template, build);
    record.start(order.clone(), "d").await;
    let (other, private) = record.request("other", &["default"]).await;
    let secret = BuildOrder {
        base: BuildBase::Image {
            reference: "debian".to_owned(),
            credentials: Some(RegistryCredentials::Basic {
                username: "me".to_owned(),
                password: Redacted::new("hunter2".to_owned()),
            }),
        },
        ..record.order(&other, private)
    };
    record.start(secret, "d").await;
    let unfinished = record.store.builds().unfinished().await.unwrap();
    assert_eq!(unfinished[0].order.as_ref(), Some(&order));
    assert!(!unfinished[0].had_credentials);
    assert!(unfinished[1].had_credentials);
    record.store.flush().await.unwrap();
    let bytes = std::fs::read(record.directory.path().join("skep.db")).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("debian") && !text.contains("hunter2"));
}

#[tokio::test]
async fn a_start_is_idempotent_and_ends_what_it_takes_the_place_of() {
    let record = Record::new().await;
    let (template, old) = record.request("app", &["default"]).await;
    let order = record.order(&template, old);
    let started = |cancelled| StartOutcome::Started(StartedBuild { cancelled });
    assert_eq!(record.start(order.clone(), "d").await, started(Vec::new()));
    assert_eq!(
        record.start(order.clone(), "d").await,
        StartOutcome::Repeated
    );
    assert_eq!(record.start(order, "e").await, StartOutcome::NotWaiting);
    let (_, new) = record.request("app", &["default"]).await;
    let order = record.order(&template, new);
    assert_eq!(record.start(order, "d").await, started(vec![old]));
    assert!(!record.end(old, Ok(built())).await, "it was cancelled");
    let old = record.store.builds().find(old).await.unwrap().unwrap();
    assert_eq!(old.failure.unwrap().message, "build was cancelled");
}

#[tokio::test]
async fn a_team_runs_as_many_builds_as_it_may() {
    let record = Record::new().await;
    let mut waiting = Vec::new();
    for name in ["a", "b", "c"] {
        waiting.push(record.request(name, &["default"]).await);
    }
    let mut outcomes = Vec::new();
    for (template, build) in &waiting {
        outcomes.push(record.start(record.order(template, *build), "d").await);
    }
    assert_eq!(outcomes[2], StartOutcome::TooMany);
    record.end(waiting[0].1, Err(failure())).await;
    let (template, build) = &waiting[2];
    let again = record.start(record.order(template, *build), "d").await;
    assert!(matches!(again, StartOutcome::Started(_)));
}

#[tokio::test]
async fn a_tag_means_the_newest_build_that_is_ready() {
    let record = Record::new().await;
    let (template, one) = record.build("app", &["default", "v1"]).await;
    let (_, two) = record.build("app", &["default"]).await;
    let (_, broken) = record.request("app", &["default"]).await;
    record.end(broken, Err(failure())).await;
    assert_eq!(record.version(&template, "default").await, Some(two));
    assert_eq!(record.version(&template, "v1").await, Some(one));
    assert_eq!(record.version(&template, &one.to_string()).await, Some(one));
    assert_eq!(record.version(&template, &broken.to_string()).await, None);
    let tags = record.store.tags();
    let (id, now) = (template.id.clone(), Timestamp::now());
    let assigning = tags.assign(id.clone(), vec!["default".to_owned()], one, now);
    assigning.recorded().await.unwrap();
    assert_eq!(record.version(&template, "default").await, Some(one));
    let removing = tags.remove(id.clone(), vec!["v1".to_owned()], now);
    removing.recorded().await.unwrap();
    assert_eq!(record.version(&template, "v1").await, None);
    let listed = tags.list(id).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].build, one);
    let version = tags
        .version(template.id, "default".to_owned())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(version.built.context, context());
    assert_eq!(version.built.size, 4096);
}

#[tokio::test]
async fn a_template_in_use_is_not_deleted() {
    let record = Record::new().await;
    let (template, build) = record.build("app", &["default"]).await;
    record.sandbox_of(&template, build).await;
    let deleting = record
        .store
        .templates()
        .delete(template.id, Timestamp::now());
    assert_eq!(deleting.recorded().await.unwrap(), DeleteOutcome::Running);
}

/// Everything that may go goes.
fn now_or_never() -> BuildRetention {
    let soon = Timestamp::now() + jiff::SignedDuration::from_secs(60);
    BuildRetention {
        now: Timestamp::now(),
        failed_before: Some(soon),
        untagged_before: Some(soon),
        removed_before: soon,
    }
}

#[tokio::test]
async fn a_version_goes_when_no_tag_no_sandbox_and_no_snapshot_needs_it() {
    let record = Record::new().await;
    let builds = record.store.builds();
    let prune = async |limits| {
        let pruned = builds.prune(limits).recorded().await.unwrap();
        (pruned.removed, pruned.forgotten)
    };
    let (template, old) = record.build("app", &["default"]).await;
    let (_, new) = record.build("app", &["default"]).await;
    let (_, failed) = record.request("app", &["v2"]).await;
    record.end(failed, Err(failure())).await;

    // A paused sandbox has no end, and names the version that it was made of.
    let id = record.sandbox_of(&template, old).await;
    assert_eq!(prune(now_or_never()).await, (0, 1), "only what failed goes");
    assert_eq!(builds.find(failed).await.unwrap(), None);
    assert_eq!(record.version(&template, &old.to_string()).await, Some(old));

    record.end_sandbox(id).await;
    let never = BuildRetention {
        failed_before: None,
        untagged_before: None,
        ..now_or_never()
    };
    assert_eq!(
        prune(never).await,
        (0, 0),
        "it is kept until the operator says otherwise"
    );
    let not_yet = BuildRetention {
        removed_before: Timestamp::UNIX_EPOCH,
        ..now_or_never()
    };
    assert_eq!(prune(not_yet).await, (1, 0));
    assert_eq!(record.version(&template, &old.to_string()).await, None);
    assert_eq!(record.version(&template, "default").await, Some(new));
    // A create that had found it before comes to its record only now.
    let id = record.sandbox_of(&template, old).await;
    assert_eq!(prune(now_or_never()).await, (0, 0));
    assert_eq!(record.version(&template, &old.to_string()).await, Some(old));
    record.end_sandbox(id).await;
    assert_eq!(prune(now_or_never()).await, (1, 1));
    assert_eq!(builds.find(old).await.unwrap(), None);
    assert_eq!(builds.layers().await.unwrap().len(), 1);

    let deleting = record
        .store
        .templates()
        .delete(template.id, Timestamp::now());
    assert!(matches!(
        deleting.recorded().await.unwrap(),
        DeleteOutcome::Deleted(_)
    ));
    assert_eq!(prune(now_or_never()).await, (0, 1));
    assert!(builds.layers().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_log_is_read_by_the_number_of_its_lines() {
    let record = Record::new().await;
    let (_, build) = record.request("app", &["default"]).await;
    let log = record.store.builds().log(build);
    for number in 0..250 {
        let level = if number % 2 == 0 {
            LogLevel::Debug
        } else {
            LogLevel::Info
        };
        log.append(LogLine {
            // Clocks jump, and numbers do not.
            at: Timestamp::from_second(1000 - number).unwrap(),
            entry: BuildLogEntry {
                level,
                phase: Some(BuildPhase::Step(1)),
                message: number.to_string(),
            },
        });
    }
    record.end(build, Err(failure())).await;
    let read = async |level, offset, is_reversed| {
        let filter = LogFilter {
            level,
            offset,
            from: None,
            is_reversed,
            limit: 100,
        };
        let (found, lines) = record
            .store
            .builds()
            .status(build, filter)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(found.failure, Some(failure()));
        let messages = lines.into_iter().map(|line| line.entry.message);
        messages.collect::<Vec<_>>()
    };
    let all = read(LogLevel::Debug, 100, false).await;
    assert_eq!((all.len(), all[0].as_str()), (100, "100"));
    assert_eq!(read(LogLevel::Debug, 200, false).await.len(), 50);
    assert_eq!(read(LogLevel::Info, 1, false).await[0], "3");
    assert_eq!(read(LogLevel::Debug, 0, true).await[0], "249");
}
