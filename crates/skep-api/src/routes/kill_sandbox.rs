//! `DELETE /sandboxes/{id}`

use axum::extract::State;
use axum::http::StatusCode;

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// Ends a sandbox, and answers when nothing of it can be reached.
pub(crate) async fn kill_sandbox(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
) -> Result<StatusCode, ApiError> {
    edge.control().kill(&authorized.caller, &path.id()?).await?;
    Ok(StatusCode::NO_CONTENT)
}
