//! `POST /sandboxes/{id}/fork`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_control::{ChangeError, ForkRequest, Lifetime, SnapshotError};
use skep_types::Phase;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::body::OptionalBody;
use crate::error::ApiError;
use crate::render;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

/// Time to live of a copy when a client says nothing.
const USUAL_TIMEOUT: i64 = 300;

/// Largest number of copies in one answer.
const MOST: u32 = 100;

/// Makes copies of a running sandbox, and tells what became of each.
pub(crate) async fn fork(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    OptionalBody(body): OptionalBody<rest::Fork>,
) -> Result<(StatusCode, Json<Vec<rest::ForkedSandbox>>), ApiError> {
    let caller = &authorized.caller;
    caller.may_change()?;
    let count = count(&body, caller.limits.sandboxes)?;
    let timeout = body.timeout.unwrap_or(USUAL_TIMEOUT);
    let lifetime = Lifetime::new(timeout, caller.limits.lifetime)?;
    let id = path.id()?;
    let request = ForkRequest { count, lifetime };
    let forked = edge.control().fork(caller, &id, request).await;
    let copies = forked.map_err(fork_error)?;
    let items = copies.into_iter().map(|copy| match copy {
        Ok(order) => rest::ForkedSandbox::Sandbox(render::copied_sandbox(&order, edge.domain())),
        Err(error) => rest::ForkedSandbox::Error(ApiError::from(error).into()),
    });
    Ok((StatusCode::CREATED, Json(items.collect())))
}

/// A paused sandbox is copied by a snapshot; the contract has no fork of it.
fn fork_error(error: SnapshotError) -> ApiError {
    let SnapshotError::Change(ChangeError::Conflict { id, phase }) = &error else {
        return error.into();
    };
    let message = if *phase == Phase::Paused {
        format!("Sandbox '{id}' is paused and cannot be forked; resume it first")
    } else {
        let state = render::state_name(*phase);
        format!("Sandbox '{id}' cannot be forked while in '{state}' state")
    };
    ApiError::new(StatusCode::CONFLICT, "sandbox_conflict", message)
}

fn count(body: &rest::Fork, sandboxes: u32) -> Result<usize, ApiError> {
    let refused = |message: String| Err(ApiError::bad_request("invalid_count", message));
    let count = match body.count {
        None => 1,
        Some(count) if count < 1 => return refused("Count must be at least 1".to_owned()),
        Some(count) if count > i64::from(MOST) => {
            return refused(format!("Count cannot be greater than {MOST}"));
        }
        Some(count) => usize::try_from(count).map_err(ApiError::validation)?,
    };
    if u32::try_from(count).is_ok_and(|count| count > sandboxes) {
        return refused(format!(
            "Count must be lower than the maximum number of concurrent sandboxes ({sandboxes})"
        ));
    }
    Ok(count)
}
