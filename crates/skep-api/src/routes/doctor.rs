//! `GET /skep/doctor`, which is ours alone

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use skep_types::{Check, CheckStatus};
use skep_wire::rest;

use crate::authorized::Authorized;
use crate::error::{ApiError, Retry};
use crate::router::Edge;

/// Words of `skep doctor` about the server's host. They are about all teams together, so only the
/// default team, which is the operator's, may look.
pub(crate) async fn doctor(
    authorized: Authorized,
    State(edge): State<Edge>,
) -> Result<Json<Vec<rest::HostCheck>>, ApiError> {
    authorized.require_operator()?;
    let checks = edge.host_checks().look().await.map_err(|unanswered| {
        let message = format!("the host's checks have no result: {unanswered}");
        ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "host_not_checked", message)
            .retry(Retry::After(5))
    })?;
    Ok(Json(checks.into_iter().map(render).collect()))
}

fn render(check: Check) -> rest::HostCheck {
    rest::HostCheck {
        name: check.name.to_owned(),
        status: match check.status {
            CheckStatus::Good => rest::HostCheckStatus::Ok,
            CheckStatus::Limited => rest::HostCheckStatus::Limited,
            CheckStatus::Missing => rest::HostCheckStatus::Missing,
        },
        detail: check.detail,
        cure: check.cure,
    }
}
