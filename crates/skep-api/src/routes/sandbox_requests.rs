//! `GET /skep/sandboxes/{id}/requests`

use axum::Json;
use axum::extract::State;
use skep_types::LoggedRequest;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::params::Params;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// Requests of a sandbox to hosts that it reaches by name, the oldest first. Empty for one that does
/// not run.
pub(crate) async fn sandbox_requests(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    params: Params,
) -> Result<Json<Vec<rest::SandboxRequest>>, ApiError> {
    let after = params
        .number("after", 0..=i64::MAX)?
        .and_then(|after| u64::try_from(after).ok());
    let Ok(id) = path.id() else {
        return Ok(Json(Vec::new()));
    };
    let caller = &authorized.caller;
    let asked = edge.control().requests(caller, &id, after.unwrap_or(0));
    Ok(Json(asked.await.into_iter().map(rendered).collect()))
}

fn rendered(request: LoggedRequest) -> rest::SandboxRequest {
    rest::SandboxRequest {
        number: request.number,
        timestamp: request.at,
        host: request.host,
        port: request.port,
        method: request.method,
        path: request.path,
        status: request.status,
        sent_bytes: request.sent,
        received_bytes: request.received,
        rule: request.rule,
        refusal: request.refusal,
    }
}
