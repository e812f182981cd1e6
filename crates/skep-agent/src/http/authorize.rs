//! Authorization of requests, by route.
//!
//! Three kinds of routes: control routes, which only the server may use and which for others
//! do not exist; `/health` and `/files`, which are open here (files check signatures
//! themselves); and all the rest, which need the sandbox's token if it has one.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use connectrpc::{ConnectError, ErrorCode, Protocol};
use http::{HeaderMap, Method, StatusCode};
use skep_wire::agent::CONTROL_PATHS;
use skep_wire::headers::{ACCESS_TOKEN, CONTROL_TOKEN};

use crate::agent::Agent;
use crate::http::rest_error::RestError;
use crate::http::signature::equal;

const REFUSED: &str =
    "unauthorized access, please provide a valid access token or method signing if supported";

/// The layer around all routes.
pub(crate) async fn authorize(
    State(agent): State<Arc<Agent>>,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path();
    if is_control(path) {
        let shown = request
            .headers()
            .get(CONTROL_TOKEN)
            .map_or(&[][..], |value| value.as_bytes());
        if !agent.settings.is_control(shown) {
            return RestError::not_found().into_response();
        }
    } else if !is_open(request.method(), path) && !has_token(&agent, request.headers()) {
        return refuse(request.headers());
    }
    next.run(request).await
}

/// A control route is a listed path or lies below one.
pub(crate) fn is_control(path: &str) -> bool {
    CONTROL_PATHS.iter().any(|control| {
        path.strip_prefix(control)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

fn is_open(method: &Method, path: &str) -> bool {
    match path {
        "/health" => method == Method::GET,
        "/files" => method == Method::GET || method == Method::POST,
        _ => false,
    }
}

fn has_token(agent: &Agent, headers: &HeaderMap) -> bool {
    let config = agent.settings.current();
    let Some(token) = &config.access_token else {
        return true;
    };
    headers
        .get(ACCESS_TOKEN)
        .is_some_and(|shown| equal(shown.as_bytes(), token.as_bytes()))
}

/// Streaming calls are told in the stream: a plain status loses its text in JavaScript. All
/// others get the plain body whose integer code the clients map.
fn refuse(headers: &HeaderMap) -> Response {
    match Protocol::detect(headers) {
        Some(protocol) if protocol.is_streaming => {
            ConnectError::new(ErrorCode::Unauthenticated, REFUSED)
                .into_http_response(headers)
                .map(axum::body::Body::new)
        }
        Some(_) | None => RestError::new(StatusCode::UNAUTHORIZED, REFUSED).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_routes_are_the_listed_paths_and_what_is_below() {
        for path in ["/init", "/init/", "/skep", "/skep/tunnel/80", "/freeze"] {
            assert!(is_control(path), "{path}");
        }
        for path in [
            "/initial",
            "/",
            "/files",
            "/skeptic",
            "/process.Process/Start",
        ] {
            assert!(!is_control(path), "{path}");
        }
    }

    #[test]
    fn only_health_and_files_are_open() {
        assert!(is_open(&Method::GET, "/health") && is_open(&Method::POST, "/files"));
        assert!(!is_open(&Method::POST, "/health") && !is_open(&Method::DELETE, "/files"));
        assert!(!is_open(&Method::POST, "/files/compose") && !is_open(&Method::GET, "/metrics"));
    }
}
