use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::routing::any;
use http::HeaderMap;
use http_body_util::{BodyExt as _, Full};

use crate::stage::{KEY, Stage, accept_head, get, host, listen, read_until, serve_app};

/// Answers with the head it was sent.
fn mirror() -> Router {
    Router::new().fallback(any(|request: Request| async move {
        let mut lines = vec![format!("{} {}", request.method(), request.uri())];
        for (name, value) in request.headers() {
            lines.push(format!("{name}: {}", value.to_str().unwrap()));
        }
        lines.sort();
        lines.join("\n")
    }))
}

#[tokio::test]
async fn a_service_sees_who_asked_and_under_which_name() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let port = serve_app(&route, mirror()).await;
    let name = host(&route, port);
    let answer = stage.get(&route, port, "/a%20b?c=d&e").await;
    let expected = format!(
        "GET /a%20b?c=d&e\nhost: {name}\nx-forwarded-for: 127.0.0.1\n\
         x-forwarded-host: {name}\nx-forwarded-proto: http"
    );
    assert_eq!(answer.body(), &expected);
}

#[tokio::test]
async fn the_agents_token_does_not_reach_a_service_of_the_user() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let port = serve_app(&route, mirror()).await;
    let mut request = get(&route, port, "/");
    let token = || "secret".parse().unwrap();
    request.headers_mut().insert("x-access-token", token());
    request
        .headers_mut()
        .insert("e2b-traffic-access-token", token());
    let answer = stage.ask(request).await;
    assert!(!answer.body().contains("secret"), "{answer:?}");
}

#[tokio::test]
async fn large_heads_pass_in_both_directions() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let app = Router::new().fallback(any(|headers: HeaderMap| async move {
        let size = headers["x-large"].len();
        ([("x-large", "b".repeat(100_000))], size.to_string())
    }));
    let port = serve_app(&route, app).await;
    let mut request = get(&route, port, "/");
    let large = "a".repeat(60_000).parse().unwrap();
    request.headers_mut().insert("x-large", large);
    let answer = stage.ask(request).await;
    assert_eq!(answer.body(), "60000");
    assert_eq!(answer.headers()["x-large"].len(), 100_000);
}

#[tokio::test]
async fn bodies_with_and_without_a_length_arrive_whole() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let app = Router::new().fallback(any(|headers: HeaderMap, body: Bytes| async move {
        let framing = headers.contains_key("content-length");
        format!("{} {framing}", body.len())
    }));
    let port = serve_app(&route, app).await;
    let request = |body| {
        let mut request = get(&route, port, "/").map(|_: Full<Bytes>| body);
        *request.method_mut() = http::Method::POST;
        request
    };
    let whole = stage.ask(request(Full::from("x".repeat(100_000)))).await;
    assert_eq!(whole.body(), "100000 true");

    let mut stream = stage
        .say(&format!(
            "POST / HTTP/1.1\r\nhost: {}\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            host(&route, port)
        ))
        .await;
    assert!(
        read_until(&mut stream, "3 false")
            .await
            .starts_with("HTTP/1.1 200")
    );
}

#[tokio::test]
async fn trailers_of_a_request_reach_no_service() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let request = format!(
        "POST / HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\ntrailer: x-api-key\r\n\r\n\
         4\r\nbody\r\n0\r\nx-api-key: {KEY}\r\n\r\n"
    );
    let _client = stage.say(&request).await;
    let (mut service, _) = listener.accept().await.unwrap();
    let seen = read_until(&mut service, "\r\n0\r\n").await;
    assert!(seen.ends_with("4\r\nbody\r\n0\r\n\r\n"), "{seen}");
    assert!(!seen.contains("trailer"), "{seen}");
}

#[tokio::test]
async fn trailers_pass() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let service = async {
        let (mut stream, head) = accept_head(&listener).await;
        assert!(head.contains("te: trailers"), "{head}");
        let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n\
                      3\r\nabc\r\n0\r\nx-sum: 6\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer.as_bytes())
            .await
            .unwrap();
        stream
    };
    let client = async {
        let host = host(&route, port);
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\nte: trailers\r\n\r\n");
        read_until(&mut stage.say(&request).await, "x-sum: 6").await
    };
    let (_stream, answer) = tokio::join!(service, client);
    assert!(answer.contains("abc"), "{answer}");
}

#[tokio::test]
async fn a_service_of_http_1_0_is_understood() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let service = async {
        let (mut stream, _) = accept_head(&listener).await;
        let answer = b"HTTP/1.0 200 OK\r\nserver: old\r\n\r\nuntil the end";
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer)
            .await
            .unwrap();
    };
    let (answer, ()) = tokio::join!(stage.get(&route, port, "/"), service);
    assert_eq!(answer.body(), "until the end");
    assert_eq!(answer.headers()["server"], "old");
}

#[tokio::test]
async fn a_client_that_waits_for_permission_to_send_its_body_gets_it() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let app = Router::new().fallback(any(|body: Body| async move {
        let body = body.collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }));
    let port = serve_app(&route, app).await;
    let host = host(&route, port);
    let head = format!(
        "PUT / HTTP/1.1\r\nhost: {host}\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n"
    );
    let mut stream = stage.say(&head).await;
    read_until(&mut stream, "100 Continue").await;
    tokio::io::AsyncWriteExt::write_all(&mut stream, b"hello")
        .await
        .unwrap();
    read_until(&mut stream, "hello").await;
}

#[tokio::test]
async fn a_body_with_two_lengths_has_one_for_the_service() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let host = host(&route, port);
    let request = format!(
        "POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: 4\r\n\
         transfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"
    );
    let mut client = stage.say(&request).await;
    let (mut service, head) = accept_head(&listener).await;
    assert!(!head.contains("content-length: 4"), "{head}");
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nonly";
    tokio::io::AsyncWriteExt::write_all(&mut service, answer)
        .await
        .unwrap();
    // What follows is at most a second request for the API, never one for the service.
    read_until(&mut client, "only").await;
    drop(client);
    let mut rest = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut service, &mut rest)
        .await
        .unwrap();
    assert!(!rest.contains("smuggled"), "{rest}");
}
