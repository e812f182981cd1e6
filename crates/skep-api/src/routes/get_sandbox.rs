//! `GET /sandboxes/{id}`

use axum::Json;
use axum::extract::State;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::render;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// One sandbox. One that has ended is not found; `/skep/sandboxes` tells how it ended.
pub(crate) async fn get_sandbox(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
) -> Result<Json<rest::SandboxDetail>, ApiError> {
    let sandbox = edge.control().find(&authorized.caller, &path.id()?).await?;
    Ok(Json(render::sandbox_detail(&sandbox, edge.domain())))
}
