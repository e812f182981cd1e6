//! `GET /teams/{id}/metrics` and `GET /teams/{id}/metrics/max`

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use skep_control::{TeamPoint, TimeRange};
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::params::Params;
use crate::render;
use crate::router::Edge;
use crate::sandbox_path::PathSegment;

const USUAL_RANGE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Tolerance for a client's clock that is ahead of ours.
const CLOCK_SLACK: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantity {
    ConcurrentSandboxes,
    SandboxStartRate,
}

/// `GET /teams/{id}/metrics`
pub(crate) async fn series(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(team): PathSegment,
    params: Params,
) -> Result<Json<Vec<rest::TeamMetric>>, ApiError> {
    let points = points(&authorized, &edge, &team, &params).await?;
    Ok(Json(points.iter().map(render::team_metric).collect()))
}

/// `GET /teams/{id}/metrics/max`: zero if nothing ran.
pub(crate) async fn max(
    authorized: Authorized,
    State(edge): State<Edge>,
    PathSegment(team): PathSegment,
    params: Params,
) -> Result<Json<rest::MaxTeamMetric>, ApiError> {
    let quantities = [
        ("concurrent_sandboxes", Quantity::ConcurrentSandboxes),
        ("sandbox_start_rate", Quantity::SandboxStartRate),
    ];
    let quantity = params
        .word("metric", &quantities)?
        .ok_or_else(|| ApiError::validation("parameter `metric` is required"))?;
    let points = points(&authorized, &edge, &team, &params).await?;
    let value = |point: &TeamPoint| match quantity {
        Quantity::ConcurrentSandboxes => f64::from(point.concurrent),
        Quantity::SandboxStartRate => point.start_rate,
    };
    let values = points.iter().map(|point| (point.at, value(point)));
    let highest = values.max_by(|left, right| left.1.total_cmp(&right.1));
    let (at, value) = highest.unwrap_or((Timestamp::now(), 0.0));
    Ok(Json(rest::MaxTeamMetric {
        timestamp: at,
        timestamp_unix: at.as_second(),
        value,
    }))
}

async fn points(
    authorized: &Authorized,
    edge: &Edge,
    team: &str,
    params: &Params,
) -> Result<Vec<TeamPoint>, ApiError> {
    let caller = &authorized.caller;
    if team != caller.team.id.as_str() {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "team_forbidden",
            "You are not authorized to view this team's metrics",
        ));
    }
    let range = range(params, Timestamp::now())?;
    Ok(edge.control().team_metrics(caller, range).await?)
}

fn range(params: &Params, now: Timestamp) -> Result<TimeRange, ApiError> {
    let invalid = |message| ApiError::bad_request("invalid_time_range", message);
    let until = params.unix_time("end")?.unwrap_or(now);
    if until.duration_since(now) > CLOCK_SLACK {
        return Err(invalid("end time cannot be after the current time"));
    }
    let usual = until.checked_sub(USUAL_RANGE).unwrap_or(Timestamp::MIN);
    let from = params.unix_time("start")?.unwrap_or(usual);
    TimeRange::new(from, until).map_err(|_| invalid("start time cannot be after end time"))
}
