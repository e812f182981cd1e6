//! Sandboxes that are paused, resumed and copied.

use std::time::Duration;

use skep_node::Node;
use skep_types::{
    Capabilities, Capability, Checkpoint, Egress, EndReason, ImageKind, Mount, NotHere, Phase,
    Refused, SandboxId, SandboxSpec, SandboxStatus, TransitionError, WhenStopped,
};

use crate::{TestHost, spec};

const HOUR: Duration = Duration::from_secs(3600);

async fn created(node: &Node) -> SandboxStatus {
    node.create(spec(HOUR)).await.expect("the fake launches")
}

/// Waits until a paused sandbox is in an image and has no process.
async fn stored(host: &TestHost, id: &SandboxId) {
    tokio::time::advance(Duration::from_secs(31)).await;
    skep_testkit::wait_until(Duration::from_secs(10), async || {
        if host.isolation.living().contains(id) {
            Err("it still has processes")
        } else {
            Ok(())
        }
    })
    .await;
}

#[tokio::test]
async fn a_paused_sandbox_stands_out_of_reach_and_goes_on_as_another_execution() {
    let host = TestHost::default();
    let node = host.node();
    let running = created(&node).await;
    let ended = node.route(&running.id).unwrap().ended;

    let paused = node.pause(&running.id, ImageKind::Memory).await.unwrap();

    assert_eq!(paused.phase, Phase::Paused);
    assert_eq!(paused.paused, Some(ImageKind::Memory));
    assert!(ended.is_cancelled() && node.route(&running.id).is_none());
    assert!(host.isolation.is_frozen(&running.id));
    let again = node.pause(&running.id, ImageKind::Memory).await.unwrap();
    assert_eq!(again, paused, "asking twice changes nothing");

    let resumed = node.resume(&running.id, HOUR).await.unwrap();
    assert_eq!((resumed.phase, resumed.paused), (Phase::Running, None));
    assert_ne!(resumed.execution, running.execution);
    assert!(!host.isolation.is_frozen(&running.id));
    let route = node.route(&running.id).unwrap();
    assert_eq!(route.execution, resumed.execution);
    assert!(!route.ended.is_cancelled());
    assert_eq!(node.resume(&running.id, HOUR).await.unwrap(), resumed);
}

#[tokio::test(start_paused = true)]
async fn a_paused_sandbox_has_no_deadline() {
    let host = TestHost::default();
    let node = host.node();
    let id = node.create(spec(Duration::from_secs(10))).await.unwrap().id;
    node.pause(&id, ImageKind::Memory).await.unwrap();
    tokio::time::advance(Duration::from_secs(20)).await;
    assert_eq!(node.status(&id).unwrap().phase, Phase::Paused);
    node.resume(&id, Duration::from_secs(10)).await.unwrap();
    tokio::time::advance(Duration::from_secs(11)).await;
    skep_testkit::wait_until(Duration::from_secs(10), async || {
        host.journal.ending(&id).ok_or("it lives")
    })
    .await;
    assert_eq!(host.journal.ending(&id).unwrap().reason, EndReason::Timeout);
}

#[tokio::test(start_paused = true)]
async fn one_that_stands_for_long_is_kept_in_an_image_and_restored_from_it() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    node.pause(&id, ImageKind::Memory).await.unwrap();
    let promised = node.host().promised;

    stored(&host, &id).await;

    assert_eq!(host.isolation.image_count(), 1);
    assert!(node.host().promised.memory < promised.memory);
    assert_eq!(node.status(&id).unwrap().phase, Phase::Paused);
    let resumed = node.resume(&id, HOUR).await.unwrap();
    assert_eq!(resumed.phase, Phase::Running);
    assert_eq!(host.isolation.living(), std::slice::from_ref(&id));
    assert_eq!(node.host().promised, promised);
    assert_eq!(host.isolation.image_count(), 0, "it was used");
    node.pause(&id, ImageKind::Filesystem).await.unwrap();
    assert_eq!(host.isolation.image_count(), 1);
    node.kill(&id, EndReason::Killed).await.unwrap();
    assert_eq!(host.isolation.image_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn one_that_cannot_be_written_to_an_image_stands_and_is_tried_again() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    node.pause(&id, ImageKind::Memory).await.unwrap();
    host.isolation.fail_next_change();
    tokio::time::advance(Duration::from_secs(31)).await;
    tokio::time::advance(Duration::from_secs(60)).await;
    assert!(host.isolation.is_frozen(&id));
    tokio::time::advance(Duration::from_mins(5)).await;
    stored(&host, &id).await;
    assert_eq!(host.isolation.image_count(), 1);
}

#[tokio::test]
async fn a_pause_that_keeps_files_alone_leaves_no_process() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    let paused = node.pause(&id, ImageKind::Filesystem).await.unwrap();
    assert_eq!(paused.paused, Some(ImageKind::Filesystem));
    assert!(host.isolation.living().is_empty());
    node.resume(&id, HOUR).await.unwrap();
    assert_eq!(host.isolation.living(), [id]);
}

#[tokio::test]
async fn a_pause_or_resume_that_fails_changes_nothing() {
    let host = TestHost::default();
    let node = host.node();
    let running = created(&node).await;
    let id = &running.id;

    host.isolation.fail_next_change();
    let failed = node.pause(id, ImageKind::Memory).await;
    assert!(matches!(failed, Err(TransitionError::Failed(_))));
    assert_eq!(node.status(id).unwrap(), running);
    assert!(!node.route(id).unwrap().ended.is_cancelled());

    let paused = node.pause(id, ImageKind::Memory).await.unwrap();
    host.isolation.fail_next_change();
    let failed = node.resume(id, HOUR).await;
    assert!(matches!(failed, Err(TransitionError::Failed(_))));
    assert_eq!(node.status(id).unwrap(), paused);
    node.resume(id, HOUR).await.unwrap();
}

#[tokio::test]
async fn what_the_backend_cannot_do_is_said_and_changes_nothing() {
    let host = TestHost::default();
    host.isolation.set_capabilities(Capabilities::default());
    let node = host.node();
    let running = created(&node).await;
    let id = &running.id;
    let unsupported = |answer: Result<(), TransitionError>, wanted| match answer {
        Err(TransitionError::Unsupported(unsupported)) => assert_eq!(unsupported.0, wanted),
        other => panic!("{other:?}"),
    };
    for kind in ImageKind::ALL {
        let answer = node.pause(id, kind).await.map(drop);
        unsupported(answer, Capability::Checkpoint);
        let answer = node.snapshot(id, kind).await.map(drop);
        unsupported(answer, Capability::Checkpoint);
    }
    let answer = node.set_egress(id, Egress::None).await;
    unsupported(answer, Capability::EgressChange);
    assert_eq!(node.status(id).unwrap(), running);
    assert!(node.route(id).is_some());
}

#[tokio::test]
async fn copies_of_a_running_sandbox_are_sandboxes_of_their_own() {
    let host = TestHost::default();
    let node = host.node();
    let source = created(&node).await;
    let checkpoint = node.snapshot(&source.id, ImageKind::Memory).await.unwrap();
    assert_eq!(node.status(&source.id).unwrap(), source, "it goes on");

    let copies = [copy(&checkpoint), copy(&checkpoint)].map(|spec| node.create(spec));
    let copies = futures_util::future::try_join_all(copies).await.unwrap();

    assert_ne!(copies[0].id, copies[1].id);
    assert_eq!(host.isolation.living().len(), 3);
    node.forget_checkpoint(checkpoint.clone()).await;
    node.create(copy(&checkpoint)).await.unwrap_err();
    assert_eq!(host.isolation.living().len(), 3);
}

fn copy(checkpoint: &Checkpoint) -> SandboxSpec {
    SandboxSpec {
        checkpoint: Some(checkpoint.clone()),
        ..spec(HOUR)
    }
}

#[tokio::test]
async fn only_what_runs_is_copied() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    node.pause(&id, ImageKind::Memory).await.unwrap();
    let refused = node.snapshot(&id, ImageKind::Memory).await.unwrap_err();
    assert!(matches!(
        refused,
        TransitionError::Refused(Refused {
            phase: Phase::Paused,
            ..
        })
    ));
    node.kill(&id, EndReason::Killed).await.unwrap();
    let gone = node.pause(&id, ImageKind::Memory).await.unwrap_err();
    assert!(matches!(gone, TransitionError::NotHere(NotHere)));
}

#[tokio::test(start_paused = true)]
async fn another_rule_for_connections_holds_at_once_and_after_a_resume() {
    let host = TestHost::default();
    let node = host.node();
    let id = created(&node).await.id;
    node.set_egress(&id, Egress::None).await.unwrap();
    assert_eq!(host.isolation.egress(&id), Some(Egress::None));
    node.pause(&id, ImageKind::Memory).await.unwrap();
    stored(&host, &id).await;
    node.resume(&id, HOUR).await.unwrap();
    assert_eq!(host.isolation.egress(&id), Some(Egress::None));
}

#[tokio::test]
async fn volumes_are_those_that_were_asked_for() {
    let host = TestHost::default();
    let node = host.node();
    let mounts = vec![Mount {
        volume: "data".to_owned(),
        target: "/mnt/data".to_owned(),
        read_only: true,
    }];
    let spec = SandboxSpec {
        mounts: mounts.clone(),
        ..spec(HOUR)
    };
    let status = node.create(spec).await.unwrap();
    assert_eq!(host.isolation.mounts(&status.id), Some(mounts));
}

#[tokio::test]
async fn the_next_server_finds_a_frozen_sandbox_paused_and_resumes_it() {
    let host = TestHost::default();
    let first = host.node();
    let id = created(&first).await.id;
    let paused = first.pause(&id, ImageKind::Memory).await.unwrap();
    first.shut_down(WhenStopped::Leave).await;

    let second = host.node();
    let adoption = second.adopt(host.journal.living()).await;

    assert_eq!(adoption.adopted, std::slice::from_ref(&id));
    assert_eq!(second.status(&id).unwrap(), paused);
    assert!(second.route(&id).is_none());
    second.resume(&id, HOUR).await.unwrap();
    assert!(second.route(&id).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_that_died_while_it_stood_never_comes_back_as_it_was_earlier() {
    let host = TestHost::default();
    let first = host.node();
    let id = created(&first).await.id;
    first.pause(&id, ImageKind::Memory).await.unwrap();
    stored(&host, &id).await;
    first.resume(&id, HOUR).await.unwrap();
    first.pause(&id, ImageKind::Memory).await.unwrap();
    first.shut_down(WhenStopped::Leave).await;
    host.isolation.crash(&id);

    let adoption = host.node().adopt(host.journal.living()).await;

    assert_eq!(adoption.lost, [(id, EndReason::Crashed)]);
}

#[tokio::test]
async fn the_next_server_finds_a_sandbox_without_a_process_paused_and_resumes_it() {
    let host = TestHost::default();
    let first = host.node();
    let id = created(&first).await.id;
    let paused = first.pause(&id, ImageKind::Filesystem).await.unwrap();
    first.shut_down(WhenStopped::Leave).await;

    let second = host.node();
    let adoption = second.adopt(host.journal.living()).await;

    assert_eq!(adoption.adopted, std::slice::from_ref(&id));
    assert_eq!(second.status(&id).unwrap(), paused);
    assert_eq!(second.host().promised.memory, 0);
    second.resume(&id, HOUR).await.unwrap();
    assert_eq!(host.isolation.living(), std::slice::from_ref(&id));
    second.kill(&id, EndReason::Killed).await.unwrap();
    assert_eq!(host.isolation.image_count(), 0);
}
