//! `POST /sandboxes/{id}/resume`, deprecated

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_control::{ChangeError, ConnectOrder, IfRunning, Lifetime};
use skep_types::{ImageKind, OnTimeout, Phase, SandboxId};
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::OptionalBody;
use crate::error::ApiError;
use crate::render;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// Time to live when a client says nothing.
const USUAL_TIMEOUT: i64 = 15;

/// Resumes a paused sandbox. One that runs is a conflict, one that is being killed is not there.
pub(crate) async fn resume(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    OptionalBody(body): OptionalBody<rest::Resume>,
) -> Result<(StatusCode, Json<rest::Sandbox>), ApiError> {
    let (control, caller) = (edge.control(), &authorized.caller);
    caller.may_change()?;
    let timeout = body.timeout.unwrap_or(USUAL_TIMEOUT);
    let lifetime = Lifetime::new(timeout, caller.limits.lifetime)?;
    let id = path.id()?;
    let sandbox = control.find(caller, &id).await?;
    let order = ConnectOrder {
        lifetime: Some(lifetime.get()),
        start: render::resume_start(body.memory),
        on_timeout: body
            .auto_pause
            .map(|pauses| fate(pauses, sandbox.status.on_timeout)),
        if_running: IfRunning::Refuse,
    };
    match control.connect(caller, &id, order).await {
        Ok(connected) => {
            let body = render::resumed_sandbox(&connected.sandbox, edge.domain());
            Ok((StatusCode::CREATED, Json(body)))
        }
        Err(ChangeError::Conflict { id, phase }) => Err(cannot_be_resumed(&id, phase)),
        Err(error) => Err(error.into()),
    }
}

/// Another fate for a sandbox. One that is to be paused is paused as it was to be before.
fn fate(pauses: bool, before: OnTimeout) -> OnTimeout {
    match (pauses, before) {
        (false, _) => OnTimeout::Kill,
        (true, OnTimeout::Kill) => OnTimeout::Pause(ImageKind::Memory),
        (true, before @ OnTimeout::Pause(_)) => before,
    }
}

fn cannot_be_resumed(id: &SandboxId, phase: Phase) -> ApiError {
    let conflict = |message| ApiError::new(StatusCode::CONFLICT, "sandbox_running", message);
    match phase {
        Phase::Snapshotting => conflict(format!(
            "Sandbox snapshot is currently being created for sandbox '{id}'"
        )),
        Phase::Running | Phase::Pausing | Phase::Paused | Phase::Resuming => {
            conflict(format!("Sandbox {id} is already running"))
        }
        Phase::Starting | Phase::Stopping | Phase::Stuck | Phase::Gone => {
            ApiError::sandbox_not_found(id)
        }
    }
}
