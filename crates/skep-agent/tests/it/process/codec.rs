//! The ways in which the same calls can be written.

use http::StatusCode;
use serde_json::json;

use super::{START, run, shell, start};
use crate::agent::TestAgent;
use crate::connect::envelope;

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
