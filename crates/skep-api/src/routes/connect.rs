//! `POST /sandboxes/{id}/connect` and `POST /v2/sandboxes/{id}/connect`

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_control::{ConnectOrder, IfRunning, Lifetime};
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::{Body, OptionalBody};
use crate::error::ApiError;
use crate::render;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// `POST /sandboxes/{id}/connect`. A time of zero leaves the deadline of a running sandbox as it is.
pub(crate) async fn v1(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    Body(body): Body<rest::Connect>,
) -> Result<(StatusCode, Json<rest::Sandbox>), ApiError> {
    let timeout = body
        .timeout
        .ok_or_else(|| ApiError::validation("missing field `timeout`"))?;
    let lifetime = match timeout {
        0 => Duration::ZERO,
        _ => Lifetime::new(timeout, authorized.caller.limits.lifetime)?.get(),
    };
    connect(&authorized, &edge, &path, Some(lifetime), body.memory).await
}

/// `POST /v2/sandboxes/{id}/connect`. Who says no time gets what the sandbox was created with, and
/// five minutes at least.
pub(crate) async fn v2(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    OptionalBody(body): OptionalBody<rest::Connect>,
) -> Result<(StatusCode, Json<rest::Sandbox>), ApiError> {
    let most = authorized.caller.limits.lifetime;
    let lifetime = body
        .timeout
        .map(|timeout| Lifetime::new(timeout, most))
        .transpose()?
        .map(Lifetime::get);
    connect(&authorized, &edge, &path, lifetime, body.memory).await
}

/// Answers when the sandbox runs: 201 if it was paused, 200 if it was not. The time that was asked
/// for is checked before anybody looks whether there is such a sandbox.
async fn connect(
    authorized: &Authorized,
    edge: &Edge,
    path: &SandboxPath,
    lifetime: Option<Duration>,
    memory: Option<bool>,
) -> Result<(StatusCode, Json<rest::Sandbox>), ApiError> {
    let order = ConnectOrder {
        lifetime,
        start: render::resume_start(memory),
        on_timeout: None,
        if_running: IfRunning::Extend,
    };
    let caller = &authorized.caller;
    let id = path.id()?;
    let connecting = edge.control().connect(caller, &id, order);
    let connected = connecting.await?;
    let (sandbox, domain) = (&connected.sandbox, edge.domain());
    let (status, body) = if connected.was_resumed {
        let body = render::resumed_sandbox(sandbox, domain);
        (StatusCode::CREATED, body)
    } else {
        (StatusCode::OK, render::sandbox(&sandbox.order, domain))
    };
    Ok((status, Json(body)))
}
