//! Code that asks for input.

use std::time::Duration;

use skep_kernels::{ExecuteRequest, Execution, InputError, Limits};
use skep_types::Secrets;

use crate::talk::{World, all, next, request, world};

fn asking(code: &str) -> ExecuteRequest {
    ExecuteRequest {
        allows_input: true,
        ..request(code)
    }
}

/// An execution that waits for an answer to `Name?`.
async fn asked(world: &World) -> Execution {
    let mut execution = world.execute(asking("ask Name?"));
    assert_eq!(next(&mut execution).await.as_deref(), Some("accepted 1"));
    assert_eq!(next(&mut execution).await.as_deref(), Some("asked Name?"));
    execution
}

fn line(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[tokio::test]
async fn code_that_asks_is_answered_once() {
    let world = world();
    let execution = asked(&world).await;
    let id = execution.id.clone();
    world.contexts.input(&id, line("Ada")).await.unwrap();
    let again = world.contexts.input(&id, line("Eve")).await;
    assert!(again.is_err(), "{again:?}");
    assert_eq!(all(execution).await, ["got Ada", "ended Ok"]);
    let late = world.contexts.input(&id, line("Eve")).await;
    assert!(matches!(late, Err(InputError::NotFound { .. })), "{late:?}");
}

#[tokio::test]
async fn the_end_of_input_is_an_answer() {
    let world = world();
    let execution = asked(&world).await;
    world.contexts.input(&execution.id, None).await.unwrap();
    assert_eq!(all(execution).await, ["raised EOFError", "ended Runtime"]);
}

#[tokio::test]
async fn a_caller_that_answers_nothing_is_never_asked() {
    let world = world();
    assert_eq!(
        world.run("ask Name?").await,
        [
            "accepted 1",
            "raised StdinNotImplementedError",
            "ended Runtime"
        ]
    );
}

#[tokio::test]
async fn code_that_does_not_ask_takes_no_answer() {
    let world = world();
    let mut running = world.execute(asking("say on\nwait"));
    assert_eq!(next(&mut running).await.as_deref(), Some("accepted 1"));
    let waiting = world.execute(asking("ask Name?"));
    for id in [&running.id, &waiting.id] {
        let refused = world.contexts.input(id, line("Ada")).await;
        assert!(matches!(refused, Err(InputError::NotAsked)), "{refused:?}");
    }
    let unknown = world.contexts.input("nobody", line("Ada")).await;
    assert!(
        matches!(unknown, Err(InputError::NotFound { .. })),
        "{unknown:?}"
    );
}

#[tokio::test]
async fn an_interrupt_ends_the_wait() {
    let world = world();
    let execution = asked(&world).await;
    assert!(world.contexts.interrupt(&execution.id));
    assert_eq!(
        all(execution).await,
        ["raised KeyboardInterrupt", "ended Interrupted"]
    );
    assert_eq!(world.run("say a").await, ["accepted 2", "a", "ended Ok"]);
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_of_the_execution_ends_the_wait() {
    let world = world();
    let limit = Duration::from_secs(5);
    let execution = world.execute(ExecuteRequest {
        limits: Limits {
            time: Some(limit),
            ..Limits::default()
        },
        ..asking("ask Name?")
    });
    let said = all(execution).await;
    assert_eq!(said[..2], ["accepted 1", "asked Name?"]);
    assert!(
        said[2].starts_with("failed OverLimit { limit: Time(5s)"),
        "{said:?}"
    );
    assert_eq!(said[3..], ["ended Timeout"]);
}

#[tokio::test]
async fn a_question_shows_no_secret() {
    let world = world();
    let secrets = Secrets::new(["hunter22".to_owned()]).unwrap();
    world.contexts.mark(&world.python, &secrets).unwrap();
    let mut execution = world.execute(asking("ask is it hunter22?"));
    next(&mut execution).await;
    assert_eq!(
        next(&mut execution).await.as_deref(),
        Some("asked is it ***?")
    );
}
