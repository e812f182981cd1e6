//! Ends of processes, and their reports.

use serde_json::json;
use skep_testkit::wait_until;

use super::{DEADLINE, START, collect, decode, run, shell, start};
use crate::agent::TestAgent;

#[tokio::test]
async fn a_killed_process_says_so_and_is_no_longer_listed() {
    let agent = TestAgent::start();
    let (pid, events) = start(&agent, shell("sleep 60 && echo never")).await;
    let listed = agent.ask("process.Process/List", json!({})).await;
    assert_eq!(listed["processes"][0]["pid"], pid);
    assert_eq!(
        listed["processes"][0]["config"]["args"][1],
        "sleep 60 && echo never"
    );
    let request = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"});
    assert_eq!(
        agent
            .ask("process.Process/SendSignal", request.clone())
            .await,
        json!({})
    );
    let run = collect(events).await;
    assert_eq!(
        run.end,
        json!({"exitCode": -1, "status": "signal: killed", "error": "signal: killed"}),
        "the grandchild that holds the pipes must not delay the end"
    );
    assert_eq!(
        agent.ask("process.Process/List", json!({})).await,
        json!({})
    );
    assert_eq!(
        agent.refused("process.Process/SendSignal", request).await,
        format!("404 not_found process with pid {pid} not found")
    );
}

#[tokio::test]
async fn who_was_told_of_a_kill_finds_the_process_gone() {
    let agent = TestAgent::start();
    let (pid, _events) = start(&agent, shell("sleep 60")).await;
    let request = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"});
    agent
        .ask("process.Process/SendSignal", request.clone())
        .await;
    assert!(
        agent
            .refused("process.Process/SendSignal", request)
            .await
            .starts_with("404")
    );
    assert_eq!(
        agent.ask("process.Process/List", json!({})).await,
        json!({})
    );
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

#[tokio::test]
async fn other_signals_are_not_sent() {
    let agent = TestAgent::start();
    let (pid, events) = start(
        &agent,
        shell("trap 'echo bye; exit 5' TERM; echo up; sleep 60 & wait"),
    )
    .await;
    for signal in [json!(0), json!(1), json!("SIGNAL_UNSPECIFIED")] {
        let request = json!({"process": {"pid": pid}, "signal": signal});
        assert!(
            agent
                .refused("process.Process/SendSignal", request)
                .await
                .starts_with("501 unimplemented")
        );
    }
    let mut events = events;
    assert_eq!(
        decode(&events.event().await["event"]["data"]["stdout"]),
        "up\n"
    );
    agent
        .ask(
            "process.Process/SendSignal",
            json!({"process": {"pid": pid}, "signal": 15}),
        )
        .await;
    let run = collect(events).await;
    assert_eq!(
        (run.stdout.as_str(), run.end["exitCode"].as_i64()),
        ("bye\n", Some(5))
    );
}

#[tokio::test]
async fn at_the_deadline_the_process_is_killed_and_the_stream_says_why() {
    let agent = TestAgent::start();
    let headers = [("connect-timeout-ms", "300")];
    let mut events = agent
        .stream_with(START, shell("echo up; sleep 60"), &headers)
        .await;
    let pid = events.event().await["event"]["start"]["pid"]
        .as_u64()
        .unwrap();
    let run = collect(events).await;
    assert_eq!(
        (run.stdout.as_str(), &run.close["error"]["code"]),
        ("up\n", &json!("deadline_exceeded"))
    );
    wait_for_end(pid).await;
}

#[tokio::test]
async fn a_deadline_holds_even_when_its_caller_has_gone() {
    let agent = TestAgent::start();
    let headers = [("connect-timeout-ms", "500.0")];
    let mut events = agent.stream_with(START, shell("sleep 60"), &headers).await;
    let pid = events.event().await["event"]["start"]["pid"]
        .as_u64()
        .unwrap();
    drop(events);
    wait_for_end(pid).await;
}

#[tokio::test]
async fn a_deadline_of_zero_is_none() {
    let agent = TestAgent::start();
    let headers = [("connect-timeout-ms", "0")];
    let events = agent
        .stream_with(START, shell("sleep 0.1; echo done"), &headers)
        .await;
    assert_eq!(collect(events).await.stdout, "done\n");
}

#[tokio::test]
async fn setsid_hands_the_exit_code_on() {
    let agent = TestAgent::start();
    let ended = run(&agent, shell("exec setsid sh -c 'exit 3'")).await;
    assert_eq!(ended.end["exitCode"], 3);
}

/// A program that signals its own group must not hit the agent, nor other commands.
#[tokio::test]
async fn a_signal_to_its_own_group_reaches_a_command_and_its_children_alone() {
    let agent = TestAgent::start();
    let (other, others) = start(&agent, shell("sleep 60")).await;
    let (pid, events) = start(&agent, shell("sleep 60 & echo $!; kill -TERM 0; sleep 60")).await;
    let ended = collect(events).await;
    assert_eq!(ended.end["status"], "signal: terminated", "{pid}");
    wait_for_end(ended.stdout.trim().parse().unwrap()).await;
    let request = json!({"process": {"pid": other}, "signal": "SIGNAL_SIGKILL"});
    agent.ask("process.Process/SendSignal", request).await;
    assert_eq!(collect(others).await.end["status"], "signal: killed");
}

#[tokio::test]
async fn a_background_child_that_keeps_the_output_open_delays_the_end() {
    let agent = TestAgent::start();
    let run = run(&agent, shell("(sleep 0.3; echo late) & echo early")).await;
    assert_eq!(
        (run.stdout.as_str(), run.end["exited"].as_bool()),
        ("early\nlate\n", Some(true))
    );
}

async fn wait_for_end(pid: u64) {
    wait_until(DEADLINE, || async {
        let gone = !std::path::Path::new(&format!("/proc/{pid}")).exists();
        gone.then_some(()).ok_or("the process still runs")
    })
    .await;
}
