//! Requests of the contract that have no work behind them.

use axum::http::{Method, Uri};

use crate::authorized::Authorized;
use crate::error::ApiError;

/// The first way to build templates, by pushing a Docker image. It will not come.
pub(crate) async fn docker_build(_authorized: Authorized) -> ApiError {
    ApiError::bad_request(
        "docker_build_unsupported",
        "building from a pushed Docker image is not supported; use `template create`",
    )
}

/// Refuses a request by what was asked, and not by the pattern that it matched.
pub(crate) fn not_yet(method: &Method, uri: &Uri) -> ApiError {
    ApiError::not_implemented(&format!("{method} {}", uri.path()))
}
