//! `POST /skep/sandboxes/{id}/rollback` and `GET /skep/sandboxes/{id}/checkpoints`

use axum::Json;
use axum::extract::State;
use skep_control::Lifetime;
use skep_types::TemplateReference;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::Body;
use crate::error::ApiError;
use crate::render;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// Time to live of a sandbox that was paused when a client says nothing.
const USUAL_TIMEOUT: i64 = 300;

/// Limit on the checkpoints of one sandbox that are told.
const MOST: u32 = 1000;

/// Puts a sandbox back to a snapshot, in place. One that runs keeps its deadline.
pub(crate) async fn rollback(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    Body(body): Body<rest::Rollback>,
) -> Result<Json<rest::Sandbox>, ApiError> {
    let caller = &authorized.caller;
    caller.may_change()?;
    let timeout = body.timeout.unwrap_or(USUAL_TIMEOUT);
    let lifetime = Lifetime::new(timeout, caller.limits.lifetime)?;
    let reference: TemplateReference = body.snapshot_id.parse()?;
    let id = path.id()?;
    let control = edge.control();
    let rolling = control.roll_back(caller, &id, reference, lifetime.get());
    let sandbox = rolling.await?;
    Ok(Json(render::resumed_sandbox(&sandbox, edge.domain())))
}

/// The checkpoints of a sandbox that are kept, the newest first. Each names the one before it, so
/// that they are a tree, and one may be where the sandbox is now.
pub(crate) async fn checkpoints(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
) -> Result<Json<Vec<rest::Snapshot>>, ApiError> {
    let caller = &authorized.caller;
    let id = path.id()?;
    let history = edge.control().checkpoints(caller, &id, MOST);
    let (checkpoints, position) = history.await?;
    let items = checkpoints.iter().map(|record| rest::Snapshot {
        is_current: (position.as_ref() == Some(&record.id)).then_some(true),
        ..render::snapshot(record, &caller.team.slug)
    });
    Ok(Json(items.collect()))
}
