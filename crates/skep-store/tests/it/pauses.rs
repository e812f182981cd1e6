//! Sandboxes that are paused, on one of several hosts, and their checkpoints.

use skep_store::{CheckpointFilter, CheckpointRecord, Order};
use skep_types::{
    Checkpoint, CheckpointId, ExecutionId, ImageKind, NodeId, Phase, SandboxRun, TeamId, TemplateId,
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

fn checkpoint(sandbox: &Order, name: Option<&str>, tag: &str, second: i64) -> CheckpointRecord {
    CheckpointRecord {
        id: CheckpointId::random(),
        team: sandbox.team.clone(),
        snapshot: TemplateId::random(),
        name: name.map(str::to_owned),
        tag: tag.to_owned(),
        parent: None,
        sandbox: sandbox.id.clone(),
        template: sandbox.template.clone(),
        template_name: sandbox.template_name.clone(),
        node: NodeId::local(),
        checkpoint: Checkpoint {
            record: format!("opaque-{second}"),
            kind: ImageKind::Memory,
            bytes: 1 << 40,
        },
        resources: sandbox.resources,
        created_at: at(second),
    }
}

fn every(team: &TeamId) -> CheckpointFilter {
    CheckpointFilter {
        team: team.clone(),
        sandbox: None,
        named: None,
        after: None,
        limit: 100,
    }
}

#[tokio::test]
async fn a_checkpoint_is_kept_until_its_team_forgets_it() {
    let record = Record::new().await;
    let checkpoints = record.store.checkpoints();
    let sandbox = record.sandbox();
    let sandboxes = record.store.sandboxes();
    sandboxes
        .insert(sandbox.clone(), None)
        .recorded()
        .await
        .unwrap();
    let insert = async |kept: CheckpointRecord| checkpoints.insert(kept).recorded().await.unwrap();
    let (first, replaced) = insert(checkpoint(&sandbox, Some("mine"), "default", 7)).await;
    assert_eq!((replaced, first.parent.clone()), (None, None));
    let (tagged, replaced) = insert(checkpoint(&sandbox, Some("mine"), "v1", 8)).await;
    assert_eq!(replaced, None, "another tag leaves the first as it is");
    assert_eq!(tagged.snapshot, first.snapshot, "a name is one template");
    assert_eq!(tagged.parent, Some(first.id.clone()), "they are a history");
    let (unnamed, _) = insert(checkpoint(&sandbox, None, "default", 9)).await;
    assert_ne!(unnamed.snapshot, first.snapshot);
    checkpoints
        .set_position(sandbox.id.clone(), first.id.clone())
        .recorded()
        .await
        .unwrap();
    let (second, replaced) = insert(checkpoint(&sandbox, Some("mine"), "default", 10)).await;
    assert_eq!(replaced, Some(first.clone()));
    // The first is gone, and whatever came after it comes after what was before it.
    assert_eq!(second.parent, None, "after it was put back");
    let tagged = CheckpointRecord {
        parent: None,
        ..tagged
    };
    assert_eq!(unnamed.parent, Some(tagged.id.clone()));
    let position = async || checkpoints.position(sandbox.id.clone()).await.unwrap();
    assert_eq!(position().await, Some(second.id.clone()));

    let listed = checkpoints.list(every(&sandbox.team)).await.unwrap();
    assert_eq!(listed, [second.clone(), unnamed.clone(), tagged.clone()]);
    let filter = CheckpointFilter {
        named: Some(("mine".to_owned(), Some("v1".to_owned()))),
        ..every(&sandbox.team)
    };
    assert_eq!(
        checkpoints.list(filter).await.unwrap(),
        std::slice::from_ref(&tagged)
    );
    let filter = CheckpointFilter {
        after: Some((second.created_at, second.id.clone())),
        limit: 1,
        ..every(&sandbox.team)
    };
    assert_eq!(
        checkpoints.list(filter).await.unwrap(),
        std::slice::from_ref(&unnamed)
    );
    let total = checkpoints.total(sandbox.team.clone()).await.unwrap();
    assert_eq!((total.count, total.bytes), (3, 3 << 40));
    let find = async |team: &TeamId, named: &str, tag: &str| {
        let found = checkpoints.find(team.clone(), named.to_owned(), tag.to_owned());
        found.await.unwrap()
    };
    assert_eq!(find(&sandbox.team, "mine", "v1").await, Some(tagged));
    let by_id = find(&sandbox.team, unnamed.snapshot.as_str(), "default").await;
    assert_eq!(by_id, Some(unnamed.clone()));
    assert_eq!(find(&TeamId::random(), "mine", "v1").await, None);

    let stranger = checkpoints.remove(TeamId::random(), "mine".to_owned());
    assert_eq!(stranger.recorded().await.unwrap(), []);
    let removed = checkpoints.remove(sandbox.team.clone(), "mine".to_owned());
    assert_eq!(removed.recorded().await.unwrap().len(), 2, "all tags");
    assert_eq!(position().await, None);
    let unnamed = CheckpointRecord {
        parent: None,
        ..unnamed
    };
    let (last, _) = insert(checkpoint(&sandbox, None, "default", 11)).await;
    checkpoints
        .set_position(sandbox.id.clone(), unnamed.id.clone())
        .recorded()
        .await
        .unwrap();
    let (branch, _) = insert(checkpoint(&sandbox, None, "default", 12)).await;
    assert_eq!(
        (last.parent, branch.parent),
        (None, Some(unnamed.id.clone()))
    );
    let pruned = checkpoints.prune(at(10), 10).recorded().await.unwrap();
    assert_eq!(pruned, std::slice::from_ref(&unnamed));
    let back = checkpoints.set_back(sandbox.id.clone(), branch.id.clone(), "other".to_owned());
    back.recorded().await.unwrap();
    assert_eq!(position().await, Some(branch.id));
    let found = sandboxes.find(sandbox.id.clone()).await.unwrap().unwrap();
    assert_eq!(found.order.base, "other");
}
