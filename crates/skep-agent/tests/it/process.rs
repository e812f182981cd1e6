//! The process service.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use skep_testkit::wait_until;

use crate::agent::{TestAgent, USER_ID, streamed};
use crate::connect::{Events, Message, envelope};

const START: &str = "process.Process/Start";
const DEADLINE: Duration = Duration::from_secs(10);

fn shell(script: &str) -> Value {
    json!({"process": {"cmd": "/bin/bash", "args": ["-c", script]}, "stdin": false})
}

/// What a process printed, and its end event.
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
async fn input_reaches_the_process_and_ends_when_closed() {
    let agent = TestAgent::start();
    let (pid, events) = start(&agent, json!({"process": {"cmd": "cat"}})).await;
    let process = json!({"pid": pid});
    for text in ["Hello ", "", "grüße\n"] {
        let request = json!({"process": process, "input": {"stdin": STANDARD.encode(text)}});
        assert_eq!(
            agent.ask("process.Process/SendInput", request).await,
            json!({})
        );
    }
    agent
        .ask("process.Process/CloseStdin", json!({"process": process}))
        .await;
    let run = collect(events).await;
    assert_eq!(run.stdout, "Hello grüße\n");
    assert_eq!(run.end["status"], "exit status 0");
}

#[tokio::test]
async fn input_that_has_nowhere_to_go_is_refused() {
    let agent = TestAgent::start();
    let (pid, _events) = start(
        &agent,
        json!({"process": {"cmd": "sleep", "args": ["60"]}, "stdin": false}),
    )
    .await;
    let send = |input: Value| {
        agent.refused(
            "process.Process/SendInput",
            json!({"process": {"pid": pid}, "input": input}),
        )
    };
    assert!(
        send(json!({"stdin": "eA=="}))
            .await
            .starts_with("500 internal error writing to stdin")
    );
    assert!(
        send(json!({"pty": "eA=="}))
            .await
            .starts_with("500 internal error writing to tty")
    );
    assert!(send(json!({})).await.starts_with("501 unimplemented"));
    let request = json!({"process": {"pid": 999_999}, "input": {"stdin": ""}});
    assert_eq!(
        agent.refused("process.Process/SendInput", request).await,
        "404 not_found process with pid 999999 not found"
    );
    let request = json!({"process": {"pid": pid}, "pty": {"size": {"cols": 1, "rows": 1}}});
    assert!(
        agent
            .refused("process.Process/Update", request)
            .await
            .starts_with("500 internal")
    );
    agent
        .ask(
            "process.Process/SendSignal",
            json!({"process": {"pid": pid}, "signal": 9}),
        )
        .await;
}

#[tokio::test]
async fn streamed_input_is_written_as_it_arrives() {
    let agent = TestAgent::start();
    let (pid, mut events) = start(&agent, json!({"process": {"cmd": "cat"}})).await;
    let (sender, receiver) = tokio::sync::mpsc::channel::<Bytes>(4);
    let message = |value: Value| envelope(0, value.to_string().as_bytes());
    let body = streamed(futures_util::stream::unfold(
        receiver,
        |mut receiver| async { receiver.recv().await.map(|piece| (piece, receiver)) },
    ));
    let headers = [("content-type", "application/connect+json")];
    let call = agent.send(Method::POST, "/process.Process/StreamInput", &headers, body);
    let feed = async {
        sender
            .send(message(json!({"start": {"process": {"pid": pid}}})))
            .await
            .unwrap();
        sender
            .send(message(
                json!({"data": {"input": {"stdin": STANDARD.encode("one")}}}),
            ))
            .await
            .unwrap();
        assert_eq!(
            decode(&events.event().await["event"]["data"]["stdout"]),
            "one"
        );
        sender
            .send(message(json!({"keepalive": {}})))
            .await
            .unwrap();
        sender
            .send(message(
                json!({"data": {"input": {"stdin": STANDARD.encode("two")}}}),
            ))
            .await
            .unwrap();
        assert_eq!(
            decode(&events.event().await["event"]["data"]["stdout"]),
            "two"
        );
        drop(sender);
        events
    };
    let (response, events) = tokio::join!(call, feed);
    assert_eq!(response.status(), StatusCode::OK);
    let (messages, close) = Events::of(response.into_body()).rest().await;
    assert_eq!((messages, close), (vec![json!({})], json!({})));
    agent
        .ask(
            "process.Process/CloseStdin",
            json!({"process": {"pid": pid}}),
        )
        .await;
    assert_eq!(collect(events).await.end["exited"], true);
}

#[tokio::test]
async fn streamed_input_for_nobody_ends_with_not_found() {
    let agent = TestAgent::start();
    let body = envelope(0, br#"{"start":{"process":{"pid":999999}}}"#);
    let headers = [("content-type", "application/connect+json")];
    let body = crate::agent::whole(body);
    let response = agent
        .send(Method::POST, "/process.Process/StreamInput", &headers, body)
        .await;
    assert_eq!(response.status(), StatusCode::OK);
    let (messages, close) = Events::of(response.into_body()).rest().await;
    assert_eq!(
        (messages.len(), &close["error"]["code"]),
        (0, &json!("not_found"))
    );
}

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
    wait_until(DEADLINE, || async {
        let gone = !std::path::Path::new(&format!("/proc/{pid}")).exists();
        if gone {
            Ok(())
        } else {
            Err("the process still runs")
        }
    })
    .await;
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
    wait_until(DEADLINE, || async {
        let gone = !std::path::Path::new(&format!("/proc/{pid}")).exists();
        if gone {
            Ok(())
        } else {
            Err("the process still runs")
        }
    })
    .await;
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
async fn a_terminal_has_a_size_can_be_resized_and_ends_with_its_shell() {
    let agent = TestAgent::start();
    let request = json!({
        "process": {"cmd": "/bin/bash", "args": ["--norc", "-i"], "envs": {"TERM": "xterm", "PS1": "$ "}},
        "pty": {"size": {"cols": 80, "rows": 24}}
    });
    let (pid, mut events) = start(&agent, request).await;
    let mut seen = String::new();
    let type_in = |text: &str| {
        let input = json!({"process": {"pid": pid}, "input": {"pty": STANDARD.encode(text)}});
        agent.ask("process.Process/SendInput", input)
    };
    type_in("stty size; tty; ls -l $(tty) | cut -d' ' -f3\n").await;
    while !seen.contains("24 80") || !seen.contains("/dev/pts/") {
        seen.push_str(&decode(&events.event().await["event"]["data"]["pty"]));
    }
    let size = json!({"process": {"pid": pid}, "pty": {"size": {"cols": 100, "rows": 30}}});
    agent.ask("process.Process/Update", size).await;
    type_in("stty size\n").await;
    while !seen.contains("30 100") {
        seen.push_str(&decode(&events.event().await["event"]["data"]["pty"]));
    }
    let refused = agent
        .refused(
            "process.Process/CloseStdin",
            json!({"process": {"pid": pid}}),
        )
        .await;
    assert!(refused.starts_with("500 unknown"), "{refused}");
    type_in("exit\n").await;
    assert_eq!(collect(events).await.end["status"], "exit status 0");
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

#[tokio::test]
async fn a_background_child_that_keeps_the_output_open_delays_the_end() {
    let agent = TestAgent::start();
    let run = run(&agent, shell("(sleep 0.3; echo late) & echo early")).await;
    assert_eq!(
        (run.stdout.as_str(), run.end["exited"].as_bool()),
        ("early\nlate\n", Some(true))
    );
}

#[tokio::test]
async fn closed_input_is_read_as_its_end() {
    let agent = TestAgent::start();
    let run = run(&agent, shell("read line")).await;
    assert_eq!(run.end["exitCode"], 1);
}

#[tokio::test]
async fn the_binary_codec_speaks_the_same() {
    use buffa::Message as _;
    use skep_wire::rpc::process as wire;
    let agent = TestAgent::start();
    let request = wire::StartRequest {
        process: wire::ProcessConfig {
            cmd: "echo".to_owned(),
            args: vec!["hi".to_owned()],
            ..Default::default()
        }
        .into(),
        ..Default::default()
    };
    let headers = [("content-type", "application/connect+proto")];
    let answer = agent
        .post(
            &format!("/{START}"),
            &headers,
            envelope(0, &request.encode_to_vec()),
        )
        .await;
    assert_eq!(
        answer.header("content-type"),
        Some("application/connect+proto")
    );
    let mut body = answer.body;
    let mut texts = Vec::new();
    while !body.is_empty() {
        let head = body.split_to(5);
        let length = u32::from_be_bytes(head[1..5].try_into().unwrap()) as usize;
        let payload = body.split_to(length);
        if head[0] & 2 != 0 {
            assert_eq!(&payload[..], b"{}");
            continue;
        }
        let event = wire::StartResponse::decode_from_slice(&payload)
            .unwrap()
            .event
            .into_option()
            .unwrap();
        use wire::process_event::Event;
        texts.push(match event.event.unwrap() {
            Event::Start(start) => format!("start {}", start.pid > 0),
            Event::Data(data) => format!("{:?}", data.output.unwrap()),
            Event::End(end) => format!("end {} {}", end.exit_code, end.status),
            Event::Keepalive(_) => "keepalive".to_owned(),
        });
    }
    assert_eq!(
        texts,
        ["start true", r#"Stdout(b"hi\n")"#, "end 0 exit status 0"]
    );
    let answer = agent
        .post(
            "/process.Process/List",
            &[("content-type", "application/proto")],
            "",
        )
        .await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, 0));
}

#[tokio::test]
async fn http2_without_tls_works_as_well() {
    let agent = TestAgent::over_http2();
    assert_eq!(run(&agent, shell("echo two")).await.stdout, "two\n");
}

#[tokio::test]
async fn lenient_json_is_understood() {
    let agent = TestAgent::start();
    let (pid, events) = start(
        &agent,
        json!({"process": {"cmd": "cat"}, "unknown_field": {"a": [1]}}),
    )
    .await;
    // Unpadded and url-safe.
    let request = json!({"process": {"pid": pid.to_string()}, "input": {"stdin": "_-8"}});
    agent.ask("process.Process/SendInput", request).await;
    let headers = [
        ("content-encoding", "identity"),
        ("accept-encoding", "identity"),
        ("connect-timeout-ms", "60000"),
    ];
    let answer = agent
        .call_with(
            "process.Process/CloseStdin",
            json!({"process": {"pid": pid}}),
            &headers,
        )
        .await;
    assert_eq!((answer.status, answer.text()), (StatusCode::OK, "{}"));
    let (events, _) = events.rest().await;
    assert_eq!(events[0]["event"]["data"]["stdout"], "/+8=");
}
