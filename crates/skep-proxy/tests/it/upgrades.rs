use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::stage::{Ending, Stage, accept_head, ending, host, listen, read_until};

/// A client and a service that have switched to WebSocket.
pub(crate) async fn switched(stage: &Stage, route: &skep_proxy::Route) -> (TcpStream, TcpStream) {
    let (listener, port) = listen(route).await;
    let host = host(route, port);
    let mut client = stage
        .say(&format!(
            "GET /socket HTTP/1.1\r\nhost: {host}\r\nconnection: keep-alive, Upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        ))
        .await;
    let (mut service, head) = accept_head(&listener).await;
    assert!(head.contains("connection: upgrade\r\n"), "{head}");
    assert!(head.contains("upgrade: websocket\r\n"), "{head}");
    assert!(
        head.contains("sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
        "{head}"
    );
    let answer = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
                  sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\nfirst words";
    service.write_all(answer.as_bytes()).await.unwrap();
    let seen = read_until(&mut client, "first words").await;
    assert!(seen.starts_with("HTTP/1.1 101"), "{seen}");
    assert!(
        seen.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        "{seen}"
    );
    (client, service)
}

#[tokio::test]
async fn a_websocket_passes_bytes_in_both_directions() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (mut client, mut service) = switched(&stage, &route).await;
    for _ in 0..3 {
        client.write_all(b"ping").await.unwrap();
        read_until(&mut service, "ping").await;
        service.write_all(b"pong").await.unwrap();
        read_until(&mut client, "pong").await;
    }
    drop(client);
    assert_eq!(ending(&mut service).await, Ending::Orderly);
}

#[tokio::test]
async fn a_kill_resets_a_websocket() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (mut client, _service) = switched(&stage, &route).await;
    stage.routes.kill(&route.id);
    assert_eq!(ending(&mut client).await, Ending::Reset);
}

#[tokio::test]
async fn a_service_that_ends_a_websocket_ends_the_clients() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (mut client, service) = switched(&stage, &route).await;
    drop(service);
    assert_eq!(ending(&mut client).await, Ending::Orderly);
}

#[tokio::test]
async fn a_service_may_decline_to_switch() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let request = format!(
        "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
    );
    let mut client = stage.say(&request).await;
    let (mut service, _) = accept_head(&listener).await;
    let answer = b"HTTP/1.1 426 Upgrade Required\r\ncontent-length: 2\r\n\r\nno";
    service.write_all(answer).await.unwrap();
    assert!(
        read_until(&mut client, "\r\n\r\nno")
            .await
            .starts_with("HTTP/1.1 426")
    );
}

/// Answer to a client that sends `request` to a service that switches to `protocol`.
async fn heard_of_switch(request: &str, protocol: &str) -> String {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n{request}\r\n");
    let mut client = stage.say(&request).await;
    let (mut service, _) = accept_head(&listener).await;
    let switch = format!(
        "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n{protocol}\r\n\
         HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nsmuggled"
    );
    service.write_all(switch.as_bytes()).await.unwrap();
    read_until(&mut client, "\r\n\r\n").await
}

#[tokio::test]
async fn a_switch_that_nobody_asked_for_is_no_answer() {
    let asked = "connection: upgrade\r\nupgrade: websocket\r\n";
    let websocket = "upgrade: WebSocket\r\n";
    for (request, protocol) in [
        ("", websocket),
        ("upgrade: websocket\r\n", websocket),
        (
            "connection: upgrade\r\nupgrade: h2c\r\n",
            "upgrade: h2c\r\n",
        ),
        (asked, "upgrade: smtp\r\n"),
        (asked, ""),
    ] {
        let heard = heard_of_switch(request, protocol).await;
        assert!(heard.starts_with("HTTP/1.1 502"), "{request:?}: {heard}");
        assert!(!heard.contains("smuggled"), "{heard}");
    }
    // The same switch is passed on to whoever asked for it.
    let heard = heard_of_switch(asked, websocket).await;
    assert!(heard.starts_with("HTTP/1.1 101"), "{heard}");
}

#[tokio::test]
async fn an_offer_of_clear_text_http_2_is_passed_over() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let request = format!(
        "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: Upgrade, HTTP2-Settings\r\n\
         upgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAAP__\r\n\r\n"
    );
    let mut client = stage.say(&request).await;
    let (mut service, head) = accept_head(&listener).await;
    assert!(
        !head.contains("upgrade") && !head.contains("http2-settings"),
        "{head}"
    );
    service
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        .await
        .unwrap();
    read_until(&mut client, "\r\n\r\nok").await;
}
