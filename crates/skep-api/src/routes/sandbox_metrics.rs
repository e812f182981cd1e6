//! `GET /sandboxes/{id}/metrics` and `GET /sandboxes/metrics`

use axum::Json;
use axum::extract::State;
use jiff::{SignedDuration, Timestamp};
use skep_control::MetricRange;
use skep_types::SandboxId;
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::params::Params;
use crate::render;
use crate::router::Edge;
use crate::sandbox_path::SandboxPath;

const MOST_SANDBOXES: usize = 100;

/// Clients cut `end` to whole seconds, and their clocks differ from ours. A point that was
/// taken for this request must not fall out of its own range for that.
const CLOCK_SLACK: SignedDuration = SignedDuration::from_secs(5);

/// `GET /sandboxes/{id}/metrics`: empty for one that does not exist.
pub(crate) async fn one(
    authorized: Authorized,
    State(edge): State<Edge>,
    path: SandboxPath,
    params: Params,
) -> Result<Json<Vec<rest::Metric>>, ApiError> {
    let range = range(&params)?;
    let Ok(id) = path.id() else {
        return Ok(Json(Vec::new()));
    };
    let caller = &authorized.caller;
    let points = edge.control().metrics(caller, &id, range).await;
    Ok(Json(points.iter().map(render::metric).collect()))
}

/// `GET /sandboxes/metrics`: the latest point of each; those that do not exist are left out.
pub(crate) async fn many(
    authorized: Authorized,
    State(edge): State<Edge>,
    params: Params,
) -> Result<Json<rest::Metrics>, ApiError> {
    let mut names = params.list("sandbox_ids");
    names.sort_unstable();
    names.dedup();
    if names.len() > MOST_SANDBOXES {
        return Err(ApiError::bad_request(
            "too_many_sandboxes_requested",
            "Too many sandboxes requested, maximum is 100",
        ));
    }
    let paths = names
        .into_iter()
        .map(SandboxPath::parse)
        .collect::<Result<Vec<_>, _>>()?;
    let latest = paths
        .iter()
        .filter_map(|path| path.id().ok())
        .map(|id| latest(&authorized, &edge, id));
    let sandboxes = futures_util::future::join_all(latest).await;
    Ok(Json(rest::Metrics {
        sandboxes: sandboxes.into_iter().flatten().collect(),
    }))
}

async fn latest(
    authorized: &Authorized,
    edge: &Edge,
    id: SandboxId,
) -> Option<(String, rest::Metric)> {
    let latest = edge.control().latest_metric(&authorized.caller, &id);
    let point = latest.await?;
    Some((id.to_string(), render::metric(&point)))
}

fn range(params: &Params) -> Result<MetricRange, ApiError> {
    let from = params.unix_time("start")?;
    let until = params.unix_time("end")?;
    if let (Some(from), Some(until)) = (from, until)
        && from > until
    {
        return Err(ApiError::bad_request(
            "invalid_time_range",
            "Invalid time range for metrics",
        ));
    }
    let with_slack = |until: Timestamp| until.checked_add(CLOCK_SLACK).unwrap_or(Timestamp::MAX);
    Ok(MetricRange {
        from,
        until: until.map(with_slack),
    })
}
