//! `POST /sandboxes/{id}/pause`

use axum::extract::{MatchedPath, State};
use axum::http::{Method, StatusCode};
use skep_types::{Capability, ImageKind};

use super::not_yet::not_yet;
use crate::authorized::Authorized;
use crate::body::OptionalBody;
use crate::error::ApiError;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// Pauses a sandbox, and answers when nobody can reach it. Whether there is such a sandbox is told
/// first, because clients act on that; then whether its host can pause at all.
pub(crate) async fn pause(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    method: Method,
    route: MatchedPath,
    OptionalBody(body): OptionalBody<skep_wire::rest::Pause>,
) -> Result<StatusCode, ApiError> {
    let (control, caller) = (edge.control(), &authorized.caller);
    let id = path.id()?;
    let sandbox = control.find(caller, &id).await?;
    let capabilities = control.capabilities(&sandbox).await;
    let kind = match body.memory {
        Some(true) | None => ImageKind::Memory,
        Some(false) => ImageKind::Filesystem,
    };
    let can_freeze = kind == ImageKind::Memory && capabilities.has(Capability::Freeze);
    if !can_freeze && !capabilities.has(Capability::Checkpoint) {
        return Err(not_yet(&method, &route));
    }
    control.pause(caller, &id, kind).await?;
    Ok(StatusCode::NO_CONTENT)
}
