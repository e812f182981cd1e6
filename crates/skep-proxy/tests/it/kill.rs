use std::sync::Arc;
use std::time::{Duration, Instant};

use skep_proxy::Route;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::stage::{
    AGENT_PORT, DEADLINE, Ending, Stage, accept_head, ending, host, listen, read_until,
};

/// A client in the middle of a stream from a service, and the service.
async fn streaming(stage: &Stage, route: &Arc<Route>, extra: &str) -> (TcpStream, TcpStream) {
    let (listener, port) = listen(route).await;
    let host = host(route, port);
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n{extra}\r\n");
    let mut client = stage.say(&request).await;
    let (mut service, _) = accept_head(&listener).await;
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
    service.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut client, "hello").await;
    (client, service)
}

#[tokio::test]
async fn a_kill_resets_the_stream_at_once_and_the_sandbox_is_not_found() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (mut client, _service) = streaming(&stage, &route, "").await;
    let start = Instant::now();
    stage.routes.kill(&route.id);
    assert_eq!(ending(&mut client).await, Ending::Reset);
    assert!(
        start.elapsed() < Duration::from_millis(500),
        "{:?}",
        start.elapsed()
    );
    let health = stage.get(&route, AGENT_PORT, "/health").await;
    assert_eq!(health.status(), 502);
    assert!(health.body().contains("was not found"), "{health:?}");
    assert_eq!(stage.metrics.hangups.get(), 0, "a kill is no hang-up");
}

#[tokio::test]
async fn a_kill_resets_a_request_that_has_no_answer_yet() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let request = format!("GET / HTTP/1.1\r\nhost: {}\r\n\r\n", host(&route, port));
    let mut client = stage.say(&request).await;
    let _service = accept_head(&listener).await;
    stage.routes.kill(&route.id);
    assert_eq!(ending(&mut client).await, Ending::Reset);
}

#[tokio::test]
async fn a_kill_resets_a_client_that_does_not_read() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (mut client, mut service) = streaming(&stage, &route, "").await;
    // Fill every buffer between the service and the client.
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    while tokio::time::timeout(
        Duration::from_millis(300),
        service.write_all(chunk.as_bytes()),
    )
    .await
    .is_ok()
    {}
    stage.routes.kill(&route.id);
    // The client has not read a byte, and the proxy has let go of it already.
    skep_testkit::wait_until(DEADLINE, || async {
        match stage.metrics.connections_open.get() {
            0 => Ok(()),
            open => Err(format!("{open} connections open")),
        }
    })
    .await;
    assert_eq!(ending(&mut client).await, Ending::Reset);
}

#[tokio::test]
async fn a_kill_leaves_other_connections_alone() {
    let stage = Stage::new().await;
    let (doomed, other) = (stage.sandbox(), stage.sandbox());
    let (mut doomed_client, _doomed_service) = streaming(&stage, &doomed, "").await;
    let (mut client, mut service) = streaming(&stage, &other, "").await;
    // An idle connection that once served the sandbox is not the sandbox's.
    let mut idle = stage
        .say("GET /x HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await;
    read_until(&mut idle, "the api").await;

    stage.routes.kill(&doomed.id);
    assert_eq!(ending(&mut doomed_client).await, Ending::Reset);
    service.write_all(b"3\r\nend\r\n0\r\n\r\n").await.unwrap();
    read_until(&mut client, "end").await;
    idle.write_all(b"GET /x HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    read_until(&mut idle, "the api").await;
}

#[tokio::test]
async fn a_kill_closes_the_connection_to_the_sandbox() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (_client, mut service) = streaming(&stage, &route, "").await;
    stage.routes.kill(&route.id);
    ending(&mut service).await;
}

/// A client of `agent` in the middle of a procedure's stream.
async fn procedure(stage: &Stage, route: &Arc<Route>, agent: &str) -> (TcpStream, TcpStream) {
    let address = (route.address, AGENT_PORT);
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let host = host(route, AGENT_PORT);
    let request = format!(
        "POST /process.Process/Start HTTP/1.1\r\nhost: {host}\r\nuser-agent: {agent}\r\n\
         content-type: application/connect+json\r\ncontent-length: 0\r\n\r\n"
    );
    let mut client = stage.say(&request).await;
    let (mut service, _) = accept_head(&listener).await;
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/connect+json\r\n\
                transfer-encoding: chunked\r\n\r\n7\r\n\0\0\0\0\x02{}\r\n";
    service.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut client, "{}").await;
    (client, service)
}

#[tokio::test]
async fn sdks_of_a_year_ago_are_told_in_words_that_their_sandbox_ended() {
    for agent in ["e2b-python-sdk/2.7.0", "e2b-js-sdk/2.7.0"] {
        let stage = Stage::new().await;
        let route = stage.sandbox();
        let (mut client, _service) = procedure(&stage, &route, agent).await;
        stage.routes.kill(&route.id);
        let words = read_until(&mut client, "0\r\n\r\n").await;
        assert!(
            words.contains(r#"{"error":{"code":"unavailable""#),
            "{words:?}"
        );
    }
}

#[tokio::test]
async fn newer_sdks_are_reset() {
    for agent in ["connectrpc/0.12.1", "e2b-js-sdk/2.49.0 e2b-cli/2.19.0"] {
        let stage = Stage::new().await;
        let route = stage.sandbox();
        let (mut client, _service) = procedure(&stage, &route, agent).await;
        stage.routes.kill(&route.id);
        assert_eq!(ending(&mut client).await, Ending::Reset, "{agent}");
    }
}

#[tokio::test]
async fn there_are_no_last_words_in_the_middle_of_an_envelope() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (mut client, mut service) = procedure(&stage, &route, "e2b-python-sdk/2.7.0").await;
    service
        .write_all(b"9\r\n\0\0\0\x01\0half\r\n")
        .await
        .unwrap();
    read_until(&mut client, "half").await;
    stage.routes.kill(&route.id);
    assert_eq!(ending(&mut client).await, Ending::Reset);
}

#[tokio::test]
async fn a_sandbox_whose_processes_die_before_the_news_is_out_resets_too() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (mut client, service) = streaming(&stage, &route, "").await;
    drop(service);
    assert_eq!(ending(&mut client).await, Ending::Reset);

    // A probe that comes between waits for the news.
    let probe = stage.get(&route, AGENT_PORT, "/health");
    let news = async {
        tokio::task::yield_now().await;
        stage.routes.kill(&route.id);
    };
    let (health, ()) = tokio::join!(probe, news);
    assert!(health.body().contains("was not found"), "{health:?}");
}
