//! Requests to paused sandboxes that go on when somebody uses them.

use std::sync::Arc;

use axum::Router;
use axum::routing::any;
use futures_util::future::join_all;
use http::{Request, Response};
use http_body_util::Full;
use skep_proxy::{DemandTokens, Route, WakeError};
use skep_types::AccessToken;

use crate::stage::{AGENT_PORT, DEADLINE, Stage, host, serve_app, serve_app_at};

const INTERPRETER_PORT: u16 = 49999;

fn app() -> Router {
    Router::new().fallback(any(async || "the service"))
}

async fn asleep(stage: &Stage) -> (Arc<Route>, AccessToken) {
    let token = AccessToken::random();
    let route = stage.sandbox_as(|route| route.access_token = Some(token.clone()));
    for port in [AGENT_PORT, INTERPRETER_PORT] {
        serve_app_at(&route, port, app()).await;
    }
    stage.routes.pause(&route.id);
    (route, token)
}

async fn ask(
    stage: &Stage,
    route: &Route,
    port: u16,
    path: &str,
    headers: &[(&str, &str)],
) -> Response<String> {
    let mut request = Request::get(path).header("host", host(route, port));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    stage.ask(request.body(Full::default()).unwrap()).await
}

#[tokio::test]
async fn one_resume_serves_everybody_who_asks_meanwhile() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let port = serve_app(&route, app()).await;
    stage.routes.pause(&route.id);
    let go_on = stage.routes.hold_wakes();
    let asking = join_all((0..50).map(|_| stage.get(&route, port, "/")));
    let release = async {
        skep_testkit::wait_until(DEADLINE, async || match stage.routes.wakes() {
            0 => Err("nobody has asked yet"),
            _ => Ok(()),
        })
        .await;
        go_on.notify_waiters();
        go_on.notify_one();
    };
    let (answers, ()) = tokio::join!(asking, release);
    for answer in answers {
        assert_eq!(answer.body(), "the service");
    }
    assert_eq!(stage.routes.wakes(), 1);
    assert_eq!(stage.get(&route, port, "/").await.body(), "the service");
    assert_eq!(stage.routes.wakes(), 1, "it runs");
}

#[tokio::test]
async fn a_stranger_wakes_nothing_that_would_not_serve_them() {
    let stage = Stage::new().await;
    let (route, token) = asleep(&stage).await;
    let wrong = [("x-access-token", "guess")];
    for (port, path) in [
        (AGENT_PORT, "/health"),
        (AGENT_PORT, "/files?path=a"),
        (AGENT_PORT, "/files?path=a&signature=v1_AAAA"),
        (INTERPRETER_PORT, "/contexts"),
    ] {
        for headers in [&wrong[..], &[]] {
            let refused = ask(&stage, &route, port, path, headers).await;
            assert_eq!(refused.status(), 403, "{port} {path}");
        }
    }
    let reserved = ask(&stage, &route, AGENT_PORT, "/init", &wrong).await;
    assert_eq!(reserved.status(), 404);
    assert_eq!(stage.routes.wakes(), 0);
    let traffic = token.traffic();
    let right = [("e2b-traffic-access-token", traffic.reveal())];
    let served = ask(&stage, &route, INTERPRETER_PORT, "/contexts", &right).await;
    assert_eq!(served.body(), "the service");
    assert_eq!(stage.routes.wakes(), 1);
}

/// One that was open woke for everybody who knew its id, whatever the operator demanded.
#[tokio::test]
async fn an_open_sandbox_wakes_for_those_whom_it_would_serve() {
    let page = [("sec-fetch-site", "cross-site")];
    let wrong = [("x-access-token", "guess")];
    let passed_on = [("x-forwarded-for", "203.0.113.1")];
    for (demand_tokens, headers, expected) in [
        (DemandTokens::AsOrdered, &[][..], 200),
        (DemandTokens::AsOrdered, &page, 403),
        (DemandTokens::AsOrdered, &wrong, 403),
        (DemandTokens::AsOrdered, &passed_on, 200),
        (DemandTokens::WhenForwarded, &[], 200),
        (DemandTokens::WhenForwarded, &passed_on, 403),
        (DemandTokens::Always, &[], 403),
    ] {
        let stage = Stage::with(|config| config.demand_tokens = demand_tokens).await;
        let open = stage.sandbox_as(|route| {
            route.access_token = Some(AccessToken::random());
            route.is_open = true;
        });
        for port in [AGENT_PORT, INTERPRETER_PORT] {
            serve_app_at(&open, port, app()).await;
            stage.routes.pause(&open.id);
            let before = stage.routes.wakes();
            let answer = ask(&stage, &open, port, "/health", headers).await;
            assert_eq!(answer.status(), expected, "{demand_tokens:?} {headers:?}");
            let woke = stage.routes.wakes() > before;
            assert_eq!(woke, expected == 200, "{demand_tokens:?} {headers:?}");
        }
    }
}

/// With contexts for callers without a token, everything at the interpreter's port woke.
#[tokio::test]
async fn leave_to_make_contexts_wakes_for_a_new_context_alone() {
    let stage = Stage::with(|config| config.contexts_without_token = true).await;
    let (route, _) = asleep(&stage).await;
    let refused = ask(&stage, &route, INTERPRETER_PORT, "/contexts", &[]).await;
    assert_eq!(refused.status(), 403);
    assert_eq!(stage.routes.wakes(), 0);
    let making = Request::post("/contexts").header("host", host(&route, INTERPRETER_PORT));
    let made = stage.ask(making.body(Full::default()).unwrap()).await;
    assert_eq!(made.body(), "the service");
}

#[tokio::test]
async fn a_token_alone_finds_and_wakes_its_sandbox() {
    let stage = Stage::new().await;
    let (_, token) = asleep(&stage).await;
    let request = Request::get("/health")
        .header("x-access-token", token.reveal())
        .body(Full::default())
        .unwrap();
    assert_eq!(stage.ask(request).await.body(), "the service");
    assert_eq!(stage.routes.wakes(), 1);
}

#[tokio::test]
async fn a_resume_that_fails_is_told_in_the_words_of_the_contract() {
    let stage = Stage::new().await;
    let route = stage.sandbox();
    let port = serve_app(&route, app()).await;
    stage.routes.pause(&route.id);
    for (error, status) in [
        (WakeError::NotFound, 502),
        (WakeError::LimitReached, 429),
        (WakeError::Changing, 409),
        (WakeError::Failed, 503),
    ] {
        stage.routes.fail_wakes(Some(error));
        let refused = stage.get(&route, port, "/").await;
        assert_eq!(refused.status(), status, "{error:?}");
    }
    stage.routes.fail_wakes(None);
    assert_eq!(stage.get(&route, port, "/").await.body(), "the service");
}
