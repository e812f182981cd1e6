//! Answers that are not a success.

mod from;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use skep_wire::rest;

/// The error that a caller gets: a status, a stable code for programs and a text for people.
/// Details for the operator are logged where the error is converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry: Retry,
}

/// Advice to a client that can repeat a request.
///
/// The newest Python client repeats 429, 502, 503 and 504 by itself unless told otherwise; the
/// newest JavaScript client repeats a 429 that says when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// No advice: the client does what it does by itself with this status.
    Unsaid,
    /// No retry: the answer would be the same, or the work may have been done.
    Never,
    /// A retry after so many seconds.
    After(u32),
}

impl ApiError {
    /// An error with a status, a code and a text.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            retry: Retry::Unsaid,
        }
    }

    /// The same with advice on repeating.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    pub(crate) fn bad_request(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code, message)
    }

    /// A request that does not have the form the route asks for.
    pub(crate) fn validation(message: impl std::fmt::Display) -> Self {
        Self::bad_request("validation_error", format!("validation error: {message}"))
    }

    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message)
    }

    pub(crate) fn not_found(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, code, message)
    }

    /// There is no sandbox that the caller could mean by `id`.
    pub(crate) fn sandbox_not_found(id: impl std::fmt::Display) -> Self {
        let message = format!("Sandbox \"{id}\" doesn't exist or you don't have access to it");
        Self::not_found("sandbox_not_found", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "the route does not have this method";
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "method_not_allowed",
            message,
        )
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal_server_error",
            message,
        )
    }

    pub(crate) fn unavailable(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, code, message)
    }

    pub(crate) fn not_implemented(what: &str) -> Self {
        let message = format!("{what} is not available on this server yet");
        Self::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let body = rest::Error {
            code: self.status.as_u16(),
            error_code: Some(self.code.to_owned()),
            message: self.message,
        };
        let mut response = (self.status, Json(body)).into_response();
        let headers = response.headers_mut();
        match self.retry {
            Retry::Unsaid => {}
            Retry::Never => {
                headers.insert("should-retry", HeaderValue::from_static("false"));
            }
            Retry::After(seconds) => {
                headers.insert("should-retry", HeaderValue::from_static("true"));
                headers.insert(header::RETRY_AFTER, seconds.into());
            }
        }
        response
    }
}
