//! `POST /sandboxes/{id}/resume`, deprecated

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_control::{ChangeError, Lifetime};
use skep_types::{ShownState, TransitionError};
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::OptionalBody;
use crate::error::ApiError;
use crate::render;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// Time to live when a client says nothing.
const USUAL_TIMEOUT: i64 = 15;

/// Resumes a paused sandbox. One that runs is a conflict.
pub(crate) async fn resume(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    OptionalBody(body): OptionalBody<rest::Connect>,
) -> Result<(StatusCode, Json<rest::Sandbox>), ApiError> {
    let (control, caller) = (edge.control(), &authorized.caller);
    caller.may_change()?;
    let id = path.id()?;
    let sandbox = control.find(caller, &id).await?;
    if sandbox.status.phase.shown() == Some(ShownState::Running) {
        return Err(ApiError::new(
            StatusCode::CONFLICT,
            "sandbox_running",
            format!("Sandbox {id} is already running"),
        ));
    }
    let timeout = body.timeout.unwrap_or(USUAL_TIMEOUT);
    let lifetime = Lifetime::new(timeout, caller.limits.lifetime)?;
    let resumed = match control.resume(caller, &id, lifetime.get()).await {
        Err(ChangeError::Node(TransitionError::Unsupported(_))) => {
            return Err(ApiError::not_implemented("resuming a sandbox"));
        }
        resumed => resumed?,
    };
    let body = render::sandbox(&resumed.order, edge.domain());
    Ok((StatusCode::CREATED, Json(body)))
}
