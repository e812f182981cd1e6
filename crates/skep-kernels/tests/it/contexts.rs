//! Contexts: made, listed, restarted, removed, and what runs in them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use skep_kernels::fake::{FakeKernels, FakeSettings};
use skep_kernels::{ContextError, Contexts, ExecuteRequest};
use skep_testkit::wait_until;

use crate::talk::{all, next, request, run, world};

#[tokio::test]
async fn code_runs_and_its_outputs_come_in_order() {
    let world = world();
    assert_eq!(
        world.run("say a\nvalue 5\nsay b").await,
        ["accepted 1", "a", "value \"5\"", "b", "ended Ok"]
    );
    assert_eq!(
        world.run("raise ValueError no").await,
        ["accepted 2", "raised ValueError", "ended Runtime"]
    );
    assert_eq!(
        world.run("?").await,
        ["accepted 3", "raised SyntaxError", "ended Syntax"]
    );
}

#[tokio::test]
async fn a_new_context_is_listed_last_and_shares_nothing() {
    let world = world();
    world.run("remember me").await;
    let made = world
        .contexts
        .create("python", Some("/root".to_owned()))
        .await
        .unwrap();
    let listed = world.contexts.list();
    assert_eq!((listed.len(), listed.last()), (2, Some(&made)));
    assert_eq!(listed[0].directory, "/home/user");
    assert_eq!(
        run(&world.contexts, &made.id, "cwd\nrecall").await,
        ["accepted 1", "/root", "raised NameError", "ended Runtime"]
    );
}

#[tokio::test]
async fn the_default_context_of_a_language_is_made_on_first_use_and_once() {
    let world = world();
    let bash = world.contexts.default_of("bash").unwrap();
    assert_eq!(world.contexts.default_of("bash").unwrap(), bash);
    assert_eq!(world.contexts.list().len(), 2);
    assert!(matches!(
        world.contexts.default_of("ruby"),
        Err(ContextError::Start(_))
    ));
    world.contexts.remove(&bash).await.unwrap();
    assert_ne!(world.contexts.default_of("bash").unwrap(), bash);
}

#[tokio::test]
async fn later_defaults_are_listed_from_the_start_and_get_a_kernel_when_they_are_used() {
    let kernels = Arc::new(FakeKernels::default());
    let launcher = Arc::new(Arc::clone(&kernels));
    let settings = Arc::new(FakeSettings::default());
    let contexts = Contexts::new(launcher, settings, &["python", "bash"]);
    let listed = contexts.list();
    let languages: Vec<_> = listed.iter().map(|context| &context.language).collect();
    assert_eq!(languages, ["python", "bash"]);
    contexts.ready().await.unwrap();
    let python = contexts.default_of("python").unwrap();
    run(&contexts, &python, "say a").await;
    assert_eq!(kernels.starts.load(Ordering::SeqCst), 1);
    let bash = contexts.default_of("bash").unwrap();
    assert_eq!(bash, listed[1].id);
    let answer = ["accepted 1", "b", "ended Ok"];
    assert_eq!(run(&contexts, &bash, "say b").await, answer);
    assert_eq!(kernels.starts.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_context_whose_kernel_does_not_start_is_not_listed() {
    let world = world();
    world.contexts.ready().await.unwrap();
    world.kernels.broken.store(true, Ordering::SeqCst);
    let made = world.contexts.create("python", None).await;
    assert!(matches!(made, Err(ContextError::Start(_))), "{made:?}");
    assert_eq!(world.contexts.list().len(), 1);
}

#[tokio::test]
async fn an_execution_is_told_that_there_is_no_kernel() {
    let world = world();
    world.contexts.ready().await.unwrap();
    world.kernels.broken.store(true, Ordering::SeqCst);
    world.run("die 1").await;
    let words = world.run("say a").await;
    assert!(words[0].starts_with("failed NoKernel"), "{words:?}");
    assert_eq!(words[1..], ["ended KernelDied"]);
    world.kernels.broken.store(false, Ordering::SeqCst);
    assert_eq!(
        world.run("say a").await,
        ["lost Died(Code(1))", "accepted 1", "a", "ended Ok"]
    );
}

#[tokio::test]
async fn one_context_runs_one_execution_after_another_and_two_run_beside_each_other() {
    let world = world();
    let mut first = world.execute(request("wait"));
    let second = world.contexts.execute(&world.python, request("say b"));
    assert_eq!(next(&mut first).await.as_deref(), Some("accepted 1"));
    let other = world.contexts.create("python", None).await.unwrap();
    assert_eq!(
        run(&world.contexts, &other.id, "say other").await,
        ["accepted 1", "other", "ended Ok"]
    );
    drop(first);
    assert_eq!(all(second.unwrap()).await, ["accepted 2", "b", "ended Ok"]);
}

#[tokio::test]
async fn a_kernel_is_not_read_while_its_caller_does_not_read() {
    let world = world();
    let execution = world
        .contexts
        .execute(&world.python, request("flood 10000"));
    let taken = || world.kernels.taken.load(Ordering::SeqCst);
    wait_until(Duration::from_secs(10), || async {
        if taken() > 10 {
            Ok(())
        } else {
            Err("nothing taken")
        }
    })
    .await;
    // Another context's whole run shows that the owner had its chance to read on.
    let other = world.contexts.create("python", None).await.unwrap();
    let before = taken();
    run(&world.contexts, &other.id, "say a").await;
    assert!(taken() < before + 32, "{} messages were read", taken());
    assert_eq!(all(execution.unwrap()).await.len(), 10_002);
}

#[tokio::test]
async fn variables_of_the_sandbox_may_change_and_those_of_an_execution_win() {
    let world = world();
    let set = |value: &str| {
        let variables = BTreeMap::from([("A".to_owned(), value.to_owned())]);
        *world.settings.environment.lock() = variables;
    };
    assert_eq!(world.run("env A").await[1], "unset");
    set("old");
    assert_eq!(world.run("env A").await[1], "old");
    set("new");
    assert_eq!(world.run("env A").await[1], "new");
    let own = ExecuteRequest {
        variables: BTreeMap::from([("A".to_owned(), "own".to_owned())]),
        ..request("env A")
    };
    let execution = world.execute(own);
    assert_eq!(all(execution).await[1], "own");
    assert_eq!(world.run("env A").await[1], "new");
}

#[tokio::test]
async fn a_restart_ends_what_runs_and_forgets_what_was_known() {
    let world = world();
    world.run("remember me").await;
    let mut running = world.execute(request("wait"));
    assert_eq!(next(&mut running).await.as_deref(), Some("accepted 2"));
    world.contexts.restart(&world.python).await.unwrap();
    assert_eq!(all(running).await, ["failed Restarted", "ended Killed"]);
    assert_eq!(
        world.run("recall").await,
        ["accepted 1", "raised NameError", "ended Runtime"]
    );
}

#[tokio::test]
async fn removing_a_context_ends_what_runs_and_what_waits_in_it() {
    let world = world();
    let mut running = world.execute(request("wait"));
    let waiting = world.execute(request("say a"));
    assert_eq!(next(&mut running).await.as_deref(), Some("accepted 1"));
    world.contexts.remove(&world.python).await.unwrap();
    assert_eq!(all(running).await, ["failed Removed", "ended Killed"]);
    assert_eq!(all(waiting).await, ["failed Removed", "ended Killed"]);
    assert!(matches!(
        world.contexts.execute(&world.python, request("say a")),
        Err(ContextError::NotFound { .. })
    ));
}

#[tokio::test]
async fn there_is_a_last_place_in_the_queue() {
    let world = world();
    let held: Vec<_> =
        std::iter::repeat_with(|| world.contexts.execute(&world.python, request("wait")))
            .take(2000)
            .collect();
    let refused = held.iter().filter(|held| held.is_err()).count();
    assert!(refused > 900, "{refused} were refused");
    assert!(
        held.iter()
            .filter_map(|held| held.as_ref().err())
            .all(|error| matches!(error, ContextError::Full { .. }))
    );
}
