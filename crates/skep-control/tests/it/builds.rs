//! Builds of templates, with a builder that a test plays.

use std::time::Duration;

use skep_control::{
    BuildLogQuery, BuildStatus, BuildView, Caller, Control, CreateRequest, FakeBuilds,
    LogDirection, RequestDigest, RequestedBase, RequestedStep, RequestedVersion, ResolveError,
    ResourceRequest, SnapshotName, SnapshotOrder, StartRequest, VersionError, VersionName,
    VersionRequest,
};
use skep_store::Store;
use skep_testkit::wait_until;
use skep_types::{
    BuildBase, BuildPhase, BuildStep, Capabilities, ImageKind, Instruction, LogLevel, Redacted,
    RegistryCredentials, TemplateReference,
};
use tempfile::TempDir;

use crate::{anybody, control_with, fake, request, store};

/// Longest time for something that happens at once.
const SOON: Duration = Duration::from_secs(10);

struct Bench {
    directory: TempDir,
    store: Store,
    nodes: std::sync::Arc<skep_control::FakeNodes>,
    builds: FakeBuilds,
    control: Control,
    caller: Caller,
}

impl Bench {
    async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let store = store(directory.path());
        let (nodes, builds) = (fake(&store), FakeBuilds::default());
        let control = control_with(&store, nodes.clone(), builds.clone()).await;
        let caller = anybody(&control).await;
        Self {
            directory,
            store,
            nodes,
            builds,
            control,
            caller,
        }
    }

    async fn request(&self, name: &str) -> RequestedVersion {
        let reference = name.parse().unwrap();
        let request = VersionRequest {
            name: VersionName::new(reference, Vec::new(), &self.caller.team).unwrap(),
            resources: ResourceRequest::default(),
        };
        let requested = self.control.request_version(&self.caller, request);
        requested.await.unwrap()
    }

    async fn start(&self, version: &RequestedVersion, request: StartRequest) {
        let starting = self.try_start(version, request).await;
        starting.unwrap();
    }

    async fn try_start(
        &self,
        version: &RequestedVersion,
        request: StartRequest,
    ) -> Result<(), VersionError> {
        let template = reference(version);
        let build = version.build.build;
        let control = &self.control;
        control
            .start_version(&self.caller, template, build, request)
            .await
    }

    async fn build(&self, name: &str) -> RequestedVersion {
        let version = self.request(name).await;
        self.start(&version, steps("true")).await;
        self.builds.succeed();
        self.ended(&version).await;
        version
    }

    async fn view(&self, version: &RequestedVersion) -> BuildView {
        let query = BuildLogQuery {
            level: LogLevel::Debug,
            offset: 0,
            from: None,
            direction: LogDirection::Forward,
            limit: 100,
        };
        let (template, build) = (reference(version), version.build.build);
        let viewing = self
            .control
            .build_status(&self.caller, &template, build, query);
        viewing.await.unwrap()
    }

    /// Waits until a build has ended.
    async fn ended(&self, version: &RequestedVersion) -> BuildView {
        wait_until(SOON, async || {
            let view = self.view(version).await;
            match view.build.status {
                BuildStatus::Ready | BuildStatus::Error => Ok(view),
                status @ (BuildStatus::Waiting | BuildStatus::Building) => {
                    Err(format!("it is {status:?}"))
                }
            }
        })
        .await
    }

    async fn create(&self, template: &str) -> std::sync::Arc<skep_control::Order> {
        let request = CreateRequest {
            template: template.parse().unwrap(),
            ..request()
        };
        self.control.create(&self.caller, request).await.unwrap()
    }
}

fn reference(version: &RequestedVersion) -> TemplateReference {
    version.build.template.id.as_str().parse().unwrap()
}

fn steps(command: &str) -> StartRequest {
    let run = Instruction::Run {
        command: command.to_owned(),
        user: None,
    };
    StartRequest {
        base: RequestedBase::Template("base".to_owned()),
        steps: Ok(vec![RequestedStep::Own(BuildStep {
            instruction: run,
            force: false,
        })]),
        start_command: None,
        ready_command: None,
        force: false,
        digest: RequestDigest::of(&[command.as_bytes()]),
    }
}

#[tokio::test]
async fn a_built_template_makes_sandboxes_by_every_one_of_its_names() {
    let bench = Bench::new().await;
    let version = bench.build("app").await;
    let (id, build) = (&version.build.template.id, version.build.build);
    for name in [
        "app".to_owned(),
        "default/app".to_owned(),
        format!("app:{build}"),
        id.to_string(),
    ] {
        let order = bench.create(&name).await;
        assert_eq!(order.template, *id, "{name}");
        assert_eq!(order.template_name, "app");
        assert_eq!(order.base, format!("{id}:{build}"));
        let kill = bench.control.kill(&bench.caller, &order.id).await;
        kill.unwrap();
    }
    // Others still find what belongs to everybody.
    assert_eq!(bench.create("base").await.base, "base");
}

#[tokio::test]
async fn a_template_without_a_ready_build_says_why() {
    let bench = Bench::new().await;
    let version = bench.request("app:v1").await;
    let create = async |name: &str| {
        let request = CreateRequest {
            template: name.parse().unwrap(),
            ..request()
        };
        let refused = bench.control.create(&bench.caller, request).await;
        refused.unwrap_err().to_string()
    };
    assert_eq!(create("app:v1").await, "template 'app:v1' is not ready yet");
    assert_eq!(
        create("app").await,
        "tag 'default' does not exist for template 'app'"
    );
    bench.start(&version, steps("false")).await;
    bench.builds.fail(Some(BuildPhase::Step(1)), "it broke");
    bench.ended(&version).await;
    assert_eq!(
        create("app:v1").await,
        "tag 'v1' does not exist for template 'app'"
    );
}

#[tokio::test]
async fn a_rebuild_takes_the_place_of_the_one_that_runs() {
    let bench = Bench::new().await;
    let old = bench.request("app").await;
    bench.start(&old, steps("one")).await;
    bench.start(&old, steps("one")).await;
    assert_eq!(bench.builds.orders().len(), 1, "a start may be repeated");
    let refused = bench.try_start(&old, steps("another")).await;
    assert!(matches!(refused, Err(VersionError::NotWaiting)));
    let new = bench.request("app").await;
    bench.start(&new, steps("two")).await;
    assert_eq!(bench.builds.cancelled(), [old.build.build]);
    let failure = bench.view(&old).await.build.failure.unwrap();
    assert_eq!(failure.message, "build was cancelled");
    assert_eq!(failure.phase, None);
}

#[tokio::test]
async fn a_base_or_a_step_that_is_wrong_is_a_failure_of_the_build() {
    let bench = Bench::new().await;
    let version = bench.request("app").await;
    let wrong = StartRequest {
        base: RequestedBase::Template("nope".to_owned()),
        ..steps("true")
    };
    bench.start(&version, wrong).await;
    let view = bench.ended(&version).await;
    let failure = view.build.failure.unwrap();
    assert_eq!(failure.message, "template 'nope' not found");
    assert_eq!(failure.phase, Some(BuildPhase::Base));
    assert_eq!(
        view.lines[0].entry.message,
        "Build failed: template 'nope' not found"
    );
    assert_eq!(bench.builds.orders(), []);
}

#[tokio::test]
async fn a_build_begins_where_the_one_before_it_ended() {
    let bench = Bench::new().await;
    let parent = bench.build("parent:v1").await;
    let child = bench.request("child").await;
    let request = StartRequest {
        base: RequestedBase::Template("parent:v1".to_owned()),
        ..steps("true")
    };
    bench.start(&child, request).await;
    let order = bench.builds.orders().pop().unwrap();
    let BuildBase::Template { image, context, .. } = order.base else {
        panic!("it has a template as its base");
    };
    assert_eq!(image.name, "parent");
    assert_eq!(context.user, "user");
    assert_ne!(order.template, parent.build.template.id);
}

#[tokio::test]
async fn the_next_server_takes_up_what_was_being_built() {
    let bench = Bench::new().await;
    let version = bench.request("app").await;
    bench.start(&version, steps("true")).await;
    let private = bench.request("private").await;
    let secret = StartRequest {
        base: RequestedBase::Image {
            reference: "debian".to_owned(),
            credentials: Some(RegistryCredentials::Basic {
                username: "me".to_owned(),
                password: Redacted::new("secret".to_owned()),
            }),
        },
        ..steps("true")
    };
    bench.start(&private, secret).await;
    let builds = FakeBuilds::default();
    let control = control_with(&bench.store, bench.nodes.clone(), builds.clone()).await;
    let bench = Bench {
        control,
        builds,
        ..bench
    };
    let order = bench.builds.orders();
    assert_eq!(order.len(), 1, "one is taken up");
    assert_eq!(order[0].build, version.build.build);
    let failure = bench.ended(&private).await.build.failure.unwrap();
    assert!(failure.message.contains("credentials"), "{failure}");
    bench.builds.succeed();
    assert_eq!(bench.ended(&version).await.build.status, BuildStatus::Ready);
    drop(bench.directory);
}

#[tokio::test]
async fn a_snapshot_keeps_the_version_that_it_stands_on() {
    let bench = Bench::new().await;
    bench.nodes.set_capabilities(Capabilities::all());
    let version = bench.build("app").await;
    let sandbox = bench.create("app").await;
    let name = SnapshotName::new("snap".parse().unwrap(), &bench.caller.team).unwrap();
    let order = SnapshotOrder {
        name: Some(name),
        kind: ImageKind::Filesystem,
    };
    let taken = bench
        .control
        .snapshot(&bench.caller, &sandbox.id, order)
        .await
        .unwrap();
    let fixed = format!("{}:{}", version.build.template.id, version.build.build);
    assert_eq!(taken.template_name, fixed);
    bench.build("app").await;
    let copy = bench.create("snap").await;
    assert_eq!(copy.base, fixed);
    let delete = async |name: &str| {
        let reference = name.parse().unwrap();
        let deleting = bench.control.delete_template(&bench.caller, &reference);
        deleting.await.map_err(|error| error.to_string())
    };
    let refused = |users: &str| {
        let text = "cannot delete template 'app' because there are";
        Err(format!("{text} {users} using it"))
    };
    assert_eq!(delete("app").await, refused("running sandboxes"));
    for id in [&sandbox.id, &copy.id] {
        bench.control.kill(&bench.caller, id).await.unwrap();
    }
    assert_eq!(delete("app").await, refused("snapshots"));
    assert_eq!(delete("snap").await, Ok(()));
    assert_eq!(delete("app").await, Ok(()));
    let name = "app".parse().unwrap();
    let gone = bench.control.find_template(&bench.caller, &name).await;
    assert!(matches!(gone, Err(ResolveError::NotFound { .. })));
}

#[tokio::test]
async fn a_team_has_a_limit_of_builds() {
    let mut bench = Bench::new().await;
    bench.caller.limits.builds = 1;
    let one = bench.request("one").await;
    let two = bench.request("two").await;
    bench.start(&one, steps("true")).await;
    let refused = bench.try_start(&two, steps("true")).await;
    assert!(matches!(
        refused,
        Err(VersionError::TooManyBuilds { limit: 1 })
    ));
    bench.builds.succeed();
    bench.ended(&one).await;
    bench.start(&two, steps("true")).await;
}
