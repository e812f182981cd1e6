//! `POST /sandboxes/{id}/timeout`

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::Body;
use crate::error::ApiError;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// Gives a sandbox another time to live, counted from now. None, or less than that, ends it at
/// once: clients that compute what is left send negative ones.
pub(crate) async fn set_timeout(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    Body(body): Body<rest::SetTimeout>,
) -> Result<StatusCode, ApiError> {
    let seconds = body.timeout.max(0).unsigned_abs();
    let lifetime = Duration::from_secs(seconds);
    edge.control()
        .set_lifetime(&authorized.caller, &path.id()?, lifetime)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
