//! The process service.

mod codec;
mod ending;
mod input;
mod starting;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use skep_testkit::wait_until;

use crate::agent::{TestAgent, USER_ID};
use crate::connect::{Events, Message};

const START: &str = "process.Process/Start";
const DEADLINE: Duration = Duration::from_secs(10);

fn shell(script: &str) -> Value {
    json!({"process": {"cmd": "/bin/bash", "args": ["-c", script]}, "stdin": false})
}

/// Output of a process, and its end event.
#[derive(Debug, Default, PartialEq)]
struct Run {
    stdout: String,
    stderr: String,
    terminal: String,
    end: Value,
    /// The content of the closing message.
    close: Value,
}

fn decode(value: &Value) -> String {
    String::from_utf8(STANDARD.decode(value.as_str().unwrap()).unwrap()).unwrap()
}

async fn collect(events: Events) -> Run {
    let (events, close) = events.rest().await;
    let mut run = Run {
        close,
        ..Run::default()
    };
    for event in events {
        let event = &event["event"];
        if let Some(data) = event.get("data") {
            for (channel, text) in [
                ("stdout", &mut run.stdout),
                ("stderr", &mut run.stderr),
                ("pty", &mut run.terminal),
            ] {
                if let Some(bytes) = data.get(channel) {
                    text.push_str(&decode(bytes));
                }
            }
        } else if let Some(end) = event.get("end") {
            run.end = end.clone();
        }
    }
    run
}

async fn run(agent: &TestAgent, request: Value) -> Run {
    collect(agent.stream(START, request).await).await
}

/// Starts a process; answers its pid and the rest of its events.
async fn start(agent: &TestAgent, request: Value) -> (u64, Events) {
    let mut events = agent.stream(START, request).await;
    let pid = events.event().await["event"]["start"]["pid"]
        .as_u64()
        .unwrap();
    (pid, events)
}

#[tokio::test]
async fn a_command_tells_its_start_its_output_and_its_end_in_this_order() {
    let agent = TestAgent::start();
    let (events, close) = agent
        .stream(START, shell("echo hi; echo no >&2; exit 3"))
        .await
        .rest()
        .await;
    assert!(events[0]["event"]["start"]["pid"].as_u64().unwrap() > 0);
    assert!(
        events[1..events.len() - 1]
            .iter()
            .all(|event| event["event"].get("data").is_some())
    );
    assert_eq!(
        events.last().unwrap(),
        &json!({"event": {"end": {
            "exitCode": 3, "exited": true, "status": "exit status 3", "error": "exit status 3"
        }}})
    );
    assert_eq!(close, json!({}));
}

#[tokio::test]
async fn a_success_leaves_out_what_is_zero() {
    let agent = TestAgent::start();
    let run = run(&agent, shell("echo out; echo err >&2")).await;
    assert_eq!(
        (run.stdout.as_str(), run.stderr.as_str()),
        ("out\n", "err\n")
    );
    assert_eq!(run.end, json!({"exited": true, "status": "exit status 0"}));
}

#[tokio::test]
async fn a_process_runs_as_the_user_in_its_home_with_only_the_given_environment() {
    let agent = TestAgent::with(&json!({"env": {"COLOUR": "red", "SHAPE": "round"}}));
    // The last three are what bash adds by itself.
    let script = "id -u; id -G; pwd; env | grep -vE '^(PWD|SHLVL|_)=' | sort";
    let request = json!({
        "process": {"cmd": "bash", "args": ["-c", script], "envs": {"SHAPE": "square"}},
        "stdin": false
    });
    let run = run(&agent, request).await;
    let home = agent.home();
    let expected = format!(
        "{USER_ID}\n{USER_ID} 4242\n{home}\nCOLOUR=red\nE2B_EVENTS_ADDRESS=http://192.0.2.1\nE2B_SANDBOX=true\n\
         E2B_SANDBOX_ID=i123\nE2B_TEMPLATE_ID=base\nHOME={home}\nLOGNAME=user\n\
         PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nSHAPE=square\n\
         USER=user\n",
        home = home.display()
    );
    assert_eq!(run.stdout, expected, "{}", run.stderr);
}

#[tokio::test]
async fn the_caller_chooses_the_user_by_name() {
    let agent = TestAgent::start().header("authorization", "Basic cm9vdDo=");
    assert_eq!(run(&agent, shell("id -un")).await.stdout, "root\n");
    let agent = TestAgent::start().header("authorization", "Basic bm9ib2R5Mjo=");
    let run = run(&agent, shell("id -un")).await;
    assert_eq!(
        run.close,
        json!({"error": {"code": "unauthenticated", "message": "invalid username: 'nobody2'"}})
    );
}

#[tokio::test]
async fn a_working_directory_is_read_like_any_path() {
    let agent = TestAgent::with(&json!({"defaultWorkdir": "/usr"}));
    let cwd = |cwd: &str| json!({"process": {"cmd": "pwd", "cwd": cwd}, "stdin": false});
    std::fs::create_dir(agent.home().join("work")).unwrap();
    assert_eq!(
        run(&agent, json!({"process": {"cmd": "pwd"}})).await.stdout,
        "/usr\n"
    );
    assert_eq!(
        run(&agent, cwd("work")).await.stdout,
        format!("{}\n", agent.at("work"))
    );
    assert_eq!(
        run(&agent, cwd("~")).await.stdout,
        format!("{}\n", agent.home().display())
    );
    let error = |run: Run| {
        format!(
            "{} {}",
            run.close["error"]["code"], run.close["error"]["message"]
        )
    };
    let missing = agent.at("gone");
    assert_eq!(
        error(run(&agent, cwd("gone")).await),
        format!(r#""invalid_argument" "cwd '{missing}' does not exist""#)
    );
    let forbidden = error(run(&agent, cwd("/root")).await);
    assert!(
        forbidden.starts_with(r#""invalid_argument""#) && forbidden.contains("Permission denied"),
        "{forbidden}"
    );
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_an_invalid_argument() {
    let agent = TestAgent::start();
    for command in [
        "nonexistent-program",
        "/nonexistent/program",
        "/etc/passwd",
        "",
    ] {
        let run = run(&agent, json!({"process": {"cmd": command}})).await;
        assert_eq!(
            run.close["error"]["code"], "invalid_argument",
            "{command}: {run:?}"
        );
    }
    let request = json!({"process": {"cmd": "true", "args": ["a\u{0}b"]}});
    assert_eq!(
        run(&agent, request).await.close["error"]["code"],
        "invalid_argument"
    );
}

#[tokio::test]
async fn a_process_outlives_its_stream_and_can_be_joined_by_several() {
    let agent = TestAgent::start();
    let (pid, events) = start(&agent, json!({"process": {"cmd": "cat"}, "tag": "mine"})).await;
    drop(events);
    let mut by_pid = agent
        .stream("process.Process/Connect", json!({"process": {"pid": pid}}))
        .await;
    let mut by_tag = agent
        .stream(
            "process.Process/Connect",
            json!({"process": {"tag": "mine"}}),
        )
        .await;
    for events in [&mut by_pid, &mut by_tag] {
        assert_eq!(
            events.event().await,
            json!({"event": {"start": {"pid": pid}}})
        );
    }
    let request = json!({"process": {"tag": "mine"}, "input": {"stdin": STANDARD.encode("x")}});
    agent.ask("process.Process/SendInput", request).await;
    agent
        .ask(
            "process.Process/CloseStdin",
            json!({"process": {"tag": "mine"}}),
        )
        .await;
    for events in [by_pid, by_tag] {
        let run = collect(events).await;
        assert_eq!(
            (run.stdout.as_str(), run.end["status"].as_str()),
            ("x", Some("exit status 0"))
        );
    }
    let late = agent
        .stream(
            "process.Process/Connect",
            json!({"process": {"tag": "mine"}}),
        )
        .await;
    let (events, close) = late.rest().await;
    assert_eq!(events[0], json!({"event": {"start": {"pid": pid}}}));
    assert_eq!(events[1]["event"]["end"]["status"], "exit status 0");
    assert_eq!((events.len(), close), (2, json!({})));
}

#[tokio::test]
async fn joining_nobody_ends_with_not_found() {
    let agent = TestAgent::start();
    let connect =
        |process: Value| agent.stream("process.Process/Connect", json!({"process": process}));
    let (_, close) = connect(json!({"pid": 999_999})).await.rest().await;
    assert_eq!(
        close,
        json!({"error": {"code": "not_found", "message": "process with pid 999999 not found"}})
    );
    let (_, close) = connect(json!({"tag": "none"})).await.rest().await;
    assert_eq!(close["error"]["message"], "process with tag none not found");
}

#[tokio::test]
async fn a_silent_process_gives_signs_of_life() {
    let agent = TestAgent::start();
    let headers = [("keepalive-ping-interval", "1")];
    let mut events = agent.stream_with(START, shell("sleep 30"), &headers).await;
    let pid = events.event().await["event"]["start"]["pid"].clone();
    assert_eq!(events.event().await, json!({"event": {"keepalive": {}}}));
    agent
        .ask(
            "process.Process/SendSignal",
            json!({"process": {"pid": pid}, "signal": 9}),
        )
        .await;
}

#[tokio::test]
async fn large_output_arrives_whole_even_at_a_slow_reader() {
    let agent = TestAgent::start();
    let mut events = agent
        .stream(START, shell("head -c 8000000 /dev/zero | tr '\\0' 'x'"))
        .await;
    let mut length = 0;
    while let Message::Event(event) = events.next().await {
        if let Some(data) = event["event"]["data"]["stdout"].as_str() {
            length += STANDARD.decode(data).unwrap().len();
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(length, 8_000_000);
}

#[tokio::test]
async fn output_without_a_listener_does_not_stop_the_process() {
    let agent = TestAgent::start();
    let done = agent.home().join("done");
    let script = format!("head -c 5000000 /dev/zero; echo ok > {}", done.display());
    let (_, events) = start(&agent, shell(&script)).await;
    drop(events);
    wait_until(DEADLINE, || async {
        std::fs::read_to_string(&done)
            .map_err(|error| error.to_string())
            .and_then(|text| if text == "ok\n" { Ok(()) } else { Err(text) })
    })
    .await;
}
