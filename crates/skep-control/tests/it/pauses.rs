//! Pauses, resumes and copies, and what they do to quotas and the database.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use skep_control::{
    ChangeError, CheckpointRecord, ConnectOrder, Control, CreateRequest, FakeNodes, ForkRequest,
    IfRunning, Lifetime, PauseOrder, SnapshotError, SnapshotName, SnapshotOrder, SnapshotQuery,
};
use skep_store::Store;
use skep_types::{
    Capabilities, Capability, Egress, ImageKind, OnTimeout, Phase, ResumeStart, RollBackRequest,
    SandboxId, TransitionError, Unsupported,
};
use tempfile::TempDir;

use crate::{anybody, control, fake, request, store};

const HOUR: Duration = Duration::from_secs(3600);

struct Stage {
    _directory: TempDir,
    store: Store,
    nodes: Arc<FakeNodes>,
    control: Control,
}

async fn stage(capabilities: Capabilities) -> Stage {
    let directory = TempDir::new().unwrap();
    let store = store(directory.path());
    let nodes = fake(&store);
    nodes.set_capabilities(capabilities);
    let control = control(&store, Arc::<FakeNodes>::clone(&nodes)).await;
    Stage {
        _directory: directory,
        store,
        nodes,
        control,
    }
}

fn with_memory() -> PauseOrder {
    PauseOrder {
        kind: ImageKind::Memory,
        needs_agent: false,
        asked_after: None,
    }
}

fn order(lifetime: Duration) -> ConnectOrder {
    ConnectOrder {
        lifetime: Some(lifetime),
        start: ResumeStart::AsPaused,
        on_timeout: None,
        if_running: IfRunning::Extend,
    }
}

async fn created(control: &Control) -> SandboxId {
    let caller = anybody(control).await;
    control.create(&caller, request()).await.unwrap().id.clone()
}

#[tokio::test]
async fn whoever_may_have_asked_before_the_pause_has_paused_it_too() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let id = created(control).await;
    let asked_after = |asked_after| PauseOrder {
        asked_after: Some(asked_after),
        ..with_memory()
    };
    let before = Timestamp::now();
    control.pause(&caller, &id, with_memory()).await.unwrap();

    let joined = control.pause(&caller, &id, asked_after(before)).await;

    assert_eq!(joined.unwrap().status.phase, Phase::Paused);
    for late in [asked_after(Timestamp::now()), with_memory()] {
        let refused = control.pause(&caller, &id, late).await.unwrap_err();
        assert!(
            matches!(refused, ChangeError::Conflict { .. }),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_paused_sandbox_is_shown_and_does_not_count() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let (first, second) = (created(control).await, created(control).await);
    control.create(&caller, request()).await.unwrap_err();

    let paused = control.pause(&caller, &first, with_memory()).await;

    assert_eq!(paused.unwrap().status.phase, Phase::Paused);
    let shown = control.find(&caller, &first).await.unwrap();
    assert_eq!(shown.status.paused, Some(ImageKind::Memory));
    let row = stage.store.sandboxes().find(first.clone()).await.unwrap();
    assert_eq!(row.unwrap().phase(), Phase::Paused);
    let again = control.pause(&caller, &first, with_memory()).await;
    assert!(matches!(again, Err(ChangeError::Conflict { .. })));

    let third = created(control).await;
    let full = control.connect(&caller, &first, order(HOUR)).await;
    assert!(matches!(full, Err(ChangeError::QuotaReached(_))));
    for id in [second, third] {
        control.kill(&caller, &id).await.unwrap();
    }
    let resumed = control.connect(&caller, &first, order(HOUR)).await.unwrap();
    assert!(resumed.was_resumed);
    assert_eq!(resumed.sandbox.status.phase, Phase::Running);
    let row = stage.store.sandboxes().find(first.clone()).await.unwrap();
    assert_eq!(row.unwrap().phase(), Phase::Running);
    let only_paused = ConnectOrder {
        if_running: IfRunning::Refuse,
        ..order(HOUR)
    };
    let running = control.connect(&caller, &first, only_paused).await;
    assert!(matches!(running, Err(ChangeError::Conflict { .. })));
    let running = control.connect(&caller, &first, order(HOUR)).await.unwrap();
    assert!(!running.was_resumed);
    created(control).await;
    control.create(&caller, request()).await.unwrap_err();
}

#[tokio::test]
async fn paused_sandboxes_are_paused_and_uncounted_after_a_restart() {
    let stage = stage(Capabilities::all()).await;
    let caller = anybody(&stage.control).await;
    let id = created(&stage.control).await;
    let pausing = stage.control.pause(&caller, &id, with_memory());
    pausing.await.unwrap();

    let next = control(&stage.store, Arc::<FakeNodes>::clone(&stage.nodes)).await;

    let found = next.find(&caller, &id).await.unwrap();
    assert_eq!(found.status.phase, Phase::Paused);
    for _ in 0..2 {
        created(&next).await;
    }
}

#[tokio::test]
async fn what_a_host_cannot_do_is_said() {
    let stage = stage(Capabilities::default()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let id = created(control).await;
    let check = |answer: Result<(), ChangeError>, capability| match answer {
        Err(ChangeError::Node(TransitionError::Unsupported(Unsupported(found)))) => {
            assert_eq!(found, capability);
        }
        other => panic!("{other:?}"),
    };
    let paused = control.pause(&caller, &id, with_memory()).await;
    check(paused.map(drop), Capability::Freeze);
    let changed = control.set_egress(&caller, &id, Egress::closed()).await;
    check(changed, Capability::EgressChange);
    let SnapshotError::Change(forked) = fork(control, &id, 1).await.unwrap_err() else {
        panic!("a fork is refused for what the host cannot do");
    };
    check(Err(forked), Capability::Checkpoint);
}

async fn fork(
    control: &Control,
    id: &SandboxId,
    count: usize,
) -> Result<Vec<Option<SandboxId>>, SnapshotError> {
    let caller = anybody(control).await;
    let lifetime = Lifetime::new(60, HOUR).unwrap();
    let copies = control.fork(&caller, id, ForkRequest { count, lifetime });
    let ids = copies.await?.into_iter();
    Ok(ids
        .map(|copy| copy.ok().map(|order| order.id.clone()))
        .collect())
}

#[tokio::test]
async fn a_fork_makes_as_many_copies_as_the_team_may_have() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let source = created(control).await;
    let copies = fork(control, &source, 3).await.unwrap();
    let made: Vec<_> = copies.iter().flatten().collect();
    assert_eq!((copies.len(), made.len()), (3, 1));
    let spec = stage.nodes.spec(made[0]).unwrap();
    assert!(spec.checkpoint.is_some() && *made[0] != source);
    assert_eq!(stage.nodes.image_count(), 0, "the image was for this fork");
}

/// Copies had the fate that their source was ordered with, whatever it was resumed with since.
#[tokio::test]
async fn copies_have_the_fate_that_their_source_has_now() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let source = created(control).await;
    control
        .pause(&caller, &source, with_memory())
        .await
        .unwrap();
    let fate = OnTimeout::Pause(ImageKind::Filesystem);
    let resume = ConnectOrder {
        on_timeout: Some(fate),
        ..order(HOUR)
    };
    control.connect(&caller, &source, resume).await.unwrap();
    let copies = fork(control, &source, 1).await.unwrap();
    let copy = copies[0].as_ref().unwrap();
    assert_eq!(stage.nodes.spec(copy).unwrap().on_timeout, fate);
    let copies = fork(control, copy, 1).await;
    assert!(copies.is_ok(), "a copy of a copy");
}

#[tokio::test]
async fn a_sandbox_that_is_not_there_is_told_before_a_quota_that_is_full() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let mut caller = anybody(control).await;
    caller.limits.snapshots = 0;
    let files = || SnapshotOrder {
        name: None,
        kind: ImageKind::Filesystem,
    };
    let nobody = SandboxId::random();
    let asked = control.snapshot(&caller, &nobody, files());
    let unknown = asked.await.unwrap_err();
    let not_found = matches!(unknown, SnapshotError::Change(ChangeError::NotFound(_)));
    assert!(not_found, "{unknown}");
    let id = created(control).await;
    let full = control.snapshot(&caller, &id, files()).await.unwrap_err();
    assert!(matches!(full, SnapshotError::TooMany { .. }), "{full}");
}

#[tokio::test]
async fn a_snapshot_is_a_template_and_outlives_its_sandbox_until_it_is_forgotten() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let id = created(control).await;
    let named = |text: &str| SnapshotOrder {
        name: Some(SnapshotName::new(text.parse().unwrap(), &caller.team).unwrap()),
        kind: ImageKind::Filesystem,
    };
    let first = control.snapshot(&caller, &id, named("mine")).await.unwrap();
    let second = control
        .snapshot(&caller, &id, named("mine:v2"))
        .await
        .unwrap();
    assert_eq!(second.parent, Some(first.id.clone()));
    let third = control.snapshot(&caller, &id, named("mine")).await.unwrap();
    assert_eq!(stage.nodes.image_count(), 2, "the first was replaced");
    let second = CheckpointRecord {
        parent: None,
        ..second
    };
    let reference = "mine".parse().unwrap();
    let shown = control.find_template(&caller, &reference);
    assert_eq!(shown.await.unwrap().id, third.snapshot);
    let (history, position) = control.checkpoints(&caller, &id, 10).await.unwrap();
    assert_eq!(history, [third.clone(), second.clone()]);
    assert_eq!(position, Some(third.id.clone()));
    control.kill(&caller, &id).await.unwrap();
    let page = control.snapshots(&caller, every()).await.unwrap();
    assert_eq!(page.items, [third.clone(), second.clone()]);

    for (reference, wanted) in [("mine", &third), ("mine:v2", &second)] {
        let order = CreateRequest {
            template: reference.parse().unwrap(),
            ..request()
        };
        let made = control.create(&caller, order).await.unwrap();
        let spec = stage.nodes.spec(&made.id).unwrap();
        assert_eq!(spec.checkpoint.as_ref(), Some(&wanted.checkpoint));
        assert_eq!(
            (&made.template, made.base.as_str()),
            (&wanted.snapshot, "base")
        );
        assert_eq!(made.template_name, "mine");
        control.kill(&caller, &made.id).await.unwrap();
    }

    let reference = "mine".parse().unwrap();
    assert!(control.forget_snapshot(&caller, &reference).await.unwrap());
    assert_eq!(stage.nodes.image_count(), 0);
    let nothing = control.checkpoints(&caller, &id, 10).await.unwrap_err();
    assert!(
        matches!(nothing, SnapshotError::Change(ChangeError::NotFound(_))),
        "{nothing}"
    );
    assert!(!control.forget_snapshot(&caller, &reference).await.unwrap());
    let foreign = SnapshotName::new("others/mine".parse().unwrap(), &caller.team);
    foreign.unwrap_err();
}

fn every() -> SnapshotQuery {
    SnapshotQuery {
        limit: 100,
        ..SnapshotQuery::default()
    }
}

#[tokio::test]
async fn a_sandbox_goes_back_to_a_snapshot_and_its_history_branches() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let id = created(control).await;
    let unnamed = || SnapshotOrder {
        name: None,
        kind: ImageKind::Memory,
    };
    let first = control.snapshot(&caller, &id, unnamed()).await.unwrap();
    let second = control.snapshot(&caller, &id, unnamed()).await.unwrap();
    let reference = first.snapshot.to_string().parse().unwrap();
    let back = control
        .roll_back(&caller, &id, reference, HOUR)
        .await
        .unwrap();
    assert_eq!(back.status.phase, Phase::Running);
    let wanted = RollBackRequest {
        checkpoint: first.checkpoint.clone(),
        lifetime: HOUR,
        restart: None,
    };
    assert_eq!(stage.nodes.rolled_back(), [wanted]);
    let third = control.snapshot(&caller, &id, unnamed()).await.unwrap();
    assert_eq!(second.parent, Some(first.id.clone()));
    assert_eq!(third.parent, Some(first.id), "a second branch");
    let unknown = control
        .roll_back(&caller, &id, "nothing".parse().unwrap(), HOUR)
        .await;
    assert!(matches!(unknown, Err(SnapshotError::NoSnapshot(_))));
}

/// It had the start command, and its copies the environment, of the template that it was ordered of.
#[tokio::test]
async fn a_sandbox_that_goes_back_to_another_templates_snapshot_is_made_of_that_template() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let files = || SnapshotOrder {
        name: None,
        kind: ImageKind::Filesystem,
    };
    let order = CreateRequest {
        template: "code-interpreter".parse().unwrap(),
        ..request()
    };
    let other = control.create(&caller, order).await.unwrap();
    let snapshot = control.snapshot(&caller, &other.id, files()).await.unwrap();
    control.kill(&caller, &other.id).await.unwrap();
    let id = created(control).await;
    let back = snapshot.snapshot.to_string().parse().unwrap();
    control.roll_back(&caller, &id, back, HOUR).await.unwrap();

    let later = control.snapshot(&caller, &id, files()).await.unwrap();
    assert_eq!(later.template_name, "code-interpreter");
    let copies = fork(control, &id, 1).await.unwrap();
    let copy = stage.nodes.spec(copies[0].as_ref().unwrap()).unwrap();
    assert_eq!(copy.template.name, "code-interpreter");
    let kept = stage.store.sandboxes().find(id.clone()).await.unwrap();
    assert_eq!(kept.unwrap().order.base, "code-interpreter");
}

#[tokio::test]
async fn many_who_connect_to_a_paused_sandbox_take_one_part_of_the_quota() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let (id, other) = (created(control).await, created(control).await);
    control.pause(&caller, &id, with_memory()).await.unwrap();

    let calls = (0..8).map(|_| control.connect(&caller, &id, order(HOUR)));
    let connected = futures_util::future::try_join_all(calls).await.unwrap();

    let resumed = connected.iter().filter(|one| one.was_resumed).count();
    assert!(resumed >= 1, "{resumed}");
    control.create(&caller, request()).await.unwrap_err();
    control.kill(&caller, &other).await.unwrap();
    created(control).await;
}

#[tokio::test]
async fn a_request_resumes_a_sandbox_for_as_long_as_it_was_created_and_five_minutes_at_least() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let id = created(control).await;
    control.pause(&caller, &id, with_memory()).await.unwrap();
    control.auto_resume(&id).await.unwrap();
    let status = control.find(&caller, &id).await.unwrap().status;
    let lifetime = status.ends_at.duration_since(status.started_at);
    assert!((299..=300).contains(&lifetime.as_secs()), "{lifetime:?}");
    let unknown = control.auto_resume(&SandboxId::random()).await;
    assert!(matches!(unknown, Err(ChangeError::NotFound(_))));
}

#[tokio::test]
async fn one_that_is_being_killed_is_not_brought_back() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let id = created(control).await;
    stage.nodes.set_phase(&id, Phase::Stopping);
    let connected = control.connect(&caller, &id, order(HOUR)).await;
    assert!(matches!(connected, Err(ChangeError::Conflict { .. })));
    let paused = control.pause(&caller, &id, with_memory()).await;
    assert!(matches!(paused, Err(ChangeError::NotFound(_))));
}

/// A paused sandbox did not count, went back to a snapshot, and ran beside as many others as the team
/// may have.
#[tokio::test]
async fn a_paused_sandbox_that_goes_back_counts_as_one_that_is_resumed() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let id = created(control).await;
    let files = SnapshotOrder {
        name: None,
        kind: ImageKind::Filesystem,
    };
    let snapshot = control.snapshot(&caller, &id, files).await.unwrap();
    let back = || snapshot.snapshot.to_string().parse().unwrap();
    control.pause(&caller, &id, with_memory()).await.unwrap();
    let (other, _) = (created(control).await, created(control).await);

    let full = control.roll_back(&caller, &id, back(), HOUR).await;

    assert!(
        matches!(
            full,
            Err(SnapshotError::Change(ChangeError::QuotaReached(_)))
        ),
        "{full:?}"
    );
    assert!(stage.nodes.rolled_back().is_empty());
    control.kill(&caller, &other).await.unwrap();
    control.roll_back(&caller, &id, back(), HOUR).await.unwrap();
    // One that runs has its part already.
    control.roll_back(&caller, &id, back(), HOUR).await.unwrap();
    control.create(&caller, request()).await.unwrap_err();
}

/// Paused sandboxes hold memory and disk of the host. A team that might have two of them made one
/// after the other and paused each, until nobody else found room.
#[tokio::test]
async fn paused_sandboxes_beyond_as_many_as_may_run_count_like_those_that_run() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let mut paused = Vec::new();
    for _ in 0..4 {
        let id = created(control).await;
        control.pause(&caller, &id, with_memory()).await.unwrap();
        paused.push(id);
    }

    control.create(&caller, request()).await.unwrap_err();

    let next = crate::control(&stage.store, Arc::<FakeNodes>::clone(&stage.nodes)).await;
    next.create(&caller, request()).await.unwrap_err();
    let counted = control.connect(&caller, &paused[3], order(HOUR)).await;
    assert!(counted.unwrap().was_resumed, "it has its part already");
    let full = control.connect(&caller, &paused[0], order(HOUR)).await;
    assert!(matches!(full, Err(ChangeError::QuotaReached(_))));
    control.kill(&caller, &paused[0]).await.unwrap();
    let made = created(control).await;
    control.create(&caller, request()).await.unwrap_err();
    control.kill(&caller, &made).await.unwrap();
}

/// Each of many at once saw the same number of those that were kept before.
#[tokio::test]
async fn snapshots_at_the_same_moment_are_no_more_than_the_team_may_keep() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let mut caller = anybody(control).await;
    caller.limits.snapshots = 2;
    let id = created(control).await;
    let files = || SnapshotOrder {
        name: None,
        kind: ImageKind::Filesystem,
    };

    let taken = (0..8).map(|_| control.snapshot(&caller, &id, files()));
    let taken = futures_util::future::join_all(taken).await;

    let kept = taken.iter().filter(|one| one.is_ok()).count();
    assert!(kept <= 2, "{kept}");
    for _ in kept..2 {
        control.snapshot(&caller, &id, files()).await.unwrap();
    }
    let more = control.snapshot(&caller, &id, files()).await;
    assert!(matches!(more, Err(SnapshotError::TooMany { .. })));
    assert_eq!(stage.nodes.image_count(), 2);
}
