//! `GET /health`

use axum::Json;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::router::Edge;

/// The server answers. Needs no key.
///
/// Clients know the text, so it is always the same. Who asks for JSON is told in a word whether
/// all is well, and the operator what is not.
pub(crate) async fn health(State(edge): State<Edge>, request: Request) -> Response {
    let (mut parts, _body) = request.into_parts();
    let accepts_json = parts
        .headers
        .get(header::ACCEPT)
        .is_some_and(|value| value.as_bytes().starts_with(b"application/json"));
    if !accepts_json {
        return "Health check successful".into_response();
    }
    let problems = edge.metrics().problems();
    // The text above must not wait for the database, where keys are.
    let authorized = Authorized::from_request_parts(&mut parts, &edge).await;
    let is_operator = authorized.is_ok_and(|authorized| authorized.caller.team.is_default);
    let status = if problems.is_empty() {
        rest::HealthStatus::Ok
    } else {
        rest::HealthStatus::Degraded
    };
    let told = is_operator.then(|| {
        let problems = problems.into_iter().map(|problem| rest::HealthProblem {
            code: problem.code.to_owned(),
            message: problem.message,
        });
        problems.collect()
    });
    Json(rest::Health {
        status,
        problems: told,
    })
    .into_response()
}
