//! Builds through the engine's boundary, over fakes and a real store of layers.

#![expect(clippy::unwrap_used, reason = "a test's panic is its report")]

mod steps;

use std::sync::Arc;
use std::time::Duration;

use skep_build::fake::{Answer, CHANGED, FakeArchives, FakeImages, FakeReports, FakeSandboxes};
use skep_build::{Engine, EngineOptions, HostSettings, Limits};
use skep_control::Builds as _;
use skep_image::Catalog;
use skep_types::{
    BuildBase, BuildContext, BuildFailure, BuildId, BuildOrder, BuildPhase, BuildStep,
    BuiltTemplate, Instruction, LayerKey, PulledImage, Resources, Sharing, TeamId, TemplateId,
    TemplateImage,
};

struct Host {
    engine: Engine,
    sandboxes: FakeSandboxes,
    archives: Arc<FakeArchives>,
    _directory: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    fn with_limits(limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let sandboxes = FakeSandboxes::default();
        let archives = Arc::new(FakeArchives::default());
        let images = FakeImages {
            reference: "debian:13".to_owned(),
            image: PulledImage {
                digest: "sha256:1".to_owned(),
                layers: vec![LayerKey::from([7; 32])],
                environment: vec![("LANG".to_owned(), "C".to_owned())],
            },
        };
        let engine = Engine::new(EngineOptions {
            catalog: Arc::new(Catalog::open(&directory.path().join("cache")).unwrap()),
            sandboxes: Arc::new(sandboxes.clone()),
            archives: archives.clone(),
            images: Arc::new(images),
            host_settings: HostSettings {
                files: vec![("/etc/pip.conf".to_owned(), "[global]".to_owned())],
                environment: vec![
                    ("PROXY".to_owned(), "host".to_owned()),
                    ("LANG".to_owned(), "host".to_owned()),
                ],
            },
            scratch: directory.path().to_owned(),
            reserve: None,
            limits,
        });
        Self {
            engine,
            sandboxes,
            archives,
            _directory: directory,
        }
    }

    /// Builds, and returns the log without keys and the end.
    async fn build(&self, order: BuildOrder) -> (Vec<String>, Result<BuiltTemplate, BuildFailure>) {
        let reports = Arc::new(FakeReports::default());
        self.engine.start(order, reports.clone());
        let end = reports.end().await;
        let lines = reports
            .messages()
            .into_iter()
            .filter(|line| !line.contains("] layer of "))
            .map(|line| without_key(&line));
        (lines.collect(), end)
    }
}

/// A line without the key of its step, and without the ids of its build.
fn without_key(line: &str) -> String {
    if line.starts_with("Building template ") {
        return "Building template".to_owned();
    }
    match line.rsplit_once(" [") {
        Some((line, key)) if key.ends_with(']') && key.len() == 13 => line.to_owned(),
        _ => line.to_owned(),
    }
}

fn base() -> TemplateImage {
    TemplateImage {
        id: "basebasebasebasebase".parse::<TemplateId>().unwrap(),
        name: "base".to_owned(),
        layers: vec![LayerKey::from([1; 32])],
        env: Vec::new(),
        user: "user".to_owned(),
        workdir: None,
        resources: Resources::default(),
        sharing: Sharing::default(),
        start: None,
    }
}

fn order(team: &TeamId, steps: Vec<Instruction>) -> BuildOrder {
    let steps = steps.into_iter().map(|instruction| BuildStep {
        instruction,
        force: false,
    });
    BuildOrder {
        build: BuildId::random(),
        template: TemplateId::random(),
        team: team.clone(),
        base: BuildBase::Template {
            reference: "base".to_owned(),
            image: Box::new(base()),
            context: BuildContext {
                user: "user".to_owned(),
                work_directory: None,
                environment: Default::default(),
            },
        },
        steps: steps.collect(),
        start_command: None,
        ready_command: None,
        resources: Resources::default(),
        force: false,
    }
}

fn run(command: &str) -> Instruction {
    Instruction::Run {
        command: command.to_owned(),
        user: None,
    }
}

fn env(name: &str, value: &str) -> Instruction {
    Instruction::Environment(vec![(name.to_owned(), value.to_owned())])
}

#[tokio::test]
async fn a_second_build_finds_all_steps_and_starts_no_sandbox() {
    let host = Host::new();
    let team = TeamId::random();
    let steps = || vec![env("ENV_VAR", "Hello, World!"), run("make"), run("test")];
    host.sandboxes.answer("make", Answer::Exit(0, "made\n"));
    let (log, first) = host.build(order(&team, steps())).await;
    assert_eq!(
        log,
        [
            "Building template",
            "CACHED [base] FROM TEMPLATE base",
            "[builder 1/3] ENV ENV_VAR Hello, World!",
            "[builder 2/3] RUN make",
            "[builder 2/3] [stdout]: made",
            "[builder 3/3] RUN test",
            "[finalize] Finalizing template build",
            "Build finished, took 0s",
        ]
    );
    let events = host.sandboxes.events();
    assert_eq!(
        events,
        [
            "open 1", "run make", "seal", "close", "open 2", "run test", "seal", "close"
        ]
    );
    let (log, second) = host.build(order(&team, steps())).await;
    assert_eq!(
        log[2..5],
        [
            "CACHED [builder 1/3] ENV ENV_VAR Hello, World!",
            "CACHED [builder 2/3] RUN make",
            "CACHED [builder 3/3] RUN test",
        ]
    );
    assert_eq!(host.sandboxes.events().len(), events.len());
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(first.image.layers, second.image.layers);
    assert_eq!(first.image.layers.len(), 3);
    assert_eq!(
        second.image.env,
        [("ENV_VAR".to_owned(), "Hello, World!".to_owned())]
    );
    assert_eq!(first.size, second.size);
}

#[tokio::test]
async fn another_team_and_a_changed_step_find_nothing() {
    let host = Host::new();
    let team = TeamId::random();
    let built = |end: Result<BuiltTemplate, BuildFailure>| end.unwrap().image.layers;
    let (_, first) = host.build(order(&team, vec![run("a"), run("b")])).await;
    let (log, changed) = host.build(order(&team, vec![run("a2"), run("b")])).await;
    assert!(
        !log.iter().any(|line| line.starts_with("CACHED [builder")),
        "{log:?}"
    );
    let (log, other) = host
        .build(order(&TeamId::random(), vec![run("a"), run("b")]))
        .await;
    assert!(
        !log.iter().any(|line| line.starts_with("CACHED [builder")),
        "{log:?}"
    );
    let (first, changed, other) = (built(first), built(changed), built(other));
    assert_eq!(first[0], other[0]);
    assert!(first[1] != other[1] && first[1] != changed[1] && first[2] != changed[2]);
}

#[tokio::test]
async fn a_forced_step_is_done_again_with_all_that_follow_and_found_from_then_on() {
    let host = Host::new();
    let team = TeamId::random();
    let steps = || vec![run("a"), run("b"), run("c")];
    let (_, first) = host.build(order(&team, steps())).await;
    let mut forced = order(&team, steps());
    forced.steps[1].force = true;
    let (log, again) = host.build(forced).await;
    assert_eq!(
        log[2..5],
        [
            "CACHED [builder 1/3] RUN a",
            "[builder 2/3] RUN b",
            "[builder 3/3] RUN c"
        ]
    );
    let (first, again) = (first.unwrap().image.layers, again.unwrap().image.layers);
    assert_eq!(first[..2], again[..2]);
    assert!(first[2] != again[2] && first[3] != again[3]);
    let (_, third) = host.build(order(&team, steps())).await;
    assert_eq!(third.unwrap().image.layers, again);
}

#[tokio::test]
async fn a_build_that_is_cancelled_says_so_once_and_leaves_no_sandbox() {
    let host = Host::new();
    host.sandboxes.answer("forever", Answer::Hang);
    let order = order(&TeamId::random(), vec![run("forever")]);
    let build = order.build;
    let reports = Arc::new(FakeReports::default());
    host.engine.start(order, reports.clone());
    host.sandboxes.wait_for_event("run forever").await;
    host.engine.cancel(build);
    let end = reports.end().await.unwrap_err();
    assert_eq!(
        (end.phase, end.message.as_str()),
        (None, "build was cancelled")
    );
    assert_eq!(host.sandboxes.open_count(), 0);
    assert_eq!(
        reports.messages().last().unwrap(),
        "Build failed: build was cancelled"
    );
    host.engine.cancel(build);
}

#[tokio::test]
async fn a_build_has_a_time_limit() {
    let limits = Limits {
        time: Duration::from_millis(50),
        ..Limits::default()
    };
    let host = Host::with_limits(limits);
    host.sandboxes.answer("forever", Answer::Hang);
    let (_, end) = host
        .build(order(&TeamId::random(), vec![run("forever")]))
        .await;
    assert_eq!(
        end.unwrap_err().message,
        "the build took longer than 0 minutes"
    );
    assert_eq!(host.sandboxes.open_count(), 0);
}

#[tokio::test]
async fn a_step_that_makes_the_template_too_large_is_at_fault_and_the_ones_before_it_stay() {
    let team = TeamId::random();
    let two = || vec![run("a"), run("b")];
    // In whatever units the file system of this host takes.
    let (_, built) = Host::new().build(order(&team, two())).await;
    let host = Host::with_limits(Limits {
        template_bytes: built.unwrap().size + CHANGED.len() as u64 - 1,
        ..Limits::default()
    });
    let three = [two(), vec![run("c")]].concat();
    let (_, end) = host.build(order(&team, three)).await;
    let failure = end.unwrap_err();
    assert_eq!(failure.phase, Some(BuildPhase::Step(3)));
    let is_told = failure.message.contains("larger than it may be");
    assert!(is_told, "{}", failure.message);
    assert_eq!(host.sandboxes.open_count(), 0);
    // The control: without that step it is small enough, and what was made is kept.
    let (log, end) = host.build(order(&team, two())).await;
    end.unwrap();
    assert_eq!(
        log[2..4],
        ["CACHED [builder 1/2] RUN a", "CACHED [builder 2/2] RUN b"]
    );
}

#[tokio::test]
async fn a_server_that_stops_breaks_builds_off_without_an_end() {
    let host = Host::new();
    host.sandboxes.answer("forever", Answer::Hang);
    let team = TeamId::random();
    let reports = Arc::new(FakeReports::default());
    host.engine.start(
        order(&team, vec![run("a"), run("forever")]),
        reports.clone(),
    );
    host.sandboxes.wait_for_event("run forever").await;
    host.engine.shut_down().await;
    assert_eq!(host.sandboxes.open_count(), 0);
    assert!(
        !reports
            .messages()
            .iter()
            .any(|line| line.starts_with("Build f"))
    );
}

#[tokio::test]
async fn an_image_is_provisioned_once_and_others_are_refused_at_the_base() {
    let host = Host::new();
    let team = TeamId::random();
    let image = |reference: &str| BuildOrder {
        base: BuildBase::Image {
            reference: reference.to_owned(),
            credentials: None,
        },
        ..order(&team, vec![run("make")])
    };
    let (log, built) = host.build(image("debian:13")).await;
    assert_eq!(
        log[1..3],
        [
            "[base] layer 1: 8 MiB of 9 MiB",
            "[base] FROM debian:13@sha256:1"
        ]
    );
    let built = built.unwrap();
    assert_eq!(
        (built.image.user.as_str(), built.image.layers.len()),
        ("user", 3)
    );
    // It has the settings of the host, before packages are installed and after that.
    let events = host.sandboxes.events();
    let written = events
        .iter()
        .filter(|event| *event == "write /etc/pip.conf");
    assert_eq!(written.count(), 2);
    assert_eq!(built.context.environment["PROXY"], "host");
    assert_eq!(built.context.environment["LANG"], "C");
    let (log, _) = host.build(image("debian:13")).await;
    assert!(
        log.contains(&"CACHED [base] DEFAULT USER user".to_owned()),
        "{log:?}"
    );
    for (reference, message) in [
        ("nope:1", "image 'nope:1' not found"),
        (
            "python:${V}",
            "image 'python:${V}' has a variable 'V', which nothing sets; write the image itself",
        ),
    ] {
        let (_, refused) = host.build(image(reference)).await;
        let refused = refused.unwrap_err();
        assert_eq!(
            (refused.phase, refused.message.as_str()),
            (Some(BuildPhase::Base), message)
        );
    }
}
