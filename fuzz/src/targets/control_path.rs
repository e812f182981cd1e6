//! The way from a client through the proxy to the agent: no request may do there what only the
//! server may, not even one that knows the server's own token.

use std::sync::{Arc, LazyLock};

use axum::Router;
use axum::body::Body;
use axum::routing::any;
use http::{Request, StatusCode};
use skep_agent::fuzzing::is_control;
use skep_proxy::fuzzing::{is_reserved, is_reserved_for_interpreter, towards_agent};
use skep_proxy::{FakeRoutes, Route};
use skep_wire::agent::CONTROL_PATHS;
use skep_wire::headers;
use tower::ServiceExt as _;

use crate::http_text::Message;
use crate::stage::{CONTROL_TOKEN, Stage, perform};

static ROUTE: LazyLock<Arc<Route>> = LazyLock::new(|| FakeRoutes::default().publish());

pub(super) fn check(data: &[u8]) {
    let Some(message) = Message::read(data) else {
        return;
    };
    let path = message.parts.uri.path();
    if !is_reserved_for_interpreter(path) {
        let is_ours = path == "/skep" || path.starts_with("/skep/");
        assert!(!is_ours, "{path} reaches the interpreter");
    }
    if is_reserved(path) {
        return;
    }
    assert!(!is_control(path), "{path} is let through");
    perform(move |stage| {
        assert!(!reaches_control(stage, message.parts.uri.path()));
        changes_nothing(stage, message);
    });
}

/// Returns true if a router of the kind that the agent has takes `path` for a control path.
fn reaches_control(stage: &Stage, path: &str) -> bool {
    let mut router = Router::new();
    for control in CONTROL_PATHS {
        router = router
            .route(control, any(|| async {}))
            .route(&format!("{control}/"), any(|| async {}))
            .route(&format!("{control}/{{*below}}"), any(|| async {}));
    }
    let request = Request::post(path).body(Body::empty());
    request.is_ok_and(|request| {
        let answered = stage.wait(router.oneshot(request));
        answered.is_ok_and(|answer| answer.status() != StatusCode::NOT_FOUND)
    })
}

fn changes_nothing(stage: &Stage, mut message: Message) {
    let token = CONTROL_TOKEN.parse().expect("a header value");
    message.parts.headers.insert(headers::CONTROL_TOKEN, token);
    towards_agent(&mut message.parts, &ROUTE);
    assert!(!message.parts.headers.contains_key(headers::CONTROL_TOKEN));
    let agent = stage.agent(false);
    let before = (agent.sandbox_id(), agent.environment());
    let path = message.parts.uri.path().to_owned();
    stage.ask(&agent, message.request());
    assert_eq!((agent.sandbox_id(), agent.environment()), before, "{path}");
    drop(agent);
    stage.compare(|_, _| {});
}
