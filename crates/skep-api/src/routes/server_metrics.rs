//! `GET /skep/metrics`, which is ours alone

use axum::extract::State;
use axum::http::{HeaderName, header};

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::router::Edge;

/// Metrics of the server, in Prometheus' text format. They are about all teams together, so only
/// the default team, which is the operator's, may look.
pub(crate) async fn server_metrics(
    authorized: Authorized,
    State(edge): State<Edge>,
) -> Result<([(HeaderName, &'static str); 1], String), ApiError> {
    authorized.require_operator()?;
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], edge.metrics().render()))
}
