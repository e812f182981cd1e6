//! `POST /sandboxes/{id}/resume`, deprecated

use axum::extract::State;
use axum::http::StatusCode;
use skep_types::ShownState;

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// Resumes a paused sandbox. One that runs is a conflict.
pub(crate) async fn resume(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
) -> Result<StatusCode, ApiError> {
    let caller = &authorized.caller;
    caller.may_change()?;
    let id = path.id()?;
    let sandbox = edge.control().find(caller, &id).await?;
    match sandbox.status.phase.shown() {
        Some(ShownState::Running) => Err(ApiError::new(
            StatusCode::CONFLICT,
            "sandbox_running",
            format!("Sandbox {id} is already running"),
        )),
        Some(ShownState::Paused) | None => Err(ApiError::not_implemented("resuming a sandbox")),
    }
}
