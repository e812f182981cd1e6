//! Executions that somebody ends, and kernels that end by themselves.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use skep_kernels::{ExecuteRequest, Limits, OnLoss};
use skep_testkit::wait_until;

use crate::talk::{all, next, request, run, world};

fn lasting(code: &str) -> ExecuteRequest {
    ExecuteRequest {
        on_loss: OnLoss::Continue,
        ..request(code)
    }
}

#[tokio::test]
async fn a_caller_that_leaves_interrupts_its_code_and_keeps_the_variables() {
    let world = world();
    world.run("remember me").await;
    let mut execution = world.execute(request("wait"));
    next(&mut execution).await;
    drop(execution);
    assert_eq!(world.run("recall").await, ["accepted 3", "me", "ended Ok"]);
    assert_eq!(world.kernels.starts.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_broken_connection_does_not_interrupt_and_a_cancellation_does() {
    let world = world();
    let request = lasting("wait\nsay never");
    let cancel = Arc::clone(&request.cancel);
    let mut execution = world.execute(request);
    next(&mut execution).await;
    drop(execution);
    let mut behind = world.execute(lasting("wait"));
    // Whatever the owner does about the loss, it has done when another context has run.
    let other = world.contexts.create("python", None).await.unwrap();
    run(&world.contexts, &other.id, "say a").await;
    assert!(
        behind.updates.try_recv().is_err(),
        "the first one still runs"
    );
    cancel.cancel();
    assert_eq!(next(&mut behind).await.as_deref(), Some("accepted 2"));
}

#[tokio::test]
async fn an_execution_that_is_cancelled_while_it_waits_is_never_run() {
    let world = world();
    let mut first = world.execute(request("wait"));
    next(&mut first).await;
    let second = request("remember second");
    second.cancel.cancel();
    let second = world.execute(second);
    drop(first);
    assert!(all(second).await.is_empty());
    assert_eq!(
        world.run("recall").await,
        ["accepted 2", "raised NameError", "ended Runtime"]
    );
}

#[tokio::test(start_paused = true)]
async fn code_that_ignores_an_interrupt_loses_its_kernel_and_the_next_caller_hears_of_it() {
    let world = world();
    let mut execution = world.execute(request("stuck"));
    next(&mut execution).await;
    drop(execution);
    assert_eq!(
        world.run("say a").await,
        ["lost Stuck", "accepted 1", "a", "ended Ok"]
    );
}

#[tokio::test]
async fn an_interrupt_that_was_asked_for_is_told_to_whoever_listens() {
    let world = world();
    let mut execution = world.execute(request("say a\nwait"));
    let id = execution.id.clone();
    assert_eq!(next(&mut execution).await.as_deref(), Some("accepted 1"));
    let behind = world.execute(request("remember me"));
    assert!(world.contexts.interrupt(&behind.id));
    assert!(world.contexts.interrupt(&id));
    assert_eq!(
        all(execution).await,
        ["a", "raised KeyboardInterrupt", "ended Interrupted"]
    );
    assert_eq!(
        all(behind).await,
        [
            "failed Interrupted { state_lost: false }",
            "ended Interrupted"
        ]
    );
    assert!(!world.contexts.interrupt(&id), "it has ended");
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_for_an_interrupt_hears_that_the_kernel_is_lost() {
    let world = world();
    let mut execution = world.execute(request("stuck"));
    next(&mut execution).await;
    assert!(world.contexts.interrupt(&execution.id));
    assert_eq!(
        all(execution).await,
        [
            "failed Interrupted { state_lost: true }",
            "ended Interrupted"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_time_limit_ends_code_with_one_error() {
    let world = world();
    let limited = |code: &str| ExecuteRequest {
        limits: Limits {
            time: Some(Duration::from_secs(2)),
            ..Limits::default()
        },
        ..request(code)
    };
    let execution = world
        .contexts
        .execute(&world.python, limited("say a\nwait"));
    assert_eq!(
        all(execution.unwrap()).await,
        [
            "accepted 1",
            "a",
            "failed OverLimit { limit: Time(2s), state_lost: false }",
            "ended Timeout"
        ]
    );
    let execution = world.contexts.execute(&world.python, limited("stuck"));
    assert_eq!(
        all(execution.unwrap()).await,
        [
            "accepted 2",
            "failed OverLimit { limit: Time(2s), state_lost: true }",
            "ended Timeout"
        ]
    );
    assert_eq!(
        world.run("say a").await,
        ["lost Stuck", "accepted 1", "a", "ended Ok"]
    );
}

#[tokio::test]
async fn the_death_of_a_kernel_is_one_failure_and_the_next_execution_says_what_is_lost() {
    let world = world();
    assert_eq!(
        run(
            &world.contexts,
            &world.python,
            "remember me\nsay bye\ndie 3"
        )
        .await,
        [
            "accepted 1",
            "bye",
            "failed Died(Code(3))",
            "ended KernelDied"
        ]
    );
    assert_eq!(
        world.run("recall").await,
        [
            "lost Died(Code(3))",
            "accepted 1",
            "raised NameError",
            "ended Runtime"
        ]
    );
    assert_eq!(world.run("say a").await, ["accepted 2", "a", "ended Ok"]);
}

#[tokio::test]
async fn a_kernel_that_dies_between_executions_is_replaced_at_once() {
    let world = world();
    world.run("remember me").await;
    world.kernels.kill_newest();
    wait_until(Duration::from_secs(10), || async {
        match world.kernels.starts.load(Ordering::SeqCst) {
            2 => Ok(()),
            starts => Err(format!("{starts} kernels were started")),
        }
    })
    .await;
    assert_eq!(
        world.run("recall").await[..2],
        ["lost Died(Signal(9))", "accepted 1"]
    );
}

#[tokio::test]
async fn a_cell_may_end_its_kernel_without_being_an_error() {
    let world = world();
    assert_eq!(world.run("exit").await, ["accepted 1", "ended Ok"]);
    assert_eq!(
        world.run("say a").await,
        ["lost Exited", "accepted 1", "a", "ended Ok"]
    );
}

#[tokio::test]
async fn what_a_lost_caller_missed_is_kept_until_somebody_asks() {
    let world = world();
    let mut execution = world.execute(lasting("say a\nwait"));
    assert_eq!(next(&mut execution).await.as_deref(), Some("accepted 1"));
    assert_eq!(next(&mut execution).await.as_deref(), Some("a"));
    let id = execution.id.clone();
    assert!(
        world.contexts.attach(&id).await.is_none(),
        "its caller is there"
    );
    drop(execution);
    let again = world.contexts.attach(&id).await.expect("it still runs");
    drop(again);
    world.contexts.restart(&world.python).await.unwrap();
    let rest = world
        .contexts
        .attach(&id)
        .await
        .expect("its record is kept");
    assert_eq!(all(rest).await, ["failed Restarted", "ended Killed"]);
    assert!(
        world.contexts.attach(&id).await.is_none(),
        "it was told once"
    );
}

#[tokio::test]
async fn a_record_is_bounded_and_says_what_is_missing() {
    let world = world();
    let mut flood = world.execute(lasting("flood 100000"));
    next(&mut flood).await;
    let id = flood.id.clone();
    drop(flood);
    world.run("say after").await;
    let words = all(world.contexts.attach(&id).await.unwrap()).await;
    let (last, lost) = (&words[words.len() - 1], &words[words.len() - 2]);
    assert_eq!(last, "ended Ok");
    assert!(
        lost.starts_with("lost ") && lost.ends_with(" bytes"),
        "{lost}"
    );
    assert!(
        words.len() > 10_000 && words.len() < 100_000,
        "{}",
        words.len()
    );
}
