//! The routes that copy the memory of a context: forks, checkpoints, and the way back.

use std::sync::Arc;
use std::time::SystemTime;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::json;
use skep_kernels::{CheckpointInfo, CopyError, Outcome};
use skep_telemetry::Chain;
use skep_wire::interpreter as wire;

use crate::Interpreter;
use crate::outcome::outcome;
use crate::request::Refusal;
use crate::routes::{Failed, MayUseContexts, context, method_not_allowed, text};
use crate::timestamp;

pub(crate) fn routes() -> Router<Arc<Interpreter>> {
    Router::new()
        .route("/contexts/{id}/fork", post(fork))
        .route(
            "/contexts/{id}/checkpoints",
            get(list).head(method_not_allowed).post(checkpoint),
        )
        .route("/contexts/{id}/checkpoints/{checkpoint}", delete(remove))
        .route("/contexts/{id}/rollback", post(roll_back))
}

/// `POST /contexts/{id}/fork`: makes a context with a copy of everything in this one's memory.
async fn fork(
    State(interpreter): State<Arc<Interpreter>>,
    _: MayUseContexts,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, Failed> {
    let wire::CopyRequest { files } = parse_optional(&body)?;
    if files {
        return Ok(no_files());
    }
    match interpreter.contexts.fork(&id).await {
        Ok(fork) => Ok(Json(context(fork)).into_response()),
        Err(error) => Ok(refusal(error)),
    }
}

/// `POST /contexts/{id}/checkpoints`: keeps the present state.
async fn checkpoint(
    State(interpreter): State<Arc<Interpreter>>,
    _: MayUseContexts,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, Failed> {
    let wire::CopyRequest { files } = parse_optional(&body)?;
    if files {
        return Ok(no_files());
    }
    match interpreter.contexts.checkpoint(&id).await {
        Ok(made) => Ok(Json(rendered(made)).into_response()),
        Err(error) => Ok(refusal(error)),
    }
}

/// `GET /contexts/{id}/checkpoints`: all of them, each with its parent.
async fn list(
    State(interpreter): State<Arc<Interpreter>>,
    _: MayUseContexts,
    Path(id): Path<String>,
) -> Result<Json<Vec<wire::Checkpoint>>, Failed> {
    let all = interpreter.contexts.checkpoints(&id).await?;
    Ok(Json(all.into_iter().map(rendered).collect()))
}

/// `POST /contexts/{id}/rollback`: puts the state of a checkpoint in place of the present one.
async fn roll_back(
    State(interpreter): State<Arc<Interpreter>>,
    _: MayUseContexts,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<Response, Failed> {
    let request: wire::RollbackRequest = parse(&body)?;
    if request.files {
        return Ok(no_files());
    }
    let contexts = &interpreter.contexts;
    match contexts.roll_back(&id, &request.checkpoint_id).await {
        Ok(()) => Ok(Json(()).into_response()),
        Err(error) => Ok(refusal(error)),
    }
}

/// `DELETE /contexts/{id}/checkpoints/{checkpoint}`: gives its memory back.
async fn remove(
    State(interpreter): State<Arc<Interpreter>>,
    _: MayUseContexts,
    Path((id, checkpoint)): Path<(String, String)>,
) -> Response {
    let contexts = &interpreter.contexts;
    match contexts.remove_checkpoint(&id, &checkpoint).await {
        Ok(()) => Json(()).into_response(),
        Err(error) => refusal(error),
    }
}

fn rendered(info: CheckpointInfo) -> wire::Checkpoint {
    let since_1970 = info
        .created
        .duration_since(SystemTime::UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_micros()).ok());
    wire::Checkpoint {
        id: info.id,
        parent_id: info.parent,
        created_at: timestamp::written(since_1970),
        current: info.is_current,
        lost: info
            .lost
            .map(|exit| outcome(Outcome::of_exit(exit)).name().to_owned()),
    }
}

fn refusal(error: CopyError) -> Response {
    let status = match error {
        CopyError::Context(error) => return Failed::from(error).into_response(),
        CopyError::Unsupported { .. } => StatusCode::NOT_IMPLEMENTED,
        CopyError::Busy | CopyError::Refused { .. } => StatusCode::CONFLICT,
        CopyError::TooMany { .. } => StatusCode::TOO_MANY_REQUESTS,
        CopyError::NotFound { .. } => StatusCode::NOT_FOUND,
        CopyError::Lost { .. } => StatusCode::GONE,
        CopyError::Silent => StatusCode::GATEWAY_TIMEOUT,
        CopyError::Ended | CopyError::Process(_) => {
            tracing::warn!(error = %Chain(&error), "context cannot be copied");
            StatusCode::INTERNAL_SERVER_ERROR
        }
    };
    text(status, error.to_string())
}

fn no_files() -> Response {
    text(
        StatusCode::NOT_IMPLEMENTED,
        "files are not copied with a context: fork, snapshot or roll back the sandbox for that",
    )
}

fn parse_optional<T: DeserializeOwned + Default>(body: &[u8]) -> Result<T, Refusal> {
    if body.is_empty() {
        return Ok(T::default());
    }
    parse(body)
}

fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        Refusal::Invalid(json!([{
            "type": "value_error",
            "loc": ["body"],
            "msg": error.to_string(),
        }]))
    })
}
