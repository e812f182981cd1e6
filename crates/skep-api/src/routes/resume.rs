//! `POST /sandboxes/{id}/resume`, deprecated

use axum::extract::State;
use axum::http::StatusCode;
use skep_types::Phase;

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
    let sandbox = edge.control().find(caller, &id)?;
    match sandbox.status.phase {
        Phase::Running => Err(ApiError::new(
            StatusCode::CONFLICT,
            "sandbox_running",
            format!("Sandbox {id} is already running"),
        )),
        Phase::Paused | Phase::Starting | Phase::Stopping | Phase::Stuck | Phase::Gone => {
            Err(ApiError::not_implemented("resuming a sandbox"))
        }
    }
}
