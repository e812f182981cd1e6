//! `GET /sandboxes/{id}/logs` and `GET /v2/sandboxes/{id}/logs`

use axum::Json;
use axum::extract::State;
use skep_control::{LogDirection, LogQuery};
use skep_types::{LogEntry, LogLevel};
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::params::Params;
use crate::render;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

const LIMIT: usize = 1000;
const LONGEST_SEARCH: usize = 256;

/// `GET /sandboxes/{id}/logs`: the oldest first. Empty for one that does not exist.
pub(crate) async fn v1(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    params: Params,
) -> Result<Json<rest::Logs>, ApiError> {
    let query = LogQuery {
        cursor: params.unix_time("start")?,
        direction: LogDirection::Forward,
        limit: limit(&params)?,
        level: LogLevel::Debug,
        search: None,
    };
    let entries = read(&authorized, &edge, &path, &query).await?;
    Ok(Json(rest::Logs {
        logs: entries.iter().map(render::log_line).collect(),
        log_entries: entries.iter().map(render::log_entry).collect(),
    }))
}

/// `GET /v2/sandboxes/{id}/logs`
pub(crate) async fn v2(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    params: Params,
) -> Result<Json<rest::LogsV2>, ApiError> {
    let directions = [
        ("backward", LogDirection::Backward),
        ("forward", LogDirection::Forward),
    ];
    let levels = [
        ("debug", LogLevel::Debug),
        ("info", LogLevel::Info),
        ("warn", LogLevel::Warn),
        ("error", LogLevel::Error),
    ];
    let search = params.text("search").map(str::to_owned);
    if search
        .as_ref()
        .is_some_and(|text| text.chars().count() > LONGEST_SEARCH)
    {
        return Err(ApiError::validation(
            "parameter `search` must have at most 256 characters",
        ));
    }
    let direction = params.word("direction", &directions)?;
    let query = LogQuery {
        cursor: params.unix_time("cursor")?,
        direction: direction.unwrap_or(LogDirection::Backward),
        limit: limit(&params)?,
        level: params.word("level", &levels)?.unwrap_or(LogLevel::Debug),
        search,
    };
    let entries = read(&authorized, &edge, &path, &query).await?;
    Ok(Json(rest::LogsV2 {
        logs: entries.iter().map(render::log_entry).collect(),
    }))
}

async fn read(
    authorized: &Authorized,
    edge: &Edge,
    path: &SandboxPath,
    query: &LogQuery,
) -> Result<Vec<LogEntry>, ApiError> {
    let Ok(id) = path.id() else {
        return Ok(Vec::new());
    };
    let logs = edge.control().logs(&authorized.caller, &id, query).await?;
    Ok(logs)
}

fn limit(params: &Params) -> Result<usize, ApiError> {
    let limit = params.number("limit", 0..=1000)?;
    Ok(limit
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(LIMIT))
}
