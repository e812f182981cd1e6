//! Sandboxes that are paused, on one of several hosts, and their checkpoints.

use skep_store::{CheckpointRecord, Order};
use skep_types::{
    Checkpoint, CheckpointId, ExecutionId, ImageKind, NodeId, Phase, SandboxRun, TeamId,
};

use crate::{Record, at, run};

#[tokio::test]
async fn a_pause_is_kept_and_ends_with_the_next_run() {
    let record = Record::new().await;
    let sandboxes = record.store.sandboxes();
    let order = record.sandbox();
    let id = order.id.clone();
    sandboxes.insert(order, None).recorded().await.unwrap();
    let first = run(ExecutionId::random(), "running", 1001, 1301);
    let started = sandboxes.started(id.clone(), first.clone());
    started.recorded().await.unwrap();
    for kind in ImageKind::ALL {
        let paused = SandboxRun {
            paused: Some(kind),
            ..first.clone()
        };
        let pausing = sandboxes.changed(id.clone(), paused.clone());
        pausing.recorded().await.unwrap();
        let found = sandboxes.find(id.clone()).await.unwrap().unwrap();
        assert_eq!((found.phase(), found.run), (Phase::Paused, Some(paused)));
    }
    let second = run(ExecutionId::random(), "running again", 2001, 2301);
    let resumed = sandboxes.started(id.clone(), second.clone());
    resumed.recorded().await.unwrap();
    let found = sandboxes.find(id.clone()).await.unwrap().unwrap();
    assert_eq!((found.phase(), found.run), (Phase::Running, Some(second)));
    let late = sandboxes.changed(id, first).recorded().await;
    late.expect_err("a note about the run before comes too late");
}

#[tokio::test]
async fn a_node_finds_its_own_sandboxes_alone() {
    let record = Record::new().await;
    let sandboxes = record.store.sandboxes();
    let other: NodeId = "other".parse().unwrap();
    let order = Order {
        node: other.clone(),
        ..record.sandbox()
    };
    let id = order.id.clone();
    sandboxes.insert(order, None).recorded().await.unwrap();
    assert_eq!(sandboxes.living(NodeId::local()).await.unwrap(), []);
    let living = sandboxes.living(other).await.unwrap();
    assert_eq!(living[0].order.id, id);
}

#[tokio::test]
async fn a_checkpoint_is_kept_until_its_team_forgets_it() {
    let record = Record::new().await;
    let checkpoints = record.store.checkpoints();
    let sandbox = record.sandbox();
    let kept = CheckpointRecord {
        id: CheckpointId::random(),
        team: record.team.clone(),
        sandbox: sandbox.id,
        template: sandbox.template,
        template_name: sandbox.template_name,
        node: NodeId::local(),
        checkpoint: Checkpoint {
            record: "opaque".to_owned(),
            kind: ImageKind::Memory,
            bytes: 1 << 40,
        },
        created_at: at(7),
    };
    checkpoints.insert(kept.clone()).recorded().await.unwrap();
    let listed = checkpoints.list(record.team.clone()).await.unwrap();
    assert_eq!(listed, std::slice::from_ref(&kept));
    let stranger = checkpoints.remove(TeamId::random(), kept.id.clone());
    assert_eq!(stranger.recorded().await.unwrap(), None);
    let removed = checkpoints.remove(record.team.clone(), kept.id.clone());
    assert_eq!(removed.recorded().await.unwrap(), Some(kept));
    assert_eq!(checkpoints.list(record.team.clone()).await.unwrap(), []);
}
