//! Many clients at once: who gets in, who has to go, and what they are told.

use std::net::Ipv4Addr;
use std::time::Duration;

use axum::Router;
use axum::routing::any;
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use skep_testkit::wait_until;
use skep_types::AccessToken;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::stage::{
    AGENT_PORT, DEADLINE, Ending, Stage, accept_head, ending, host, listen, read_until,
    serve_app_at, with_key,
};

pub(crate) const CALLER: Ipv4Addr = Ipv4Addr::LOCALHOST;
pub(crate) const CROWD: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// A proxy with room for a hundred connections, sixty of them from one address.
async fn small_stage() -> Stage {
    Stage::with(|config| {
        config.connections = 100;
        config.connections_per_loopback_address = 60;
        config.anonymous_connections = 20;
    })
    .await
}

pub(crate) async fn say_from(stage: &Stage, address: Ipv4Addr, request: &str) -> TcpStream {
    let mut stream = stage.connect_from(address).await;
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// A caller with a key from `address`, and what it hears.
pub(crate) async fn call(stage: &Stage, address: Ipv4Addr) -> (TcpStream, String) {
    let mut caller = say_from(stage, address, &with_key()).await;
    let heard = read_until(&mut caller, "\r\n\r\n").await;
    (caller, heard)
}

#[tokio::test]
async fn a_silent_crowd_locks_nobody_out() {
    let stage = small_stage().await;
    let (mut early, heard) = call(&stage, CALLER).await;
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    let mut crowd = Vec::new();
    for last in 0..300_u32 {
        // As one address, and as many.
        let address = match last % 2 {
            0 => CROWD,
            _ => Ipv4Addr::from_bits(CROWD.to_bits() + last),
        };
        crowd.push(match last % 3 {
            0 => say_from(&stage, address, "GET / HTTP/1.1\r\nhost: loc").await,
            _ => stage.connect_from(address).await,
        });
    }
    for address in [CALLER, CROWD, Ipv4Addr::new(127, 0, 0, 2)] {
        let (_, heard) = call(&stage, address).await;
        assert!(heard.starts_with("HTTP/1.1 200"), "{address}: {heard}");
    }
    early.write_all(with_key().as_bytes()).await.unwrap();
    read_until(&mut early, "the api").await;
    assert!(stage.metrics.connections_evicted.get() >= 200);
    assert_eq!(stage.metrics.connections_refused_server.get(), 0);
    assert_eq!(stage.metrics.connections_refused_address.get(), 0);
}

/// The control: connections that cannot go do lock others out.
#[tokio::test]
async fn an_address_that_is_full_of_callers_is_told_so_and_others_are_not() {
    let stage = small_stage().await;
    let mut callers = Vec::new();
    for _ in 0..60 {
        callers.push(call(&stage, CROWD).await.0);
    }
    let (mut refused, heard) = call(&stage, CROWD).await;
    assert!(heard.starts_with("HTTP/1.1 429"), "{heard}");
    assert!(heard.contains("retry-after: 1"), "{heard}");
    assert_eq!(ending(&mut refused).await, Ending::Orderly);
    assert_eq!(stage.metrics.connections_refused_address.get(), 1);
    for _ in 0..40 {
        let (caller, heard) = call(&stage, CALLER).await;
        assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
        callers.push(caller);
    }
    let (_, heard) = call(&stage, CALLER).await;
    assert!(heard.starts_with("HTTP/1.1 503"), "{heard}");
    assert_eq!(stage.metrics.connections_refused_server.get(), 1);
}

#[tokio::test]
async fn strangers_that_are_served_leave_room_for_callers() {
    let stage = small_stage().await;
    let token = AccessToken::random();
    let route = stage.sandbox_as(|route| route.access_token = Some(token.clone()));
    let (listener, port) = listen(&route).await;
    let in_flight = format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", host(&route, port));
    let mut visitors = Vec::new();
    for last in 0..20 {
        let address = Ipv4Addr::new(127, 0, 1, last + 1);
        let client = say_from(&stage, address, &in_flight).await;
        visitors.push((client, accept_head(&listener).await));
    }
    let mut refused = say_from(&stage, CROWD, &in_flight).await;
    let heard = read_until(&mut refused, "}").await;
    assert!(heard.starts_with("HTTP/1.1 503"), "{heard}");
    assert!(heard.contains(r#""code":503"#), "{heard}");
    assert_eq!(ending(&mut refused).await, Ending::Orderly);
    assert_eq!(stage.metrics.anonymous_refused.get(), 1);

    let (_, heard) = call(&stage, CROWD).await;
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    serve_app_at(
        &route,
        AGENT_PORT,
        Router::new().fallback(any(|| async { "the agent" })),
    )
    .await;
    let host = host(&route, AGENT_PORT);
    let token = token.reveal();
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nx-access-token: {token}\r\n\r\n");
    let mut owner = say_from(&stage, CROWD, &request).await;
    read_until(&mut owner, "the agent").await;

    // A visitor that leaves makes room for another.
    drop(visitors.pop());
    wait_until(DEADLINE, || async {
        let mut again = say_from(&stage, CROWD, &in_flight).await;
        let served = tokio::time::timeout(Duration::from_millis(200), listener.accept());
        let heard = read_until_either(&mut again, served).await;
        if heard { Ok(()) } else { Err("refused") }
    })
    .await;
}

/// Returns true if a visitor reached its service, rather than being refused.
async fn read_until_either<T>(
    client: &mut TcpStream,
    served: impl Future<Output = Result<T, tokio::time::error::Elapsed>>,
) -> bool {
    tokio::select! {
        _ = client.readable() => false,
        served = served => served.is_ok(),
    }
}

#[tokio::test]
async fn a_websocket_of_a_stranger_is_served_as_long_as_it_is_open() {
    let stage = Stage::with(|config| {
        config.connections = 2;
        config.anonymous_connections = 1;
        config.anonymous_idle_timeout = Duration::from_millis(50);
    })
    .await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let asked = format!(
        "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    );
    let mut client = stage.say(&asked).await;
    let (mut service, _) = accept_head(&listener).await;
    let answer = b"HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\n\r\n";
    service.write_all(answer).await.unwrap();
    read_until(&mut client, "HTTP/1.1 101").await;
    // Others come and go, and it counts among those that are served.
    for _ in 0..5 {
        drop(stage.connect().await);
        let mut refused = stage.say(&asked).await;
        read_until(&mut refused, "HTTP/1.1 503").await;
    }
    service.write_all(b"still there").await.unwrap();
    read_until(&mut client, "still there").await;
}

#[tokio::test]
async fn a_full_server_says_so_in_http_2() {
    let stage = Stage::with(|config| config.connections = 1).await;
    let (_caller, heard) = call(&stage, CALLER).await;
    assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    let io = TokioIo::new(stage.connect().await);
    let handshake = http2::handshake(TokioExecutor::new(), io).await;
    let (mut sender, connection) = handshake.unwrap();
    skep_telemetry::spawn("client", connection);
    let request = Request::post("http://localhost/sandboxes")
        .body(Full::new(Bytes::from_static(b"{}")))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert_eq!(response.status(), 503);
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.starts_with(br#"{"message":"#), "{body:?}");
}

/// Resident memory of this process.
fn resident_bytes() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size()
}

#[tokio::test]
async fn half_a_head_costs_little_and_a_large_one_is_not_awaited() {
    const CLIENTS: usize = 256;
    let stage = Stage::new().await;
    let before = resident_bytes();
    let half = format!("GET / HTTP/1.1\r\nx: {}", "a".repeat(480 << 10));
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        let mut client = stage.connect().await;
        // The server stops reading on the way.
        if client.write_all(half.as_bytes()).await.is_ok() {
            clients.push(client);
        }
    }
    wait_until(DEADLINE, || async {
        match stage.metrics.connections_open.get() {
            0 => Ok(()),
            open => Err(format!("{open} connections open")),
        }
    })
    .await;
    let mut held = Vec::new();
    let half = &half[..60 << 10];
    for _ in 0..CLIENTS {
        held.push(stage.say(half).await);
    }
    wait_until(DEADLINE, || async {
        match stage.metrics.connections_open.get() {
            open if open == CLIENTS as u64 => Ok(()),
            open => Err(format!("{open} connections open")),
        }
    })
    .await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(
        grown < CLIENTS * (192 << 10),
        "{} KiB each",
        (grown / CLIENTS) >> 10
    );
}
