use std::sync::Arc;

use axum::Router;
use axum::routing::any;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use skep_proxy::Route;
use tokio::io::AsyncWriteExt as _;

use crate::stage::{Stage, accept_head, ending, host, listen, serve_app};

type Sender = SendRequest<Full<Bytes>>;

async fn client(stage: &Stage) -> Sender {
    let io = TokioIo::new(stage.connect().await);
    let handshake = http2::handshake(TokioExecutor::new(), io).await;
    let (sender, connection) = handshake.unwrap();
    skep_telemetry::spawn("client", connection);
    sender
}

fn request(route: &Route, port: u16) -> Request<Full<Bytes>> {
    Request::get(format!("http://{}/", host(route, port)))
        .body(Full::default())
        .unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    let body = response.into_body().collect().await.unwrap();
    String::from_utf8(body.to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn one_connection_carries_the_api_and_sandboxes() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let app = Router::new().fallback(any(|headers: http::HeaderMap| async move {
        headers["host"].to_str().unwrap().to_owned()
    }));
    let port = serve_app(&route, app).await;
    let mut sender = client(&stage).await;
    let answer = sender.send_request(request(&route, port)).await.unwrap();
    assert_eq!(text(answer).await, host(&route, port));
    let api = Request::get("http://localhost/sandboxes")
        .body(Full::default())
        .unwrap();
    assert_eq!(
        text(sender.send_request(api).await.unwrap()).await,
        "the api"
    );
    assert_eq!(stage.metrics.connections_accepted.get(), 1);
}

/// A stream whose service has sent one word.
async fn streaming(
    sender: &mut Sender,
    route: &Arc<Route>,
) -> (Response<Incoming>, tokio::net::TcpStream) {
    let (listener, port) = listen(route).await;
    let answer = sender.send_request(request(route, port));
    let service = async {
        let (mut service, _) = accept_head(&listener).await;
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
        service.write_all(head.as_bytes()).await.unwrap();
        service
    };
    let (answer, service) = tokio::join!(answer, service);
    let mut answer = answer.unwrap();
    let frame = answer.body_mut().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "hello");
    (answer, service)
}

#[tokio::test]
async fn a_kill_resets_its_own_streams_and_no_other() {
    let stage = Stage::new().await;
    let (doomed, other) = (stage.sandbox(), stage.sandbox());
    let mut sender = client(&stage).await;
    let (mut cut, _doomed_service) = streaming(&mut sender, &doomed).await;
    let (kept, mut service) = streaming(&mut sender, &other).await;
    stage.routes.kill(&doomed.id);

    let error = cut.body_mut().frame().await.unwrap().unwrap_err();
    let reason = reset_reason(&error);
    // Clients take a cancelled stream for a complete one.
    assert_eq!(
        reason,
        Some("unexpected internal error encountered".to_owned()),
        "{error:?}"
    );

    service.write_all(b"3\r\nend\r\n0\r\n\r\n").await.unwrap();
    assert_eq!(text(kept).await, "end");
}

fn reset_reason(error: &hyper::Error) -> Option<String> {
    let source = std::error::Error::source(error)?.to_string();
    Some(source.split(": ").last()?.to_owned())
}

#[tokio::test]
async fn a_kill_resets_a_stream_that_has_no_answer_yet() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let mut sender = client(&stage).await;
    let kill = async {
        let service = accept_head(&listener).await;
        stage.routes.kill(&route.id);
        service
    };
    let (answer, _service) = tokio::join!(sender.send_request(request(&route, port)), kill);
    assert!(answer.is_err(), "{answer:?}");
    let api = Request::get("http://localhost/x")
        .body(Full::default())
        .unwrap();
    assert_eq!(
        text(sender.send_request(api).await.unwrap()).await,
        "the api"
    );
}

#[tokio::test]
async fn a_client_that_cancels_a_stream_closes_the_services_connection() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let mut sender = client(&stage).await;
    let (answer, mut service) = streaming(&mut sender, &route).await;
    drop(answer);
    ending(&mut service).await;
    let api = Request::get("http://localhost/x")
        .body(Full::default())
        .unwrap();
    assert_eq!(
        text(sender.send_request(api).await.unwrap()).await,
        "the api"
    );
}

#[tokio::test]
async fn two_hundred_streams_fit_on_one_connection() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let gate = Arc::new(tokio::sync::Barrier::new(200));
    let app = Router::new().fallback(any(move || async move {
        gate.wait().await;
        "together"
    }));
    let port = serve_app(&route, app).await;
    let sender = client(&stage).await;
    let ask = |_| {
        let mut sender = sender.clone();
        let request = request(&route, port);
        async move { text(sender.send_request(request).await.unwrap()).await }
    };
    let all = futures_util::future::join_all((0..200).map(ask)).await;
    assert!(all.iter().all(|answer| answer == "together"));
    assert_eq!(stage.metrics.connections_accepted.get(), 1);
}

#[tokio::test]
async fn headers_of_64_kib_pass_over_http_2_and_no_more() {
    let stage = Stage::new().await;
    let mut sender = client(&stage).await;
    let request = |size: usize| {
        Request::get("http://localhost/x")
            .header("x-large", "a".repeat(size))
            .body(Full::default())
            .unwrap()
    };
    let answer = sender.send_request(request(60_000)).await.unwrap();
    assert_eq!(text(answer).await, "the api");
    let refused = sender.send_request(request(70_000)).await.unwrap();
    assert_eq!(refused.status(), 431);
    let answer = sender.send_request(request(1)).await.unwrap();
    assert_eq!(text(answer).await, "the api");
}
