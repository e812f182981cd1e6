//! `POST /sandboxes/{id}/pause`

use std::time::Instant;

use axum::Extension;
use axum::extract::State;
use axum::http::{Method, StatusCode, Uri};
use jiff::{SignedDuration, Timestamp};
use skep_control::{ChangeError, PauseOrder};
use skep_types::{Capability, ImageKind, Phase, SandboxId, SentAfter, TransitionError};

use super::not_yet::not_yet;
use crate::authorized::Authorized;
use crate::body::OptionalBody;
use crate::error::ApiError;
use crate::render;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// Pauses a sandbox, and answers when nobody can reach it. Whether there is such a sandbox is told
/// first, because clients act on that; then whether its host can pause at all.
pub(crate) async fn pause(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    method: Method,
    uri: Uri,
    sent: Option<Extension<SentAfter>>,
    OptionalBody(body): OptionalBody<skep_wire::rest::Pause>,
) -> Result<StatusCode, ApiError> {
    let (control, caller) = (edge.control(), &authorized.caller);
    let id = path.id()?;
    let sandbox = control.find(caller, &id).await?;
    let capabilities = control.capabilities(&sandbox).await;
    let kind = render::image_kind(body.memory);
    let can_freeze = kind == ImageKind::Memory && capabilities.has(Capability::Freeze);
    if !can_freeze && !capabilities.has(Capability::of_image(kind)) {
        return Err(not_yet(&method, &uri));
    }
    let order = PauseOrder {
        kind,
        needs_agent: body.require_healthy_guest.unwrap_or(false),
        asked_after: sent.and_then(|Extension(SentAfter(at))| wall_time(at)),
    };
    match control.pause(caller, &id, order).await {
        Ok(_) => Ok(StatusCode::NO_CONTENT),
        Err(ChangeError::Conflict { id, phase }) => Err(cannot_be_paused(&id, phase)),
        // Clients take a conflict for a sandbox that is paused already.
        Err(ChangeError::Node(TransitionError::Unwritable(obstacle))) => Err(ApiError::unwritable(
            StatusCode::SERVICE_UNAVAILABLE,
            obstacle,
        )),
        Err(error) => Err(error.into()),
    }
}

/// The wall clock's time of a moment that is past.
fn wall_time(at: Instant) -> Option<Timestamp> {
    let past = SignedDuration::try_from(at.elapsed()).ok()?;
    Timestamp::now().checked_sub(past).ok()
}

fn cannot_be_paused(id: &SandboxId, phase: Phase) -> ApiError {
    let message = match phase {
        Phase::Paused => {
            format!("Error pausing sandbox - sandbox '{id}' is already paused")
        }
        Phase::Starting
        | Phase::Running
        | Phase::Snapshotting
        | Phase::Pausing
        | Phase::Resuming
        | Phase::Stopping
        | Phase::Stuck
        | Phase::Gone => {
            let state = render::state_name(phase);
            format!("Sandbox '{id}' cannot be paused while in '{state}' state")
        }
    };
    ApiError::new(StatusCode::CONFLICT, "sandbox_conflict", message)
}
