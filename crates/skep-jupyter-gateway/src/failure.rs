//! Failures as clients of Jupyter's REST API read them.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;
use skep_client::{Cause, ClientError};
use skep_telemetry::Chain;

/// A request could not be answered: the status, and a sentence for whoever asked.
#[derive(Debug)]
pub(crate) struct Failure {
    status: StatusCode,
    message: String,
}

impl Failure {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
        }
    }

    pub(crate) fn no_kernel(id: &str) -> Self {
        let message = format!(
            "there is no kernel `{id}`; kernels end when nobody has used them for a while, and with their sandboxes"
        );
        Self::new(StatusCode::NOT_FOUND, message)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        match error.cause() {
            Cause::Refused { status, message } => {
                let status = StatusCode::from_u16(*status).unwrap_or(StatusCode::BAD_GATEWAY);
                Self::new(status, message.clone())
            }
            Cause::Unreachable { .. }
            | Cause::Agent { .. }
            | Cause::Lost(_)
            | Cause::Address(_)
            | Cause::Setup(_)
            | Cause::Answer(_) => {
                tracing::warn!(error = %Chain(&error), "a kernel cannot be used");
                Self::new(StatusCode::BAD_GATEWAY, error.to_string())
            }
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        // As Jupyter's own server has it. Clients show the first.
        let body = json!({"message": self.message, "reason": null});
        (self.status, Json(body)).into_response()
    }
}

/// Name of an error that code did not raise.
pub(crate) fn name_of(error: &ClientError) -> &'static str {
    match error.status() {
        Some(404 | 410) => "KernelEnded",
        Some(409) => "KernelBusy",
        Some(401 | 403) => "NotAllowed",
        Some(429) => "LimitReached",
        Some(_) | None => "KernelUnreachable",
    }
}
