use axum::Router;
use axum::routing::any;
use http::{Request, Response};
use http_body_util::Full;
use skep_types::AccessToken;

use crate::stage::{AGENT_PORT, Stage, host, serve_app, serve_app_at};

fn app(name: &'static str) -> Router {
    Router::new().fallback(any(move || async move { name }))
}

async fn ask(stage: &Stage, path: &str, headers: &[(&str, &str)]) -> Response<String> {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    stage.ask(request.body(Full::default()).unwrap()).await
}

#[tokio::test]
async fn one_port_serves_the_api_and_sandboxes_by_host_and_by_headers() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let port = serve_app(&route, app("the service")).await;
    let (id, number) = (route.id.to_string(), port.to_string());
    let routing = [
        ("e2b-sandbox-id", id.as_str()),
        ("e2b-sandbox-port", &number),
    ];

    assert_eq!(
        ask(&stage, "/sandboxes", &[("host", "localhost")])
            .await
            .body(),
        "the api"
    );
    assert_eq!(stage.get(&route, port, "/").await.body(), "the service");
    assert_eq!(ask(&stage, "/", &routing).await.body(), "the service");
    let with_key = [("x-api-key", "e2b_0"), routing[0], routing[1]];
    assert_eq!(ask(&stage, "/", &with_key).await.body(), "the api");
}

#[tokio::test]
async fn half_an_address_is_told_what_is_missing() {
    let stage = Stage::new().await;
    let answer = ask(&stage, "/", &[("e2b-sandbox-id", "x")]).await;
    assert_eq!(answer.status(), 400);
    assert_eq!(
        answer.body(),
        r#"{"message":"Missing header: E2b-Sandbox-Port","code":400}"#
    );
}

#[tokio::test]
async fn old_javascript_clients_are_routed_by_their_token_alone() {
    let stage = Stage::new().await;
    let token = AccessToken::random();
    let route = stage.sandbox_as(|route| route.access_token = Some(token.clone()));
    serve_app_at(&route, AGENT_PORT, app("the agent")).await;
    let held = [("x-access-token", token.reveal())];

    assert_eq!(
        ask(&stage, "/files?path=a", &held).await.body(),
        "the agent"
    );
    assert_eq!(ask(&stage, "/health", &held).await.body(), "the agent");
    assert_eq!(ask(&stage, "/health", &[]).await.body(), "the api");
    let unknown = ask(&stage, "/health", &[("x-access-token", "other")]).await;
    assert_eq!(unknown.status(), 502);
    assert!(unknown.body().contains("was not found"), "{unknown:?}");
}

#[tokio::test]
async fn a_signed_url_reaches_the_sandbox_that_signed_it() {
    let stage = Stage::new().await;
    let token = AccessToken::from_record("0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0");
    stage.sandbox_as(|route| route.access_token = Some(AccessToken::random()));
    let route = stage.sandbox_as(|route| route.access_token = Some(token));
    serve_app_at(&route, AGENT_PORT, app("the agent")).await;
    let url = "/files?path=hello.txt&username=user&signature=";

    let signed = format!("{url}v1_gUtH%2Fs9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
    assert_eq!(ask(&stage, &signed, &[]).await.body(), "the agent");
    assert_eq!(ask(&stage, &format!("{url}v1_x"), &[]).await.status(), 502);
}

#[tokio::test]
async fn a_host_may_carry_a_client_id_and_a_port() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let port = serve_app(&route, app("the service")).await;
    let host = host(&route, port).replacen('.', "-00000000.", 1);
    let answer = ask(&stage, "/", &[("host", &format!("{host}:8443"))]).await;
    assert_eq!(answer.body(), "the service");
}
