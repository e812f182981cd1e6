//! Information that a service or a page of a sandbox gets about the server it is reached through.

use axum::Router;
use axum::routing::any;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::{HeaderMap, Request};
use http_body_util::Full;
use sha2::{Digest as _, Sha256};
use skep_types::AccessToken;

use crate::stage::{AGENT_PORT, KEY, Stage, host, serve_app, serve_app_at};

/// The headers that arrived, one per line.
async fn echo(headers: HeaderMap) -> String {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        format!("{name}: {}\n", value.to_str().unwrap())
    };
    headers.iter().map(line).collect()
}

#[tokio::test]
async fn a_key_of_the_server_reaches_no_service() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let app = || Router::new().fallback(any(echo));
    let user = serve_app(&route, app()).await;
    serve_app_at(&route, AGENT_PORT, app()).await;
    serve_app_at(&route, skep_wire::interpreter::INTERPRETER_PORT, app()).await;
    for port in [user, AGENT_PORT, skep_wire::interpreter::INTERPRETER_PORT] {
        let named_by_host = Request::get("/").header("host", host(&route, port));
        // On the name that sandboxes share, a key does not make it a call of the API.
        let named_by_headers = Request::get("/")
            .header("host", "sandbox.skep.test")
            .header("e2b-sandbox-id", route.id.as_str())
            .header("e2b-sandbox-port", port);
        for request in [named_by_host, named_by_headers] {
            let request = request
                .header("x-api-key", KEY)
                .header("authorization", format!("Bearer {KEY}"))
                .header("authorization", "Basic dXNlcjo=")
                .body(Full::default())
                .unwrap();
            let seen = stage.ask(request).await;
            assert_eq!(seen.status(), 200);
            assert!(!seen.body().contains(KEY), "{}", seen.body());
            assert!(
                seen.body().contains("authorization: Basic dXNlcjo="),
                "{}",
                seen.body()
            );
        }
    }
    // What a service of the user asks for itself is its own.
    let request = Request::get("/")
        .header("host", host(&route, user))
        .header("x-api-key", "its own")
        .header("authorization", "Bearer its.own.token")
        .body(Full::default())
        .unwrap();
    let seen = stage.ask(request).await.into_body();
    assert!(seen.contains("x-api-key: its own"), "{seen}");
    assert!(
        seen.contains("authorization: Bearer its.own.token"),
        "{seen}"
    );
}

#[tokio::test]
async fn a_file_behind_a_link_is_not_of_the_servers_origin() {
    let stage = Stage::new().await;
    let token = AccessToken::random();
    let route = stage.sandbox_as(|route| route.access_token = Some(token.clone()));
    let app = Router::new().fallback(any(|uri: http::Uri| async move {
        let kind = if uri.query().unwrap_or_default().contains("page") {
            "text/html; charset=utf-8"
        } else {
            "application/pdf"
        };
        (
            [("content-type", kind), ("content-security-policy", "none")],
            "content",
        )
    }));
    serve_app_at(&route, AGENT_PORT, app).await;
    let link = |path: &str| {
        let signed = format!("{path}:read:user:{}", token.reveal());
        let signature = STANDARD_NO_PAD
            .encode(Sha256::digest(signed))
            .replace('+', "%2B")
            .replace('/', "%2F");
        format!("/files?path={path}&username=user&signature=v1_{signature}")
    };
    let policy = async |host: &str, path: &str| {
        let request = Request::get(link(path)).header("host", host);
        let answer = stage.ask(request.body(Full::default()).unwrap()).await;
        assert_eq!(answer.body(), "content");
        answer.headers()["content-security-policy"]
            .to_str()
            .unwrap()
            .to_owned()
    };
    let isolated = "sandbox allow-scripts allow-downloads";
    assert_eq!(policy("localhost:3000", "page.html").await, isolated);
    assert_eq!(policy("localhost:3000", "paper.pdf").await, "none");
    // Below its own name it is of an origin of its own.
    let own = host(&route, AGENT_PORT);
    assert_eq!(policy(&own, "page.html").await, "none");
}

#[tokio::test]
async fn browsers_do_not_guess_what_the_servers_own_answers_are() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let port = serve_app(&route, Router::new().fallback(any(|| async { "hello" }))).await;
    let named = |name: &str| Request::get("/").header("host", name);
    let by_headers = named("sandbox.skep.test")
        .header("e2b-sandbox-id", route.id.as_str())
        .header("e2b-sandbox-port", port);
    let requests = [
        (named("localhost"), 200, true),
        (named("8080-iunknownunknown00000.skep.test"), 502, true),
        (by_headers, 200, true),
        // The control: what a service says on its own name is its own business.
        (named(&host(&route, port)), 200, false),
    ];
    for (request, status, forbidden) in requests {
        let request = request.body(Full::default()).unwrap();
        let answer = stage.ask(request).await;
        assert_eq!(answer.status(), status, "{answer:?}");
        let nosniff = answer.headers().get("x-content-type-options");
        assert_eq!(nosniff.is_some(), forbidden, "{answer:?}");
    }
}
