//! Tokens, signatures, control and the small routes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::{Method, StatusCode};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::agent::{CONTROL_TOKEN, TestAgent, whole};

const REFUSED: &str =
    "unauthorized access, please provide a valid access token or method signing if supported";

fn secured() -> TestAgent {
    TestAgent::with(&json!({"accessToken": "secret"}))
}

#[tokio::test]
async fn health_is_empty_and_open() {
    let agent = secured();
    let answer = agent.get("/health").await;
    assert_eq!(
        (answer.status, answer.body.len()),
        (StatusCode::NO_CONTENT, 0)
    );
}

#[tokio::test]
async fn a_secured_agent_wants_its_token() {
    let agent = secured();
    let expected = json!({"code": 401, "message": REFUSED});
    for path in ["/envs", "/metrics", "/nowhere"] {
        let answer = agent.get(path).await;
        assert_eq!(
            (answer.status, answer.json()),
            (StatusCode::UNAUTHORIZED, expected.clone()),
            "{path}"
        );
    }
    let answer = agent
        .call("filesystem.Filesystem/ListDir", json!({"path": "/"}))
        .await;
    assert_eq!(
        (answer.status, answer.json()),
        (StatusCode::UNAUTHORIZED, expected)
    );
    let (events, close) = agent
        .stream("process.Process/Start", json!({}))
        .await
        .rest()
        .await;
    assert_eq!(events.len(), 0);
    assert_eq!(
        close,
        json!({"error": {"code": "unauthenticated", "message": REFUSED}})
    );
    let agent = agent.header("x-access-token", "secret");
    agent
        .ask("filesystem.Filesystem/ListDir", json!({"path": "/"}))
        .await;
    assert_eq!(agent.get("/envs").await.json()["E2B_SANDBOX_ID"], "i123");
}

fn signature(path: &str, operation: &str, username: &str, expiration: Option<i64>) -> String {
    let tail = expiration
        .map(|seconds| format!(":{seconds}"))
        .unwrap_or_default();
    let text = format!("{path}:{operation}:{username}:secret{tail}");
    let encoded = format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(text)));
    encoded.replace('+', "%2B").replace('/', "%2F")
}

#[tokio::test]
async fn a_signed_link_opens_one_file_for_one_purpose() {
    let agent = secured();
    std::fs::write(agent.at("f"), "signed").unwrap();
    let read = signature("f", "read", "", None);
    assert_eq!(
        agent
            .get(&format!("/files?path=f&signature={read}"))
            .await
            .text(),
        "signed"
    );
    let raw = [("content-type", "application/octet-stream")];
    let message = async |path: String| {
        agent.get(&path).await.json()["message"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        message("/files?path=f".to_owned()).await,
        "missing signature query parameter"
    );
    assert_eq!(
        message(format!("/files?path=g&signature={read}")).await,
        "invalid signature"
    );
    assert_eq!(
        agent
            .post(&format!("/files?path=f&signature={read}"), &raw, "x")
            .await
            .status,
        401
    );
    let write = signature("f", "write", "root", None);
    let answer = agent
        .post(
            &format!("/files?path=f&username=root&signature={write}"),
            &raw,
            "x",
        )
        .await;
    assert_eq!(answer.status, StatusCode::OK);
    let past = signature("f", "read", "", Some(1));
    let expired = agent
        .get(&format!(
            "/files?path=f&signature={past}&signature_expiration=1"
        ))
        .await;
    assert_eq!(
        expired.text(),
        "{\"code\":401,\"message\":\"signature is already expired\"}\n"
    );
    let wrong = agent
        .get_with(
            &format!("/files?path=f&signature={read}"),
            &[("x-access-token", "no")],
        )
        .await;
    assert_eq!(
        wrong.json()["message"],
        "access token present in header but does not match"
    );
}

#[tokio::test]
async fn control_routes_do_not_exist_without_the_control_token() {
    let agent = TestAgent::start();
    let config =
        json!({"accessToken": "t2", "sandboxId": "i9", "defaultUser": "root", "env": {"A": "b"}});
    let json_type = ("content-type", "application/json");
    for headers in [
        vec![json_type],
        vec![json_type, ("x-skep-control", "wrong")],
    ] {
        let answer = agent.post("/init", &headers, config.to_string()).await;
        assert_eq!(
            (answer.status, answer.json()["code"].as_i64()),
            (StatusCode::NOT_FOUND, Some(404))
        );
    }
    let control = [json_type, ("x-skep-control", CONTROL_TOKEN)];
    assert_eq!(
        agent
            .post("/init", &control, config.to_string())
            .await
            .status,
        StatusCode::NO_CONTENT
    );
    assert_eq!(agent.get("/envs").await.status, StatusCode::UNAUTHORIZED);
    let envs = agent
        .get_with("/envs", &[("x-access-token", "t2")])
        .await
        .json();
    assert_eq!(
        (&envs["A"], &envs["E2B_SANDBOX_ID"]),
        (&json!("b"), &json!("i9"))
    );
    assert_eq!(
        std::fs::read_to_string(agent.directory().join("run/.E2B_SANDBOX_ID")).unwrap(),
        "i9"
    );
    assert_eq!(
        agent.post("/init", &control, "{}").await.status,
        StatusCode::NO_CONTENT
    );
}

#[tokio::test]
async fn metrics_are_plausible() {
    let agent = TestAgent::start();
    let metrics = agent.get("/metrics").await.json();
    for key in [
        "ts",
        "cpu_count",
        "mem_total",
        "mem_used",
        "mem_total_mib",
        "disk_total",
        "disk_used",
    ] {
        assert!(metrics[key].as_u64().unwrap() > 0, "{key}: {metrics}");
    }
    assert!((0.0..=100.0).contains(&metrics["cpu_used_pct"].as_f64().unwrap()));
}

#[tokio::test]
async fn browsers_may_call_from_anywhere() {
    let agent = secured();
    let headers = [
        ("origin", "https://example.com"),
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "authorization,x-access-token",
        ),
    ];
    let answer = agent
        .send(
            Method::OPTIONS,
            "/process.Process/Start",
            &headers,
            whole(""),
        )
        .await;
    assert_eq!(answer.status(), StatusCode::OK);
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!(header("access-control-allow-origin"), "*");
    assert_eq!(
        header("access-control-allow-headers"),
        "authorization,x-access-token"
    );
    assert_eq!(header("access-control-max-age"), "7200");
    assert!(header("access-control-allow-methods").contains("DELETE"));
}

#[tokio::test]
async fn unknown_routes_and_calls_are_told_as_such() {
    let agent = TestAgent::start();
    assert_eq!(
        agent.get("/nowhere").await.json(),
        json!({"code": 404, "message": "not found"})
    );
    assert_eq!(agent.post("/health", &[], "").await.json()["code"], 405);
    let refused = agent.call("process.Process/Nothing", json!({})).await;
    assert_eq!(refused.json()["code"], "unimplemented");
}

#[tokio::test]
async fn connections_from_inside_cannot_use_up_all_places() {
    let agent = TestAgent::start();
    let mut held = Vec::new();
    for _ in 0..300 {
        held.push(TcpStream::connect(agent.address).await.unwrap());
    }
    let mut closed = 0;
    for stream in &mut held {
        let waited =
            tokio::time::timeout(std::time::Duration::from_millis(1), stream.read_u8()).await;
        closed += usize::from(waited.is_ok());
    }
    assert!(closed >= 40, "only {closed} of 300 were closed");
    drop(held);
    skep_testkit::wait_until(std::time::Duration::from_secs(10), || async {
        let answered = TcpStream::connect(agent.address).await.unwrap();
        let (mut read, mut write) = answered.into_split();
        write
            .write_all(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        read.read_u8().await
    })
    .await;
}

async fn tunnel(agent: &TestAgent, port: u16, control: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(agent.address).await.unwrap();
    let request = format!(
        "GET /skep/tunnel/{port} HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: skep-tunnel\r\n\
         x-skep-control: {control}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    (stream, String::from_utf8(head).unwrap())
}

#[tokio::test]
async fn a_tunnel_reaches_what_listens_on_loopback() {
    let agent = TestAgent::start();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(address).await else {
            continue;
        };
        let port = listener.local_addr().unwrap().port();
        let (mut stream, head) = tunnel(&agent, port, CONTROL_TOKEN).await;
        assert!(
            head.starts_with("HTTP/1.1 101")
                && head.to_lowercase().contains("upgrade: skep-tunnel"),
            "{head}"
        );
        let (mut service, _) = listener.accept().await.unwrap();
        stream.write_all(b"ping").await.unwrap();
        let mut received = [0; 4];
        service.read_exact(&mut received).await.unwrap();
        service.write_all(b"pong").await.unwrap();
        drop(service);
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!((&received, answer.as_str()), (b"ping", "pong"));
    }
    // A port that is taken, so that no other test gets it, and at which nobody listens.
    let taken = TcpSocket::new_v4().unwrap();
    taken.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = taken.local_addr().unwrap().port();
    let also_taken = TcpSocket::new_v6().unwrap();
    let bound = also_taken.bind(format!("[::1]:{port}").parse().unwrap());
    let (_, head) = tunnel(&agent, port, CONTROL_TOKEN).await;
    assert!(head.starts_with("HTTP/1.1 502"), "{bound:?} {head}");
    let (_, head) = tunnel(&agent, 1, "wrong").await;
    assert!(head.starts_with("HTTP/1.1 404"), "{head}");
}

/// Found by fuzzing: the RPC library answers these with a bare status.
#[tokio::test]
async fn every_refusal_has_a_body() {
    let agent = TestAgent::start();
    let path = "/process.Process/Start";
    for headers in [&[][..], &[("content-type", "text/plain")]] {
        let answer = agent.post(path, headers, "x").await;
        assert_eq!(answer.status, StatusCode::UNSUPPORTED_MEDIA_TYPE);
        assert_eq!(
            answer.json(),
            json!({"code": 415, "message": "unsupported media type"})
        );
        assert!(answer.header("accept-post").is_some());
    }
}
