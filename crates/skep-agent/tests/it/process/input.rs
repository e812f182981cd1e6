//! Input to processes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::{collect, decode, run, shell, start};
use crate::agent::{TestAgent, streamed};
use crate::connect::{Events, envelope};

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
async fn closed_input_is_read_as_its_end() {
    let agent = TestAgent::start();
    let run = run(&agent, shell("read line")).await;
    assert_eq!(run.end["exitCode"], 1);
}
