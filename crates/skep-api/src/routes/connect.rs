//! `POST /sandboxes/{id}/connect` and `POST /v2/sandboxes/{id}/connect`

use axum::Json;
use axum::extract::State;
use skep_control::Lifetime;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::{Body, OptionalBody};
use crate::error::ApiError;
use crate::render;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// Time to live when a client of the second generation says nothing.
const USUAL_TIMEOUT: i64 = 300;

/// `POST /sandboxes/{id}/connect`
pub(crate) async fn v1(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    Body(body): Body<rest::Connect>,
) -> Result<Json<rest::Sandbox>, ApiError> {
    let timeout = body
        .timeout
        .ok_or_else(|| ApiError::validation("missing field `timeout`"))?;
    connect(&authorized, &edge, &path, timeout).await
}

/// `POST /v2/sandboxes/{id}/connect`
pub(crate) async fn v2(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    OptionalBody(body): OptionalBody<rest::Connect>,
) -> Result<Json<rest::Sandbox>, ApiError> {
    let timeout = body.timeout.unwrap_or(USUAL_TIMEOUT);
    connect(&authorized, &edge, &path, timeout).await
}

/// Connects to a running sandbox. The field `memory`, which says if a paused one is started with
/// its memory, means nothing here: no paused sandbox can be connected to yet.
async fn connect(
    authorized: &Authorized,
    edge: &Edge,
    path: &SandboxPath,
    timeout: i64,
) -> Result<Json<rest::Sandbox>, ApiError> {
    let caller = &authorized.caller;
    // Said before anybody looks whether there is such a sandbox.
    let lifetime = Lifetime::new(timeout, caller.limits.lifetime)?;
    let sandbox = edge
        .control()
        .extend_lifetime(caller, &path.id()?, lifetime.get())
        .await?;
    Ok(Json(render::sandbox(&sandbox.order, edge.domain())))
}
