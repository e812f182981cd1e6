//! Answers that are not a success.

mod from;
mod from_version;
mod from_volume;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use skep_types::{Departure, Obstacle, SandboxId};
use skep_wire::rest;

/// The words by which clients know that there is no such sandbox for them.
const GONE: &str = "doesn't exist or you don't have access to it";

/// The error that a caller gets: a status, a stable code for programs and a text for people.
/// Details for the operator are logged where the error is converted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    retry: Retry,
    /// The sandbox that is not there.
    missing: Option<SandboxId>,
}

/// Sandbox that an answer says is not there, for whoever can say what became of it.
#[derive(Debug, Clone)]
pub(crate) struct MissingSandbox(pub(crate) SandboxId);

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
            missing: None,
        }
    }

    /// The same with advice on repeating.
    #[must_use]
    pub fn retry(self, retry: Retry) -> Self {
        Self { retry, ..self }
    }

    /// The HTTP status.
    pub(crate) fn status(&self) -> StatusCode {
        self.status
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
        let id = id.to_string();
        let message = format!("Sandbox \"{id}\" {GONE}");
        Self {
            missing: id.parse().ok(),
            ..Self::not_found("sandbox_not_found", message)
        }
    }

    /// The caller's sandbox has ended. Clients know it by the words of one that never was.
    pub(crate) fn sandbox_ended(id: &SandboxId, departure: &Departure) -> Self {
        let words = departure.words(Timestamp::now());
        let message = format!("Sandbox \"{id}\" {GONE}: it {words}");
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

    /// The sandbox holds what is in no image, and is as it was.
    pub(crate) fn unwritable(status: StatusCode, obstacle: Obstacle) -> Self {
        let message = format!(
            "the sandbox has {obstacle}, which cannot be written; it is as it was. End that and try \
             again"
        );
        Self::new(status, "sandbox_unwritable", message).retry(Retry::Never)
    }

    pub(crate) fn not_implemented(what: &str) -> Self {
        let message = format!("{what} is not available on this server yet");
        Self::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", message)
    }
}

impl From<ApiError> for rest::Error {
    fn from(error: ApiError) -> Self {
        Self {
            code: error.status.as_u16(),
            error_code: Some(error.code.to_owned()),
            message: error.message,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, retry) = (self.status, self.retry);
        let missing = self.missing.clone();
        let mut response = (status, Json(rest::Error::from(self))).into_response();
        if let Some(id) = missing {
            response.extensions_mut().insert(MissingSandbox(id));
        }
        let headers = response.headers_mut();
        match retry {
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
