//! Copies of sandboxes, and the way back to one.

use std::time::Duration;

use skep_types::{
    Checkpoint, EndReason, ImageKind, ImagePurpose, NotHere, Phase, Refused, RollBackRequest,
    SandboxId, SandboxSpec, TransitionError,
};

use crate::pause::{HOUR, created, pausing, resume, stored};
use crate::{TestHost, spec};

#[tokio::test]
async fn copies_of_a_running_sandbox_are_sandboxes_of_their_own() {
    let host = TestHost::default();
    let node = host.node();
    let source = created(&node).await;
    let checkpoint = node
        .snapshot(&source.id, ImageKind::Memory, ImagePurpose::Keep)
        .await
        .unwrap();
    assert_eq!(node.status(&source.id).unwrap(), source, "it goes on");

    let copies = [copy(&checkpoint), copy(&checkpoint)].map(|spec| node.create(spec));
    let copies = futures_util::future::try_join_all(copies).await.unwrap();

    assert_ne!(copies[0].id, copies[1].id);
    assert_eq!(host.isolation.living().len(), 3);
    node.forget_checkpoint(checkpoint.clone()).await;
    node.create(copy(&checkpoint)).await.unwrap_err();
    assert_eq!(host.isolation.living().len(), 3);
}

/// A dump may take two minutes. Callers gave up before: they read that there was no such sandbox, and the
/// image stayed behind.
#[tokio::test(start_paused = true)]
async fn a_caller_waits_for_as_long_as_a_dump_may_take_and_an_image_of_nobody_is_deleted() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    let snapshot = || node.snapshot(&id, ImageKind::Memory, ImagePurpose::Keep);
    let release_after = async |time| {
        host.isolation.hold_changes();
        tokio::time::sleep(time).await;
        host.isolation.release_changes();
    };
    let dump = Duration::from_secs(120);
    let (taken, ()) = tokio::join!(snapshot(), release_after(dump));
    node.forget_checkpoint(taken.unwrap()).await;

    let too_long = Duration::from_mins(10);
    let late = async {
        let late = snapshot().await;
        assert!(matches!(late, Err(TransitionError::Failed(_))), "{late:?}");
    };
    tokio::join!(late, release_after(too_long));
    resume(&node, &id, HOUR).await.unwrap();
    assert_eq!(host.isolation.image_count(), 0);
}

pub(crate) fn copy(checkpoint: &Checkpoint) -> SandboxSpec {
    SandboxSpec {
        checkpoint: Some(checkpoint.clone()),
        ..spec(HOUR)
    }
}

#[tokio::test(start_paused = true)]
async fn a_paused_sandbox_is_copied_and_stays_paused() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    node.pause(&id, pausing(ImageKind::Memory)).await.unwrap();
    node.snapshot(&id, ImageKind::Memory, ImagePurpose::Keep)
        .await
        .unwrap();
    assert!(host.isolation.is_frozen(&id));
    stored(&host, &id).await;
    let files = node
        .snapshot(&id, ImageKind::Filesystem, ImagePurpose::Keep)
        .await
        .unwrap();
    assert_eq!(files.kind, ImageKind::Filesystem);
    assert_eq!(host.isolation.image_count(), 3, "its own, and two others");
    assert_eq!(node.status(&id).unwrap().phase, Phase::Paused);
    resume(&node, &id, HOUR).await.unwrap();
    node.pause(&id, pausing(ImageKind::Filesystem))
        .await
        .unwrap();
    let refused = node
        .snapshot(&id, ImageKind::Memory, ImagePurpose::Keep)
        .await
        .unwrap_err();
    assert!(matches!(refused, TransitionError::Refused(Refused { .. })));
    node.kill(&id, EndReason::Killed).await.unwrap();
    let paused = node.pause(&id, pausing(ImageKind::Memory)).await;
    assert!(matches!(paused, Err(TransitionError::NotHere(NotHere))));
    assert_eq!(host.isolation.image_count(), 2, "copies outlive it");
}

pub(crate) fn back_to(checkpoint: &Checkpoint) -> RollBackRequest {
    RollBackRequest {
        checkpoint: checkpoint.clone(),
        lifetime: HOUR,
        restart: None,
    }
}

#[tokio::test]
async fn a_sandbox_goes_back_to_a_checkpoint_or_is_paused_as_it_was() {
    let host = TestHost::default();
    let node = host.node();
    let before = created(&node).await;
    let id = &before.id;
    let checkpoint = node
        .snapshot(id, ImageKind::Memory, ImagePurpose::Keep)
        .await
        .unwrap();

    let back = node.roll_back(id, back_to(&checkpoint)).await.unwrap();

    assert_eq!(back.phase, Phase::Running);
    assert_ne!(back.execution, before.execution);
    let left = back.ends_at.duration_since(before.ends_at).unsigned_abs();
    assert!(
        left < Duration::from_secs(60),
        "it keeps its deadline: {left:?}"
    );
    assert_eq!(
        host.isolation.image_count(),
        1,
        "what it was before is gone"
    );
    assert!(node.route(id).is_some());

    host.isolation
        .fail_next_launch(skep_isolation::LaunchError::NoRoom("slot"));
    let failed = node.roll_back(id, back_to(&checkpoint)).await;
    assert!(matches!(failed, Err(TransitionError::NoRoom(_))));
    assert_eq!(node.status(id).unwrap().phase, Phase::Paused);
    let back = node.roll_back(id, back_to(&checkpoint)).await.unwrap();
    assert_eq!(back.phase, Phase::Running);
    assert_eq!(host.isolation.image_count(), 1);
}

/// Rolled back to a snapshot of another sandbox, one took over that one's tokens and environment:
/// its own callers were locked out, and whoever held the other's token was let in.
#[tokio::test]
async fn a_sandbox_that_goes_back_to_anothers_checkpoint_stays_who_it_is() {
    let host = TestHost::default();
    let node = host.node();
    let (one, other) = (created(&node).await.id, created(&node).await.id);
    let config = |id: &SandboxId| host.isolation.agent_config(id).unwrap().reveal().clone();
    let (own, anothers) = (config(&one), config(&other));
    assert_ne!(own, anothers, "the control: each has tokens of its own");
    let checkpoint = node
        .snapshot(&other, ImageKind::Filesystem, ImagePurpose::Keep)
        .await
        .unwrap();

    node.roll_back(&one, back_to(&checkpoint)).await.unwrap();

    assert_eq!(config(&one), own);
    node.pause(&one, pausing(ImageKind::Filesystem))
        .await
        .unwrap();
    node.roll_back(&one, back_to(&checkpoint)).await.unwrap();
    assert_eq!(config(&one), own, "one that was paused, too");
}
