//! Clients that ask and do not read: what they may hold, and that callers do not feel it.

use std::net::Ipv4Addr;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use skep_testkit::wait_until;
use skep_types::AccessToken;
use tokio::io::AsyncWriteExt as _;

use crate::crowds::{CALLER, CROWD, call};
use crate::stage::{DEADLINE, Ending, KEY, Stage, accept_head, ending, host, listen, outlast};
use crate::upgrades::switched;

const WRONG_KEY: &str = "e2b_ffffffffffffffffffffffffffffffffffffffff";

/// A client of HTTP/2 that makes no room for any answer.
struct Stubborn(SendRequest<Full<Bytes>>);

impl Stubborn {
    async fn connect(stage: &Stage, address: Ipv4Addr) -> Self {
        let io = TokioIo::new(stage.connect_from(address).await);
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(0)
            .handshake(io)
            .await
            .unwrap();
        skep_telemetry::spawn("client", connection);
        Self(sender)
    }

    /// The head of an answer, unless the stream was reset.
    async fn ask(&self, key: Option<&str>) -> Option<Response<Incoming>> {
        let mut request = Request::get("http://localhost/");
        if let Some(key) = key {
            request = request.header("x-api-key", key);
        }
        let request = request.body(Full::default()).unwrap();
        self.0.clone().send_request(request).await.ok()
    }

    /// Asks many things at once, and keeps what is answered.
    async fn flood(&self, count: usize, key: Option<&str>) -> Vec<Response<Incoming>> {
        let answers = join_all((0..count).map(|_| self.ask(key))).await;
        answers.into_iter().flatten().collect()
    }
}

fn count(answers: &[Response<Incoming>], status: u16) -> usize {
    let of_status = answers.iter().filter(|answer| answer.status() == status);
    of_status.count()
}

#[tokio::test]
async fn one_connection_is_no_way_around_the_bound_of_its_address() {
    let stage = Stage::with(|config| config.connections_per_loopback_address = 50).await;
    let client = Stubborn::connect(&stage, CROWD).await;
    let answers = client.flood(300, None).await;
    // As many as it could have had connections, as many that are told so, and the rest is reset.
    assert_eq!((count(&answers, 200), count(&answers, 503)), (50, 50));
    assert_eq!(answers.len(), 100);
    for address in [CALLER, CROWD] {
        let (_, heard) = call(&stage, address).await;
        assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    }

    // Those that are given up make room, and whoever shows a key needs none.
    drop(answers);
    wait_until(DEADLINE, || async {
        let answer = client
            .ask(None)
            .await
            .filter(|answer| answer.status() == 200);
        answer.map(drop).ok_or("still refused")
    })
    .await;
    assert_eq!(client.ask(Some(KEY)).await.unwrap().status(), 200);
    assert_eq!(count(&client.flood(300, None).await, 200), 300);
}

#[tokio::test]
async fn streams_of_strangers_do_not_reset_those_of_callers() {
    let stage = Stage::with(|config| {
        config.connections = 40;
        config.connections_per_loopback_address = 20;
        config.anonymous_connections = 30;
    })
    .await;
    let mut held = Vec::new();
    let crowd = [1, 2, 3, 4].map(|last| Ipv4Addr::new(127, 0, 9, last));
    for address in crowd {
        let stranger = Stubborn::connect(&stage, address).await;
        for key in [None, Some(WRONG_KEY)] {
            held.push(stranger.flood(200, key).await);
        }
    }
    // The control: the number for all is used up, and another anonymous client is told so or reset.
    let served: usize = held.iter().map(|answers| count(answers, 200)).sum();
    assert!(served >= 30, "{served} are served");
    let visitor = Stubborn::connect(&stage, CALLER).await;
    let refused = visitor.ask(None).await;
    assert!(refused.is_none_or(|answer| answer.status() == 503));

    for address in [CALLER, crowd[0]] {
        let caller = Stubborn::connect(&stage, address).await;
        assert_eq!(count(&caller.flood(4, Some(KEY)).await, 200), 4);
        assert_eq!(count(&caller.flood(300, Some(KEY)).await, 200), 300);
    }
}

/// Fills all connections, each with an answer that its client makes no room for.
async fn full(key: &str) -> (Stage, Vec<(Stubborn, Response<Incoming>)>) {
    let stage = Stage::with(|config| {
        config.connections = 20;
        config.anonymous_connections = 10;
    })
    .await;
    let mut crowd = Vec::new();
    for last in 1..=20 {
        let client = Stubborn::connect(&stage, Ipv4Addr::new(127, 0, 8, last)).await;
        let answer = client.ask(Some(key)).await.unwrap();
        crowd.push((client, answer));
    }
    (stage, crowd)
}

#[tokio::test]
async fn a_wrong_key_does_not_hold_a_connection() {
    let (stage, _crowd) = full(WRONG_KEY).await;
    for _ in 0..3 {
        let (_, heard) = call(&stage, CALLER).await;
        assert!(heard.starts_with("HTTP/1.1 200"), "{heard}");
    }
    assert_eq!(stage.metrics.connections_evicted.get(), 1);
}

/// The control: a connection that has shown a right one is held as long as it likes.
#[tokio::test]
async fn a_right_key_holds_a_connection() {
    let (stage, _crowd) = full(KEY).await;
    let (_, heard) = call(&stage, CALLER).await;
    assert!(heard.starts_with("HTTP/1.1 503"), "{heard}");
}

const STALL: Duration = Duration::from_millis(300);

async fn impatient() -> Stage {
    Stage::with(|config| config.anonymous_stall_timeout = STALL).await
}

#[tokio::test]
async fn a_stranger_that_makes_no_room_for_its_answer_is_cut() {
    let stage = impatient().await;
    let caller = Stubborn::connect(&stage, CALLER).await;
    let _kept = caller.ask(Some(KEY)).await.unwrap();
    let mut held = Vec::new();
    for key in [None, Some(WRONG_KEY)] {
        let stranger = Stubborn::connect(&stage, CROWD).await;
        held.push((stranger.ask(key).await.unwrap(), stranger));
    }
    wait_until(DEADLINE, || async {
        let stalled = stage.metrics.connections_stalled.get();
        let open = stage.metrics.connections_open.get();
        match (stalled, open) {
            (2, 1) => Ok(()),
            other => Err(format!("{other:?} stalled and open")),
        }
    })
    .await;
    // The control: a caller with a key does the same and is waited for.
    outlast(2 * STALL).await;
    assert_eq!(caller.ask(Some(KEY)).await.unwrap().status(), 200);
}

/// Waits until a connection was cut because its client does not read.
async fn until_cut(stage: &Stage) {
    wait_until(DEADLINE, || async {
        let stalled = stage.metrics.connections_stalled.get();
        (stalled == 1).then_some(()).ok_or("waited for")
    })
    .await;
}

/// A service of a sandbox that never stops talking.
async fn talk(mut service: tokio::net::TcpStream) {
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("10000\r\n{}\r\n", "a".repeat(0x10000));
    let mut said = service.write_all(head).await;
    while said.is_ok() {
        said = service.write_all(chunk.as_bytes()).await;
    }
}

#[tokio::test]
async fn a_stranger_that_does_not_read_is_cut_and_a_caller_is_not() {
    let stage = impatient().await;
    let token = AccessToken::random();
    let route = stage.sandbox_as(|route| route.access_token = Some(token.clone()));
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let ask = |headers: String| {
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n");
        let (stage, listener) = (&stage, &listener);
        async move {
            let client = stage.say(&request).await;
            skep_telemetry::spawn("service", talk(accept_head(listener).await.0));
            client
        }
    };
    let caller = ask(format!("x-access-token: {}\r\n", token.reveal())).await;
    let mut stranger = ask(String::new()).await;
    until_cut(&stage).await;
    assert_eq!(ending(&mut stranger).await, Ending::Reset);
    outlast(2 * STALL).await;
    assert_eq!(stage.metrics.connections_stalled.get(), 1);
    assert_eq!(stage.metrics.connections_open.get(), 1);
    drop(caller);
}

/// Sends without an end.
async fn send_endlessly(mut client: tokio::net::TcpStream) -> std::io::Error {
    let part = vec![b'a'; 0x10000];
    loop {
        if let Err(error) = client.write_all(&part).await {
            return error;
        }
    }
}

#[tokio::test]
async fn a_stranger_whose_body_nobody_takes_is_cut_and_a_caller_is_not() {
    let stage = impatient().await;
    let token = AccessToken::random();
    let route = stage.sandbox_as(|route| route.access_token = Some(token.clone()));
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let send = |headers: String| {
        let request = format!(
            "POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: 1000000000\r\n{headers}\r\n"
        );
        let (stage, listener) = (&stage, &listener);
        async move {
            let client = stage.say(&request).await;
            let service = accept_head(listener).await.0;
            (
                skep_telemetry::spawn("sender", send_endlessly(client)),
                service,
            )
        }
    };
    let (caller, _service) = send(format!("x-access-token: {}\r\n", token.reveal())).await;
    let (stranger, _other) = send(String::new()).await;
    until_cut(&stage).await;
    stranger.await.unwrap();
    outlast(2 * STALL).await;
    assert_eq!(stage.metrics.connections_stalled.get(), 1);
    assert_eq!(stage.metrics.connections_open.get(), 1);
    caller.abort();
}

#[tokio::test]
async fn a_stranger_whose_body_is_slow_is_waited_for() {
    let stage = impatient().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let request = format!("POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: 4\r\n\r\na");
    let mut client = stage.say(&request).await;
    let (_service, _) = accept_head(&listener).await;
    outlast(2 * STALL).await;
    client.write_all(b"b").await.unwrap();
    outlast(2 * STALL).await;
    assert_eq!(stage.metrics.connections_stalled.get(), 0);
    assert_eq!(stage.metrics.connections_open.get(), 1);
}

#[tokio::test]
async fn a_stranger_whose_websocket_nobody_reads_is_cut() {
    let stage = impatient().await;
    let route = stage.sandbox();
    let (client, _service) = switched(&stage, &route).await;
    let sending = skep_telemetry::spawn("sender", send_endlessly(client));
    until_cut(&stage).await;
    sending.await.unwrap();
}

#[tokio::test]
async fn a_stranger_that_does_not_read_its_websocket_is_cut() {
    let stage = impatient().await;
    let route = stage.sandbox();
    let (mut client, service) = switched(&stage, &route).await;
    // Silence is no fault.
    outlast(2 * STALL).await;
    assert_eq!(stage.metrics.connections_stalled.get(), 0);
    skep_telemetry::spawn("service", talk(service));
    until_cut(&stage).await;
    assert_eq!(ending(&mut client).await, Ending::Reset);
}

#[tokio::test]
async fn what_is_left_of_an_answer_does_not_keep_an_idle_connection() {
    let idle = Duration::from_millis(100);
    let stage = Stage::with(|config| {
        config.anonymous_idle_timeout = idle;
        config.head_timeout = idle;
        config.anonymous_stall_timeout = DEADLINE;
    })
    .await;
    let io = TokioIo::new(stage.connect().await);
    // The answer is out of our hands when its first byte has gone.
    let (mut sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(1)
        .handshake(io)
        .await
        .unwrap();
    skep_telemetry::spawn("client", connection);
    let request = Request::get("http://localhost/").body(Full::<Bytes>::default());
    let _answer = sender.send_request(request.unwrap()).await.unwrap();
    wait_until(DEADLINE, || async {
        match stage.metrics.connections_open.get() {
            0 => Ok(()),
            open => Err(format!("{open} connections open")),
        }
    })
    .await;
}
