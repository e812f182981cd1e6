//! Errors of the plain HTTP routes.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use skep_telemetry::Chain;

use crate::filesystem::FileError;

/// Error body of a plain route: `{"code": <status>, "message": "..."}`.
#[derive(Debug)]
pub(crate) struct RestError {
    status: StatusCode,
    message: String,
}

impl RestError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "not found")
    }
}

impl IntoResponse for RestError {
    fn into_response(self) -> Response {
        let body = serde_json::json!({ "code": self.status.as_u16(), "message": self.message });
        (
            self.status,
            [(CONTENT_TYPE, "application/json")],
            format!("{body}\n"),
        )
            .into_response()
    }
}

impl From<FileError> for RestError {
    fn from(error: FileError) -> Self {
        let status = match &error {
            FileError::User { name, source } => {
                let text = format!("error looking up user '{name}': {}", Chain(source));
                return Self::new(StatusCode::UNAUTHORIZED, text);
            }
            FileError::NotFound { path } => {
                return Self::new(
                    StatusCode::NOT_FOUND,
                    format!("path '{path}' does not exist"),
                );
            }
            FileError::SourceNotFound { .. } => StatusCode::NOT_FOUND,
            FileError::Path(_)
            | FileError::IsFile { .. }
            | FileError::IsDirectory { .. }
            | FileError::NotADirectory { .. }
            | FileError::NotRegular { .. }
            | FileError::DirectoryExists { .. }
            | FileError::Loop { .. }
            | FileError::Unfit { .. }
            | FileError::Network { .. }
            | FileError::TooMuch { .. }
            | FileError::TooManyWatches => StatusCode::BAD_REQUEST,
            FileError::NoSpace(_) => {
                return Self::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string());
            }
            FileError::Denied { .. } => StatusCode::FORBIDDEN,
            FileError::Io { .. } | FileError::Broken => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::new(status, Chain(&error).to_string())
    }
}
