//! `/access-tokens`, which this server does not issue

use axum::http::StatusCode;

use crate::authorized::Authorized;
use crate::error::ApiError;

/// `POST /access-tokens`
pub(crate) async fn create(_authorized: Authorized) -> ApiError {
    ApiError::new(
        StatusCode::GONE,
        "access_tokens_disabled",
        "access tokens are not issued any more; use an API key",
    )
}

/// `DELETE /access-tokens/{id}`
pub(crate) async fn delete(_authorized: Authorized) -> ApiError {
    ApiError::not_found("access_token_not_found", "id not found")
}
