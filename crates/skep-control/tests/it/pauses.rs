//! Pauses, resumes and copies, and what they do to quotas and the database.

use std::sync::Arc;
use std::time::Duration;

use skep_control::{ChangeError, Control, FakeNodes, ForkRequest, Lifetime, SnapshotError};
use skep_store::Store;
use skep_types::{
    Capabilities, Capability, Egress, ImageKind, Phase, SandboxId, TransitionError, Unsupported,
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

async fn created(control: &Control) -> SandboxId {
    let caller = anybody(control).await;
    control.create(&caller, request()).await.unwrap().id.clone()
}

#[tokio::test]
async fn a_paused_sandbox_is_shown_and_does_not_count() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let (first, second) = (created(control).await, created(control).await);
    control.create(&caller, request()).await.unwrap_err();

    let paused = control.pause(&caller, &first, ImageKind::Memory).await;

    assert_eq!(paused.unwrap().status.phase, Phase::Paused);
    let shown = control.find(&caller, &first).await.unwrap();
    assert_eq!(shown.status.paused, Some(ImageKind::Memory));
    let row = stage.store.sandboxes().find(first.clone()).await.unwrap();
    assert_eq!(row.unwrap().phase(), Phase::Paused);
    let again = control.pause(&caller, &first, ImageKind::Memory).await;
    assert!(matches!(again, Err(ChangeError::Conflict { .. })));

    let third = created(control).await;
    let full = control.resume(&caller, &first, HOUR).await;
    assert!(matches!(full, Err(ChangeError::QuotaReached(_))));
    for id in [second, third] {
        control.kill(&caller, &id).await.unwrap();
    }
    let resumed = control.resume(&caller, &first, HOUR).await.unwrap();
    assert_eq!(resumed.status.phase, Phase::Running);
    let row = stage.store.sandboxes().find(first.clone()).await.unwrap();
    assert_eq!(row.unwrap().phase(), Phase::Running);
    let running = control.resume(&caller, &first, HOUR).await;
    assert!(matches!(running, Err(ChangeError::Conflict { .. })));
    created(control).await;
    control.create(&caller, request()).await.unwrap_err();
}

#[tokio::test]
async fn paused_sandboxes_are_paused_and_uncounted_after_a_restart() {
    let stage = stage(Capabilities::all()).await;
    let caller = anybody(&stage.control).await;
    let id = created(&stage.control).await;
    let pausing = stage.control.pause(&caller, &id, ImageKind::Memory);
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
    let paused = control.pause(&caller, &id, ImageKind::Memory).await;
    check(paused.map(drop), Capability::Freeze);
    let changed = control.set_egress(&caller, &id, Egress::None).await;
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

#[tokio::test]
async fn a_snapshot_outlives_its_sandbox_until_it_is_forgotten() {
    let stage = stage(Capabilities::all()).await;
    let control = &stage.control;
    let caller = anybody(control).await;
    let id = created(control).await;
    let snapshot = control.snapshot(&caller, &id).await.unwrap();
    control.kill(&caller, &id).await.unwrap();
    let kept = control.snapshots(&caller).await.unwrap();
    assert_eq!(
        (kept, stage.nodes.image_count()),
        (vec![snapshot.clone()], 1)
    );
    let forgotten = control.forget_snapshot(&caller, snapshot.id.clone()).await;
    assert!(forgotten.unwrap());
    assert_eq!(stage.nodes.image_count(), 0);
    let again = control.forget_snapshot(&caller, snapshot.id).await;
    assert!(!again.unwrap());
}
