//! Code in a kernel of somebody else's that asks for input.

use skep_kernels::{ExecuteRequest, Execution};

use super::{NEW_ENVIRONMENT, USUAL_ENVIRONMENT, World, world, world_of};
use crate::talk::{all, next, request};

async fn asked(world: &World, code: &str, prompt: &str) -> Execution {
    let request = ExecuteRequest {
        allows_input: true,
        ..request(code)
    };
    let mut execution = world.contexts.execute(&world.python, request).unwrap();
    let wanted = format!("asked {prompt}");
    while next(&mut execution).await.expect("it asks") != wanted {}
    execution
}

/// Outputs after the answer. The question comes over another socket than the word that the code is
/// accepted, which may be the later one of both.
async fn after(execution: Execution) -> Vec<String> {
    let mut said = all(execution).await;
    said.retain(|line| !line.starts_with("accepted "));
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_kernel_asks_over_its_own_socket_and_is_answered() {
    for environment in [&*USUAL_ENVIRONMENT, &*NEW_ENVIRONMENT] {
        let world = world_of(environment, "signal");
        let code = "name = input('Name? ')\nprint('hello', name)";
        let execution = asked(&world, code, "Name? ").await;
        let answer = Some("Zoë".to_owned());
        world.contexts.input(&execution.id, answer).await.unwrap();
        assert_eq!(after(execution).await, ["hello Zoë", "ended Ok"]);
        let code = "import getpass\nlen(getpass.getpass('Word? '))";
        let execution = asked(&world, code, "Word? ").await;
        let answer = Some("hunter2".to_owned());
        world.contexts.input(&execution.id, answer).await.unwrap();
        assert_eq!(after(execution).await, ["value \"7\"", "ended Ok"]);
        let execution = asked(&world, "input('End? ')", "End? ").await;
        world.contexts.input(&execution.id, None).await.unwrap();
        assert_eq!(after(execution).await[0], "raised EOFError");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_kernel_that_waits_for_an_answer_is_interrupted() {
    let world = world();
    let execution = asked(&world, "input('Name? ')", "Name? ").await;
    assert!(world.contexts.interrupt(&execution.id));
    let said = after(execution).await;
    assert_eq!(said[0], "raised KeyboardInterrupt", "{said:?}");
    assert_eq!(world.run("print('on')").await[1], "on");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_kernel_refuses_to_ask_a_caller_that_answers_nothing() {
    let said = world().run("input('Name? ')").await;
    assert_eq!(said[1], "raised StdinNotImplementedError", "{said:?}");
}
