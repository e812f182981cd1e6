use axum::Router;
use axum::extract::Path;
use axum::routing::any;
use http::StatusCode;
use skep_types::Redacted;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::stage::{AGENT_PORT, Stage, accept_head, listen, serve_app, serve_app_at};

#[tokio::test]
async fn a_connection_to_a_sandbox_serves_request_after_request() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let port = serve_app(&route, Router::new().fallback(any(|| async { "hello" }))).await;
    for _ in 0..10 {
        assert_eq!(stage.get(&route, port, "/").await.body(), "hello");
    }
    assert_eq!(stage.metrics.upstream_connected.get(), 1);
    assert_eq!(stage.metrics.upstream_reused.get(), 9);
}

#[tokio::test]
async fn a_new_run_of_a_sandbox_gets_connections_of_its_own() {
    let stage = Stage::new().await;
    let first = stage.sandbox();
    let app = || Router::new().fallback(any(|| async { "hello" }));
    let port = serve_app(&first, app()).await;
    stage.get(&first, port, "/").await;
    stage.routes.kill(&first.id);
    let second = stage.routes.publish_as(|route| {
        route.id = first.id.clone();
        route.address = first.address;
    });
    assert_eq!(stage.get(&second, port, "/").await.body(), "hello");
    assert_eq!(stage.metrics.upstream_reused.get(), 0);
}

#[tokio::test]
async fn a_kept_connection_that_the_service_closes_is_replaced() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let service = async {
        let (mut stream, _) = accept_head(&listener).await;
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none";
        stream.write_all(answer).await.unwrap();
        // The second request comes on the same connection, which closes under it.
        crate::stage::read_until(&mut stream, "\r\n\r\n").await;
        drop(stream);
        let (mut stream, _) = accept_head(&listener).await;
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\ntwo";
        stream.write_all(answer).await.unwrap();
        stream
    };
    let client = async {
        let first = stage.get(&route, port, "/").await;
        let second = stage.get(&route, port, "/").await;
        (first.into_body(), second.into_body())
    };
    let (_stream, answers) = tokio::join!(service, client);
    assert_eq!(answers, ("one".to_owned(), "two".to_owned()));
}

/// An agent that tunnels to a fixed address, whatever port it is asked for, if it has one.
fn agent(target: Option<std::net::SocketAddr>) -> Router {
    let tunnel = move |Path(_port): Path<u16>, request: axum::extract::Request| async move {
        assert_eq!(request.headers()["x-skep-control"], "the control token");
        assert_eq!(request.headers()["upgrade"], "skep-tunnel");
        let Some(target) = target else {
            return Err(StatusCode::BAD_GATEWAY);
        };
        let mut service = TcpStream::connect(target).await.unwrap();
        skep_telemetry::spawn("tunnel", async move {
            let upgraded = hyper::upgrade::on(request).await.unwrap();
            let mut client = hyper_util::rt::TokioIo::new(upgraded);
            copy_bidirectional(&mut client, &mut service).await
        });
        let headers = [("connection", "upgrade"), ("upgrade", "skep-tunnel")];
        Ok((StatusCode::SWITCHING_PROTOCOLS, headers))
    };
    Router::new().route("/skep/tunnel/{port}", any(tunnel))
}

#[tokio::test]
async fn a_service_on_the_sandboxs_loopback_is_reached_through_its_agent() {
    let stage = Stage::new().await;
    let control = Redacted::new("the control token".to_owned());
    let route = stage.sandbox_as(|route| route.control_token = control);
    // Another address of this host stands for the loopback inside the sandbox.
    let hidden = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = hidden.local_addr().unwrap();
    let app = Router::new().fallback(any(|| async { "hidden" }));
    skep_telemetry::spawn("hidden", async move { axum::serve(hidden, app).await });
    serve_app_at(&route, AGENT_PORT, agent(Some(target))).await;

    let start = std::time::Instant::now();
    assert_eq!(stage.get(&route, target.port(), "/").await.body(), "hidden");
    assert!(
        start.elapsed() < std::time::Duration::from_millis(150),
        "{:?}",
        start.elapsed()
    );
    assert_eq!(stage.get(&route, target.port(), "/").await.body(), "hidden");
    assert_eq!(
        stage.metrics.upstream_tunnelled.get(),
        1,
        "the tunnel is kept"
    );
}

#[tokio::test]
async fn a_port_that_is_closed_on_the_loopback_too_is_closed() {
    let stage = Stage::new().await;
    let control = Redacted::new("the control token".to_owned());
    let route = stage.sandbox_as(|route| route.control_token = control);
    serve_app_at(&route, AGENT_PORT, agent(None)).await;
    let (listener, port) = listen(&route).await;
    drop(listener);
    let answer = stage.get(&route, port, "/").await;
    assert_eq!(answer.status(), 502);
    assert!(answer.body().contains("port is not open"), "{answer:?}");
}

#[tokio::test]
async fn a_service_of_one_connection_at_a_time_is_not_kept_waiting() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let service = async {
        let (mut stream, _) = accept_head(&listener).await;
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\none";
        stream.write_all(answer).await.unwrap();
        // It waits for the next request on this connection and serves no other meanwhile.
        crate::stage::ending(&mut stream).await
    };
    let (answer, ending) = tokio::join!(stage.get(&route, port, "/"), service);
    assert_eq!(answer.body(), "one");
    assert_eq!(ending, crate::stage::Ending::Orderly);
}
