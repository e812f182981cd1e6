//! `POST /sandboxes/{id}/refreshes`

use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::OptionalBody;
use crate::error::ApiError;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

const LEAST: u64 = 15;
const MOST: u64 = 3600;

/// Lets a sandbox live at least so much longer. Never shortens its life.
pub(crate) async fn refresh(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    OptionalBody(body): OptionalBody<rest::Refresh>,
) -> Result<StatusCode, ApiError> {
    let seconds = u64::try_from(body.duration.unwrap_or(0))
        .ok()
        .filter(|seconds| *seconds <= MOST)
        .ok_or_else(|| ApiError::validation("duration must be from 0 to 3600"))?;
    let lifetime = Duration::from_secs(seconds.max(LEAST));
    edge.control()
        .extend_lifetime(&authorized.caller, &path.id()?, lifetime)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}
