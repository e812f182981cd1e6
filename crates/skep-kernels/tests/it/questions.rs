//! Questions about code that is not run.

use skep_jupyter::{Answer, Question};
use skep_kernels::AskError;
use skep_types::Secrets;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::talk::{World, next, request, world};

fn complete(code: &str) -> Question {
    Question::Complete {
        code: code.to_owned(),
        cursor: None,
    }
}

async fn matches(world: &World, code: &str) -> Vec<String> {
    match world.contexts.ask(&world.python, complete(code)).await {
        Ok(Answer::Completions { matches, .. }) => matches,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_question_leaves_no_trace_in_the_context() {
    let world = world();
    assert_eq!(matches(&world, "re").await, ["recall", "remember"]);
    world.run("remember reeds").await;
    assert_eq!(matches(&world, "re").await, ["recall", "remember", "reeds"]);
    assert_eq!(world.run("say a").await, ["accepted 2", "a", "ended Ok"]);
    let history = world.contexts.history(&world.python).unwrap();
    assert_eq!(history.entries.len(), 2);
}

#[tokio::test]
async fn a_kernel_that_runs_code_is_not_asked() {
    let world = world();
    let mut execution = world.execute(request("say on\nwait"));
    assert_eq!(next(&mut execution).await.as_deref(), Some("accepted 1"));
    let asked = world.contexts.ask(&world.python, complete("re")).await;
    assert!(matches!(asked, Err(AskError::Busy)), "{asked:?}");
    assert!(world.contexts.interrupt(&execution.id));
    while next(&mut execution).await.is_some() {}
    assert_eq!(matches(&world, "reca").await, ["recall"]);
}

#[tokio::test]
async fn what_a_kernel_refuses_is_told() {
    let world = world();
    let asked = world.contexts.ask(&world.python, complete("raise")).await;
    assert_eq!(asked.unwrap_err().to_string(), "ValueError: no");
    let asked = world.contexts.ask("nowhere", complete("")).await;
    assert!(matches!(asked, Err(AskError::Context(_))), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_question_that_takes_too_long_is_interrupted_and_the_variables_stay() {
    let world = world();
    world.run("remember reeds").await;
    let asked = world.contexts.ask(&world.python, complete("wait")).await;
    assert!(matches!(asked, Err(AskError::Silent)), "{asked:?}");
    assert_eq!(world.run("recall").await[1], "reeds");
}

#[tokio::test(start_paused = true)]
async fn a_kernel_that_does_not_hear_the_interrupt_either_is_replaced() {
    let world = world();
    world.run("remember reeds").await;
    let asked = world.contexts.ask(&world.python, complete("stuck")).await;
    assert!(matches!(asked, Err(AskError::Silent)), "{asked:?}");
    let said = world.run("say a").await;
    assert_eq!(said[0], "lost Stuck");
    assert_eq!(world.kernels.starts.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_kernel_that_ends_on_a_question_is_told_and_replaced() {
    let world = world();
    world.run("remember reeds").await;
    let asked = world.contexts.ask(&world.python, complete("die")).await;
    assert!(matches!(asked, Err(AskError::Ended)), "{asked:?}");
    assert_eq!(matches(&world, "re").await, ["recall", "remember"]);
}

#[tokio::test]
async fn an_answer_shows_no_secret() {
    let world = world();
    let secrets = Secrets::new(["reed-secret".to_owned()]).unwrap();
    world.contexts.mark(&world.python, &secrets).unwrap();
    world.run("remember reed-secret").await;
    assert_eq!(matches(&world, "re").await, ["recall", "remember", "***"]);
}

#[tokio::test]
async fn a_refusal_shows_no_secret() {
    let world = world();
    let secrets = Secrets::new(["reed-secret".to_owned()]).unwrap();
    world.contexts.mark(&world.python, &secrets).unwrap();
    world.run("remember reed-secret").await;
    let asked = world.contexts.ask(&world.python, complete("raise")).await;
    assert_eq!(asked.unwrap_err().to_string(), "ValueError: ***");
}

/// Its output was always there before the deadline was looked at, so nobody else had a turn.
#[tokio::test(start_paused = true)]
async fn a_kernel_that_never_stops_speaking_is_as_late_as_a_silent_one() {
    let world = world();
    world.run("remember reeds").await;
    let ages = async {
        for _ in 0..1000 {
            tokio::time::advance(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        asked = world.contexts.ask(&world.python, complete("babble")) => {
            assert!(matches!(asked, Err(AskError::Silent)), "{asked:?}");
        }
        () = ages => panic!("nobody was told anything"),
    }
    assert_eq!(world.run("say a").await[0], "lost Stuck");
}
