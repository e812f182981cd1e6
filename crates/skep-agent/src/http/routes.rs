//! All routes of the agent.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderName, Method, StatusCode};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer, ExposeHeaders};

use crate::agent::Agent;
use crate::http::authorize::authorize;
use crate::http::control;
use crate::http::files;
use crate::http::rest_error::RestError;
use crate::http::rpc;
use crate::http::tunnel;
use crate::sandbox::settings;

pub(crate) fn routes(agent: &Arc<Agent>) -> Router {
    Router::new()
        .route("/health", get(health))
        .route("/envs", get(environment))
        .route("/metrics", get(metrics))
        .route("/files", get(files::download).post(files::upload))
        .route("/files/compose", post(files::compose))
        .route("/init", post(control::init))
        .route("/skep/trust", post(control::set_trust))
        .route(
            "/skep/checkpoint/prepare",
            post(control::prepare_checkpoint),
        )
        .route("/skep/checkpoint/go-on", post(control::go_on))
        .route("/skep/tunnel/{port}", get(tunnel::tunnel))
        .merge(rpc::routes(agent))
        .fallback(|| async { RestError::not_found() })
        .method_not_allowed_fallback(|| async {
            RestError::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed")
        })
        .layer(map_response(with_body))
        .layer(from_fn_with_state(Arc::clone(agent), authorize))
        .layer(cors())
        .with_state(Arc::clone(agent))
}

/// Gives a body to a refusal that has none: the RPC library answers some mistakes, like a content
/// type that it does not know, with a bare status, and clients look inside.
async fn with_body(response: Response) -> Response {
    let status = response.status();
    let is_refusal = status.is_client_error() || status.is_server_error();
    if !is_refusal || response.headers().contains_key(CONTENT_TYPE) {
        return response;
    }
    let mut headers = response.into_parts().0.headers;
    headers.remove(CONTENT_LENGTH);
    let text = status.canonical_reason().unwrap_or("refused");
    let mut shaped = RestError::new(status, text.to_ascii_lowercase()).into_response();
    shaped.headers_mut().extend(headers);
    shaped
}

/// Empty on purpose: a client that parses every body would stumble over a text.
async fn health() -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn environment(State(agent): State<Arc<Agent>>) -> Response {
    axum::Json(settings::environment(&agent.settings.current())).into_response()
}

async fn metrics(State(agent): State<Arc<Agent>>) -> Result<Response, RestError> {
    let measured = tokio::task::spawn_blocking(move || agent.meter.measure())
        .await
        .map_err(|error| {
            tracing::error!(%error, "reading metrics panicked");
            RestError::new(StatusCode::INTERNAL_SERVER_ERROR, "cannot measure")
        })?;
    Ok(axum::Json(measured).into_response())
}

/// Browsers may call from anywhere: what protects the sandbox is its token, not an origin.
fn cors() -> CorsLayer {
    const EXPOSED: [&str; 10] = [
        "content-encoding",
        "connect-content-encoding",
        "grpc-status",
        "grpc-message",
        "grpc-status-details-bin",
        "grpc-encoding",
        "grpc-accept-encoding",
        "location",
        "cache-control",
        "x-content-type-options",
    ];
    CorsLayer::new()
        .allow_origin(AllowOrigin::any())
        .allow_methods([
            Method::HEAD,
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
        ])
        // A wildcard would not cover `Authorization`, by which callers name a user.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(ExposeHeaders::list(EXPOSED.map(HeaderName::from_static)))
        .max_age(Duration::from_secs(2 * 60 * 60))
}
