use std::time::{Duration, Instant};

use axum::Router;
use axum::routing::any;
use http::Response;
use skep_types::{AccessToken, SandboxId};

use tokio::io::AsyncWriteExt as _;

use crate::stage::{AGENT_PORT, Stage, get, listen, read_until, serve_app, serve_app_at};

fn shown(answer: &Response<String>) -> String {
    format!("{} {}", answer.status().as_u16(), answer.body())
}

#[tokio::test]
async fn an_unknown_sandbox_is_not_found() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    stage.routes.kill(&route.id);
    let answer = stage.get(&route, AGENT_PORT, "/health").await;
    let expected = format!(
        r#"502 {{"message":"The sandbox was not found","code":502,"sandboxId":"{}"}}"#,
        route.id
    );
    assert_eq!(shown(&answer), expected);
    assert_eq!(
        answer.headers()["content-type"],
        "application/json; charset=utf-8"
    );
}

#[tokio::test]
async fn only_the_token_of_a_sandbox_learns_how_it_ended() {
    let stage = Stage::new().await;
    let route = stage.sandbox_as(|route| {
        route.access_token = Some(AccessToken::from_record("secret"));
    });
    stage.routes.kill(&route.id);
    let told = async |token: Option<&str>| {
        let mut request = get(&route, AGENT_PORT, "/health");
        if let Some(token) = token {
            let headers = request.headers_mut();
            headers.insert("x-access-token", token.parse().unwrap());
        }
        let answer = stage.ask(request).await;
        let body: serde_json::Value = serde_json::from_str(answer.body()).unwrap();
        body["message"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        told(Some("secret")).await,
        "The sandbox was not found: it ended 06:16 UTC: killed; create another one"
    );
    let nothing = "The sandbox was not found";
    assert_eq!(told(None).await, nothing);
    assert_eq!(told(Some("other")).await, nothing);
}

#[tokio::test]
async fn a_browser_reads_about_it_on_a_page() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    stage.routes.kill(&route.id);
    let mut request = get(&route, 80, "/");
    let firefox = "Mozilla/5.0 Firefox/140.0".parse().unwrap();
    request.headers_mut().insert("user-agent", firefox);
    let answer = stage.ask(request).await;
    assert_eq!(answer.status(), 502);
    assert_eq!(answer.headers()["content-type"], "text/html; charset=utf-8");
    assert!(answer.body().contains("Sandbox Not Found"), "{answer:?}");
    assert!(answer.body().contains(route.id.as_str()), "{answer:?}");
}

#[tokio::test]
async fn a_closed_port_is_tried_for_a_second_and_then_named() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    drop(listener);
    let start = Instant::now();
    let answer = stage.get(&route, port, "/").await;
    let expected = format!(
        r#"502 {{"message":"The sandbox is running but port is not open","code":502,"sandboxId":"{}","port":{port}}}"#,
        route.id
    );
    assert_eq!(shown(&answer), expected);
    let waited = start.elapsed();
    assert!(
        waited > Duration::from_millis(600) && waited < Duration::from_secs(5),
        "{waited:?}"
    );
}

#[tokio::test]
async fn a_service_that_just_starts_is_waited_for() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    drop(listener);
    let late = async {
        skep_testkit::wait_until(crate::stage::DEADLINE, || async {
            let waiting = stage.metrics.sandbox_requests_open.get();
            if waiting == 1 {
                Ok(())
            } else {
                Err("the request has not arrived")
            }
        })
        .await;
        serve_app_at(
            &route,
            port,
            Router::new().fallback(any(|| async { "late" })),
        )
        .await
    };
    let (answer, _) = tokio::join!(stage.get(&route, port, "/"), late);
    assert_eq!(answer.body(), "late");
}

#[tokio::test]
async fn a_service_that_closes_without_an_answer_is_said_to_do_so() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let (listener, port) = listen(&route).await;
    let close = async { drop(crate::stage::accept_head(&listener).await) };
    let (answer, ()) = tokio::join!(stage.get(&route, port, "/"), close);
    assert_eq!(answer.status(), 502);
    assert!(answer.body().contains("without an answer"), "{answer:?}");
}

#[tokio::test]
async fn control_routes_of_the_agent_are_refused_in_every_spelling() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    serve_app_at(
        &route,
        AGENT_PORT,
        Router::new().fallback(any(|| async { "reached" })),
    )
    .await;
    for path in [
        "/init",
        "/skep/tunnel/80",
        "//init",
        "/%69nit",
        "/./init",
        "/INIT",
        "/files/../init",
    ] {
        let answer = stage.get(&route, AGENT_PORT, path).await;
        assert_eq!(answer.status(), 404, "{path}");
        assert!(
            answer.body().contains("reserved for the E2B control plane"),
            "{path} {answer:?}"
        );
    }
    assert_eq!(
        stage.get(&route, AGENT_PORT, "/health").await.body(),
        "reached"
    );
    let port = serve_app(&route, Router::new().fallback(any(|| async { "reached" }))).await;
    assert_eq!(stage.get(&route, port, "/init").await.body(), "reached");
}

#[tokio::test]
async fn a_procedure_of_a_lost_sandbox_reads_a_code_in_words() {
    let stage = Stage::new().await;
    let id = SandboxId::random();
    for kind in ["application/json", "application/connect+json"] {
        let request = http::Request::post("/process.Process/Start")
            .header("e2b-sandbox-id", id.as_str())
            .header("e2b-sandbox-port", "49983")
            .header("content-type", kind)
            .body(http_body_util::Full::default())
            .unwrap();
        let answer = stage.ask(request).await;
        let expected = format!(
            r#"502 {{"message":"The sandbox was not found","code":"unavailable","sandboxId":"{id}"}}"#
        );
        assert_eq!(shown(&answer), expected);
    }
}

#[tokio::test]
async fn a_client_in_the_middle_of_its_upload_reads_why_it_was_refused() {
    const SIZE: usize = 8 << 20;
    let stage = Stage::new().await;
    let route = stage.sandbox();
    stage.routes.kill(&route.id);
    let host = crate::stage::host(&route, AGENT_PORT);
    let head = format!("POST /files HTTP/1.1\r\nhost: {host}\r\ncontent-length: {SIZE}\r\n\r\n");
    let mut client = stage.say(&head).await;
    // It reads only when it has sent everything, as most clients do.
    client.write_all(&vec![b'x'; SIZE]).await.unwrap();
    let answer = read_until(&mut client, "}").await;
    assert!(answer.starts_with("HTTP/1.1 502"), "{answer}");
    client
        .write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .await
        .unwrap();
    read_until(&mut client, "the api").await;
}
