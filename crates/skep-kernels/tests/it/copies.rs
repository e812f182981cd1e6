//! Copies of contexts: forks, checkpoints and the way back.

use std::sync::atomic::Ordering;

use skep_kernels::{ContextError, CopyError, Exit, Past};
use skep_testkit::wait_until;
use skep_types::Secrets;
use std::time::Duration;

use crate::talk::{World, next, request, run, world};

impl World {
    async fn checkpoint(&self) -> String {
        let made = self.contexts.checkpoint(&self.python).await.unwrap();
        assert!(made.is_current);
        made.id
    }

    async fn roll_back(&self, checkpoint: &str) -> Result<(), CopyError> {
        self.contexts.roll_back(&self.python, checkpoint).await
    }

    /// The checkpoints as `id<parent`, the current one with a star.
    async fn tree(&self) -> Vec<String> {
        let all = self.contexts.checkpoints(&self.python).await.unwrap();
        all.into_iter()
            .map(|checkpoint| {
                let parent = checkpoint.parent.unwrap_or_default();
                let star = if checkpoint.is_current { "*" } else { "" };
                format!("{}<{parent}{star}", checkpoint.id)
            })
            .collect()
    }
}

#[tokio::test]
async fn a_fork_knows_what_its_origin_knew_and_goes_its_own_way() {
    let world = world();
    world.run("remember apples").await;
    let fork = world.contexts.fork(&world.python).await.unwrap();
    let listed = world.contexts.list();
    assert_eq!((listed.len(), listed.last()), (2, Some(&fork)));
    assert_eq!(fork.language, "python");
    let said = run(&world.contexts, &fork.id, "recall\nremember pears").await;
    assert_eq!(said, ["accepted 2", "apples", "ended Ok"]);
    assert_eq!(
        world.run("recall").await,
        ["accepted 2", "apples", "ended Ok"]
    );
    let history = world.contexts.history(&fork.id).unwrap();
    assert!(matches!(&*history.entries[0], Past::Forked { origin } if *origin == world.python));
    world.contexts.remove(&world.python).await.unwrap();
    let said = run(&world.contexts, &fork.id, "recall").await;
    assert_eq!(said, ["accepted 3", "pears", "ended Ok"]);
}

#[tokio::test]
async fn a_checkpoint_is_gone_back_to_more_than_once() {
    let world = world();
    world.run("remember apples").await;
    let checkpoint = world.checkpoint().await;
    for _ in 0..2 {
        world.run("remember pears").await;
        world.roll_back(&checkpoint).await.unwrap();
        assert_eq!(
            world.run("recall").await,
            ["accepted 2", "apples", "ended Ok"]
        );
    }
    let history = world.contexts.history(&world.python).unwrap();
    let is_rollback = |past: &&std::sync::Arc<Past>| matches!(&***past, Past::RolledBack { .. });
    assert_eq!(history.entries.iter().filter(is_rollback).count(), 2);
    // The kernel, the checkpoint, and two that took its place, of which the last lives.
    assert_eq!(world.kernels.starts.load(Ordering::SeqCst), 4);
    assert_eq!(world.kernels.ends.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_checkpoint_brings_back_what_died() {
    let world = world();
    world.run("remember apples").await;
    let checkpoint = world.checkpoint().await;
    world.run("die 1").await;
    world.roll_back(&checkpoint).await.unwrap();
    assert_eq!(
        world.run("recall").await,
        ["accepted 2", "apples", "ended Ok"],
        "nothing was lost, and nothing is said to be"
    );
}

#[tokio::test]
async fn checkpoints_are_a_tree() {
    let world = world();
    assert_eq!(world.tree().await, [""; 0]);
    world.checkpoint().await;
    world.checkpoint().await;
    world.roll_back("1").await.unwrap();
    world.checkpoint().await;
    assert_eq!(world.tree().await, ["1<", "2<1", "3<1*"]);
    world
        .contexts
        .remove_checkpoint(&world.python, "1")
        .await
        .unwrap();
    assert_eq!(world.tree().await, ["2<", "3<*"]);
    world.contexts.restart(&world.python).await.unwrap();
    assert_eq!(world.tree().await, ["2<", "3<"]);
    let gone = world.roll_back("1").await;
    assert!(matches!(gone, Err(CopyError::NotFound { .. })), "{gone:?}");
    world.roll_back("2").await.unwrap();
    world.checkpoint().await;
    assert_eq!(world.tree().await, ["2<", "3<", "4<2*"]);
}

#[tokio::test]
async fn a_context_that_runs_code_is_not_copied() {
    let world = world();
    let checkpoint = world.checkpoint().await;
    let mut execution = world.execute(request("wait"));
    assert_eq!(next(&mut execution).await.as_deref(), Some("accepted 1"));
    let fork = world.contexts.fork(&world.python).await;
    assert!(matches!(fork, Err(CopyError::Busy)), "{fork:?}");
    let made = world.contexts.checkpoint(&world.python).await;
    assert!(matches!(made, Err(CopyError::Busy)), "{made:?}");
    let back = world.roll_back(&checkpoint).await;
    assert!(matches!(back, Err(CopyError::Busy)), "{back:?}");
    assert_eq!(world.tree().await, ["1<*"], "which can be seen meanwhile");
    world.contexts.interrupt(&execution.id);
    while next(&mut execution).await.is_some() {}
    world.roll_back(&checkpoint).await.unwrap();
}

#[tokio::test]
async fn a_kernel_that_cannot_be_copied_says_why() {
    let world = world();
    let bash = world.contexts.create("bash", None).await.unwrap();
    for refused in [
        world.contexts.fork(&bash.id).await.unwrap_err(),
        world.contexts.checkpoint(&bash.id).await.unwrap_err(),
    ] {
        assert_eq!(
            refused.to_string(),
            "contexts of language bash cannot be forked: their kernel does not copy itself"
        );
    }
    let secrets = Secrets::new(vec!["hunter2hunter2".to_owned()]).unwrap();
    world.contexts.mark(&world.python, &secrets).unwrap();
    let reason = "threads are running: hunter2hunter2".to_owned();
    *world.kernels.unforkable.lock() = Some(reason);
    let refused = world.contexts.fork(&world.python).await.unwrap_err();
    assert!(matches!(refused, CopyError::Refused { .. }));
    assert!(refused.to_string().contains("threads are running"));
    assert!(!refused.to_string().contains("hunter2"), "{refused}");
    assert_eq!(world.contexts.list().len(), 2);
    let missing = world.contexts.fork("nowhere").await;
    assert!(matches!(
        missing,
        Err(CopyError::Context(ContextError::NotFound { .. }))
    ));
}

#[tokio::test]
async fn a_fork_keeps_the_secrets_of_its_origin() {
    let world = world();
    let secrets = Secrets::new(vec!["hunter2hunter2".to_owned()]).unwrap();
    world.contexts.mark(&world.python, &secrets).unwrap();
    world.run("remember hunter2hunter2").await;
    let fork = world.contexts.fork(&world.python).await.unwrap();
    let said = run(&world.contexts, &fork.id, "recall").await.join(" ");
    assert!(!said.contains("hunter2"), "{said}");
}

#[tokio::test]
async fn a_checkpoint_whose_process_ends_is_lost_and_the_context_is_not() {
    let world = world();
    world.run("remember apples").await;
    let checkpoint = world.checkpoint().await;
    world.kernels.kill_newest();
    let back = world.roll_back(&checkpoint).await;
    assert!(
        matches!(
            back,
            Err(CopyError::Lost {
                exit: Exit::Signal(9),
                ..
            })
        ),
        "{back:?}"
    );
    let listed = world.contexts.checkpoints(&world.python).await.unwrap();
    assert_eq!(listed[0].lost, Some(Exit::Signal(9)));
    assert_eq!(
        world.run("recall").await,
        ["accepted 2", "apples", "ended Ok"]
    );
    world
        .contexts
        .remove_checkpoint(&world.python, &checkpoint)
        .await
        .unwrap();
    assert_eq!(world.tree().await, [""; 0]);
}

#[tokio::test]
async fn a_checkpoint_that_does_not_stand_still_is_lost_and_holds_nobody() {
    let world = world();
    world.run("remember apples").await;
    world.checkpoint().await;
    world.kernels.flooding.store(true, Ordering::SeqCst);
    let listing = world.contexts.checkpoints(&world.python);
    let listed = tokio::time::timeout(Duration::from_secs(30), listing).await;
    world.kernels.flooding.store(false, Ordering::SeqCst);
    assert_eq!(listed.unwrap().unwrap()[0].lost, Some(Exit::Confused));
    assert_eq!(
        world.run("recall").await,
        ["accepted 2", "apples", "ended Ok"]
    );
}

#[tokio::test]
async fn there_are_only_so_many_checkpoints() {
    let world = world();
    for _ in 0..16 {
        world.checkpoint().await;
    }
    let refused = world.contexts.checkpoint(&world.python).await.unwrap_err();
    let words = "there are 16 checkpoints of this context already; delete one";
    assert_eq!(refused.to_string(), words);
    let other = world.contexts.create("python", None).await.unwrap().id;
    let third = world.contexts.create("python", None).await.unwrap().id;
    for _ in 0..16 {
        world.contexts.checkpoint(&other).await.unwrap();
    }
    let refused = world.contexts.checkpoint(&third).await.unwrap_err();
    let words = "there are 32 checkpoints in this sandbox already; delete one";
    assert_eq!(refused.to_string(), words);
    world.contexts.remove(&other).await.unwrap();
    wait_until(Duration::from_secs(5), || async {
        world.contexts.checkpoint(&third).await
    })
    .await;
}

#[tokio::test]
async fn everything_ends_with_its_context() {
    let world = world();
    world.checkpoint().await;
    world.checkpoint().await;
    world.contexts.remove(&world.python).await.unwrap();
    let (starts, ends) = (&world.kernels.starts, &world.kernels.ends);
    assert_eq!(starts.load(Ordering::SeqCst), 3);
    wait_until(Duration::from_secs(5), || async {
        let left = starts.load(Ordering::SeqCst) - ends.load(Ordering::SeqCst);
        (left == 0).then_some(()).ok_or(left)
    })
    .await;
}
