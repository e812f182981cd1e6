//! Extractors for request bodies.

use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use bytes::Bytes;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::error::Category;

use crate::error::ApiError;

/// A body that was read but not yet understood. The clients' content types are not asked for:
/// some send none.
#[derive(Debug)]
pub(crate) struct RawBody(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for RawBody {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Bytes::from_request(request, state).await {
            Ok(bytes) => Ok(Self(bytes)),
            Err(rejection) if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE => {
                Err(ApiError::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "body_too_large",
                    "the request body is larger than 16 MiB",
                ))
            }
            Err(_broken) => Err(ApiError::bad_request(
                "body_unreadable",
                "Error when parsing request: the body ended early",
            )),
        }
    }
}

impl RawBody {
    /// The body as `T`.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, ApiError> {
        // A struct could be read from a list of its fields too, which nobody means.
        if !self.0.trim_ascii_start().starts_with(b"{") {
            serde_json::from_slice::<IgnoredAny>(&self.0).map_err(refused)?;
            return Err(ApiError::validation("the body must be an object"));
        }
        serde_json::from_slice(&self.0).map_err(refused)
    }

    /// The body as `T`, or what `T` is when nothing was said.
    pub(crate) fn parse_or_default<T: DeserializeOwned + Default>(&self) -> Result<T, ApiError> {
        if self.0.trim_ascii().is_empty() {
            return Ok(T::default());
        }
        self.parse()
    }
}

fn refused(error: serde_json::Error) -> ApiError {
    match error.classify() {
        Category::Data => ApiError::validation(error),
        Category::Io | Category::Syntax | Category::Eof => ApiError::bad_request(
            "invalid_json",
            format!("Error when parsing request: {error}"),
        ),
    }
}

/// A body that must be there.
#[derive(Debug)]
pub(crate) struct Body<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body = RawBody::from_request(request, state).await?;
        Ok(Self(body.parse()?))
    }
}

/// A body that may be missing.
#[derive(Debug)]
pub(crate) struct OptionalBody<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for OptionalBody<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let body = RawBody::from_request(request, state).await?;
        Ok(Self(body.parse_or_default()?))
    }
}
