//! Values that must not be shown.

use skep_jupyter::{Output, Raised};
use skep_kernels::{ContextError, ExecuteRequest, Update};
use skep_types::Secrets;

use crate::talk::{all, next, request, run, world};

fn secrets(values: &[&str]) -> Secrets {
    Secrets::new(values.iter().map(|value| (*value).to_owned())).unwrap()
}

fn with(values: &[&str], code: &str) -> ExecuteRequest {
    ExecuteRequest {
        secrets: secrets(values),
        ..request(code)
    }
}

#[tokio::test]
async fn secrets_of_the_sandbox_the_context_and_the_execution_are_masked() {
    let world = world();
    *world.settings.secrets.lock() = secrets(&["sandbox-secret"]);
    let other = world.contexts.create("python", None).await.unwrap().id;
    let marked = secrets(&["context-secret"]);
    world.contexts.mark(&other, &marked).unwrap();
    let code = "say sandbox-secret context-secret run-secret";
    let execution = world.contexts.execute(&other, with(&["run-secret"], code));
    assert_eq!(
        all(execution.unwrap()).await,
        ["accepted 1", "*** *** ***", "ended Ok"]
    );
    // The code may have kept what it was given.
    assert_eq!(run(&world.contexts, &other, code).await[1], "*** *** ***");
    assert_eq!(world.run(code).await[1], "*** context-secret run-secret");
}

#[tokio::test]
async fn a_secret_that_is_printed_in_pieces_is_masked() {
    let world = world();
    let code = "mutter a hun\nmutter ter\nmutter 22 b\nsay";
    let execution = world
        .contexts
        .execute(&world.python, with(&["hunter22"], code));
    assert_eq!(
        all(execution.unwrap()).await,
        ["accepted 1", "a", "*** b", "", "ended Ok"]
    );
}

#[tokio::test]
async fn what_is_held_back_comes_before_the_end_however_it_ends() {
    for (code, end) in [
        ("mutter hunt", vec!["hunt", "ended Ok"]),
        (
            "mutter hunt\ndie 1",
            vec!["hunt", "failed Died(Code(1))", "ended KernelDied"],
        ),
    ] {
        let world = world();
        let execution = world
            .contexts
            .execute(&world.python, with(&["hunter22"], code));
        assert_eq!(all(execution.unwrap()).await[1..], end);
    }
}

#[tokio::test]
async fn what_cannot_become_a_secret_is_not_held_back() {
    let world = world();
    let code = "say ready to hunt\nwait";
    let mut execution = world
        .contexts
        .execute(&world.python, with(&["hunter22"], code))
        .unwrap();
    next(&mut execution).await;
    assert_eq!(next(&mut execution).await.as_deref(), Some("ready to hunt"));
}

#[tokio::test]
async fn results_and_errors_are_masked() {
    let world = world();
    let code = "value 'aHVudGVyMjI='\nraise hunter22Error it is hunter22";
    let mut execution = world
        .contexts
        .execute(&world.python, with(&["hunter22"], code))
        .unwrap();
    let mut raised = None;
    let mut value = None;
    while let Some(update) = execution.updates.recv().await {
        match update {
            Update::Output {
                output: Output::Raised(found),
                ..
            } => raised = Some(found),
            Update::Output {
                output: Output::Rich { bundle, .. },
                ..
            } => value = Some(bundle.entries[0].1.as_str().to_owned()),
            Update::Output { .. }
            | Update::StateLost(_)
            | Update::OutputLost { .. }
            | Update::Failed(_)
            | Update::Ended(_) => {}
        }
    }
    assert_eq!(value.as_deref(), Some("\"'***I='\""));
    let Raised {
        name,
        value,
        traceback,
        ..
    } = raised.unwrap();
    assert_eq!(name, "***Error");
    assert_eq!(value, "it is ***");
    assert_eq!(traceback, ["***Error: it is ***"]);
}

#[tokio::test]
async fn more_secrets_than_can_be_looked_for_are_refused_and_nothing_runs() {
    let world = world();
    let long = |first: char| format!("{first}{}", "x".repeat(Secrets::LONGEST - 1));
    let most: Vec<String> = "abcd".chars().map(long).collect();
    *world.settings.secrets.lock() = Secrets::new(most).unwrap();
    let refused = world
        .contexts
        .execute(&world.python, with(&["hunter22"], "remember me"));
    assert!(matches!(refused, Err(ContextError::Secrets(_))));
    assert_eq!(world.run("recall").await[1], "raised NameError");
}
