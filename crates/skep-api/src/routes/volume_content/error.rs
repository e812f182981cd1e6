//! Failures of work on the files of a volume: unlike all others, their code is a word.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use skep_control::{AuthError, ContentError, FilesError, PathError, VolumeError};
use skep_telemetry::Chain;
use skep_wire::rest;

use crate::error::ApiError;

/// The failure that a caller gets.
#[derive(Debug)]
pub(crate) struct ContentFailure {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl ContentFailure {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
        }
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", message)
    }

    pub(super) fn too_deep(deepest: u32) -> Self {
        let message = format!("depth is 1 to {deepest}");
        Self::new(StatusCode::BAD_REQUEST, "DEPTH_OUT_OF_RANGE", message)
    }

    /// Nobody learns which volumes there are.
    pub(super) fn unauthorized() -> Self {
        let message =
            "the token is not that of a volume; ask for the volume again to get its token";
        Self::new(StatusCode::UNAUTHORIZED, "UNAUTHORIZED", message)
    }
}

impl IntoResponse for ContentFailure {
    fn into_response(self) -> Response {
        let body = rest::VolumeError {
            code: self.code.to_owned(),
            message: self.message,
        };
        (self.status, Json(body)).into_response()
    }
}

impl From<ApiError> for ContentFailure {
    fn from(error: ApiError) -> Self {
        let status = error.status();
        let code = match status {
            StatusCode::TOO_MANY_REQUESTS => "TOO_MANY_REQUESTS",
            status if status.is_client_error() => "INVALID_REQUEST",
            _ => "INTERNAL",
        };
        Self::new(status, code, rest::Error::from(error).message)
    }
}

impl From<AuthError> for ContentFailure {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::Unknown => Self::unauthorized(),
            AuthError::Banned => Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", "team is banned"),
            AuthError::Record(error) => ApiError::from(error).into(),
        }
    }
}

impl From<PathError> for ContentFailure {
    fn from(error: PathError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<FilesError> for ContentFailure {
    fn from(error: FilesError) -> Self {
        let message = error.to_string();
        match error {
            FilesError::Content(error) => error.into(),
            FilesError::Volume(VolumeError::NoRoom(_)) => Self::host_full(),
            FilesError::ReadOnly => Self::new(
                StatusCode::FORBIDDEN,
                "READ_ONLY",
                "the volume is a snapshot and read-only; clone it to write",
            ),
            FilesError::Blocked(_) => Self::new(StatusCode::FORBIDDEN, "FORBIDDEN", message),
            FilesError::Torn(_) => Self::invalid("the body ended early; nothing was written"),
            FilesError::Volume(_) | FilesError::BrokeOff => {
                tracing::error!(error = %Chain(&error), "volume cannot be opened");
                Self::internal()
            }
        }
    }
}

impl From<ContentError> for ContentFailure {
    fn from(error: ContentError) -> Self {
        let message = error.to_string();
        let (status, code) = match &error {
            ContentError::NotFound(_) => (StatusCode::NOT_FOUND, "PATH_NOT_FOUND"),
            ContentError::Exists(_) => (StatusCode::CONFLICT, "PATH_ALREADY_EXISTS"),
            ContentError::ThroughFile(_) => (StatusCode::BAD_REQUEST, "INVALID_REQUEST"),
            ContentError::IsDirectory(_) | ContentError::NotSupported(_) => {
                (StatusCode::BAD_REQUEST, "NOT_SUPPORTED")
            }
            ContentError::Root => (StatusCode::BAD_REQUEST, "CANNOT_DELETE_ROOT"),
            ContentError::TooMany { .. } => (StatusCode::BAD_REQUEST, "TOO_MANY_ENTRIES"),
            ContentError::Full => (StatusCode::INSUFFICIENT_STORAGE, "NO_SPACE"),
            ContentError::HostFull => return Self::host_full(),
            ContentError::System { .. } => {
                tracing::error!(error = %Chain(&error), "work on a volume failed");
                return Self::internal();
            }
        };
        Self::new(status, code, message)
    }
}

impl ContentFailure {
    fn host_full() -> Self {
        let message = "the server's disk is full; try again later";
        Self::new(StatusCode::INSUFFICIENT_STORAGE, "NO_SPACE", message)
    }

    fn internal() -> Self {
        let message = "the server could not do it; its log says why";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", message)
    }
}
