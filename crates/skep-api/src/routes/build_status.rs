//! `GET /templates/{id}/builds/{build}/status` and `…/logs`

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use skep_control::{BuildLogQuery, BuildView, LogDirection, VersionError};
use skep_types::LogLevel;
use skep_wire::rest;

use super::start_build::build_id;
use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::params::Params;
use crate::render_template;
use crate::router::Edge;
use crate::sandbox_path::PathSegments;

const PAGE: u32 = 100;

/// The first version of the official clients that is known to read a log to its end after the build
/// has ended.
const READS_TO_THE_END: (u32, u32) = (2, 50);

const LEVELS: [(&str, LogLevel); 4] = [
    ("debug", LogLevel::Debug),
    ("info", LogLevel::Info),
    ("warn", LogLevel::Warn),
    ("error", LogLevel::Error),
];

/// `GET /templates/{id}/builds/{build}/status`
pub(crate) async fn status(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: PathSegments,
    params: Params,
    headers: HeaderMap,
) -> Result<Json<rest::BuildInfo>, ApiError> {
    let offset = params.number("logsOffset", 0..=i64::from(u32::MAX))?;
    let query = BuildLogQuery {
        level: params.word("level", &LEVELS)?.unwrap_or(LogLevel::Debug),
        offset: offset
            .and_then(|offset| u32::try_from(offset).ok())
            .unwrap_or_default(),
        from: None,
        direction: LogDirection::Forward,
        limit: params.page_size(PAGE)?,
    };
    let view = read(&authorized, &edge, path, query).await?;
    let hold_end = stops_at_the_end(&headers);
    Ok(Json(render_template::build_info(&view, hold_end)))
}

/// `GET /templates/{id}/builds/{build}/logs`
pub(crate) async fn logs(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: PathSegments,
    params: Params,
) -> Result<Json<rest::BuildLogs>, ApiError> {
    let directions = [
        ("forward", LogDirection::Forward),
        ("backward", LogDirection::Backward),
    ];
    let direction = params.word("direction", &directions)?;
    let query = BuildLogQuery {
        level: params.word("level", &LEVELS)?.unwrap_or(LogLevel::Debug),
        offset: 0,
        from: params.unix_time("cursor")?,
        direction: direction.unwrap_or(LogDirection::Forward),
        limit: params.page_size(PAGE)?,
    };
    let view = read(&authorized, &edge, path, query).await?;
    let logs = view.lines.iter().map(render_template::log_entry);
    Ok(Json(rest::BuildLogs {
        logs: logs.collect(),
    }))
}

async fn read(
    authorized: &Authorized,
    edge: &Edge,
    PathSegments(template, build): PathSegments,
    query: BuildLogQuery,
) -> Result<BuildView, ApiError> {
    let (template, build) = (template.parse()?, build_id(&build)?);
    let control = edge.control();
    let reading = control.build_status(&authorized.caller, &template, build, query);
    match reading.await {
        Ok(view) => Ok(view),
        // Not 404 here, for the clients' sake.
        Err(VersionError::UnknownBuild(build)) => Err(ApiError::bad_request(
            "build_not_found",
            format!("Build '{build}' not found"),
        )),
        Err(error) => Err(error.into()),
    }
}

/// Returns true for a client that stops reading the log when it hears that the build has ended.
fn stops_at_the_end(headers: &HeaderMap) -> bool {
    let agent = headers
        .get(header::USER_AGENT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let version = ["e2b-python-sdk/", "e2b-js-sdk/"]
        .iter()
        .find_map(|name| agent.split_once(name))
        .map(|(_, version)| version);
    let Some(version) = version else {
        return false;
    };
    let mut numbers = version.split('.').map_while(|number| number.parse().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) => (major, minor) < READS_TO_THE_END,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_clients_are_known_by_their_name() {
        let check = |agent: &str, expected: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(header::USER_AGENT, agent.parse().unwrap());
            assert_eq!(stops_at_the_end(&headers), expected, "{agent}");
        };
        check("e2b-python-sdk/2.7.0", true);
        check("e2b-js-sdk/2.7.0", true);
        check("e2b-python-sdk/2.63.0", false);
        check("curl/8.0", false);
    }
}
