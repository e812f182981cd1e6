//! Status, code and text of each failure of a build, an upload or a change of a template.

use axum::http::StatusCode;
use skep_control::{LinkError, TagError, UploadError, VersionError, VersionNameError};
use skep_telemetry::Chain;

use super::{ApiError, Retry};

impl From<VersionError> for ApiError {
    fn from(error: VersionError) -> Self {
        let message = error.to_string();
        match error {
            VersionError::Blocked(error) => error.into(),
            VersionError::Resolve(error) => error.into(),
            VersionError::Record(error) => error.into(),
            VersionError::Resources(_) => Self::bad_request("invalid_resources", message),
            VersionError::NameIsAnId(_) => {
                Self::new(StatusCode::CONFLICT, "template_name_taken", message)
            }
            VersionError::Everybodys(_) => {
                Self::new(StatusCode::FORBIDDEN, "template_forbidden", message)
            }
            VersionError::UnknownBuild(_) => Self::not_found("build_not_found", message),
            VersionError::ForeignBuild(_) => {
                Self::new(StatusCode::FORBIDDEN, "build_forbidden", message)
            }
            VersionError::NotWaiting => Self::bad_request("build_not_waiting", message),
            VersionError::NoVersion(_) => Self::not_found("template_tag_not_found", message),
            VersionError::InUse { .. } => Self::bad_request("template_in_use", message),
            VersionError::VersionInUse { .. } => {
                Self::new(StatusCode::CONFLICT, "version_in_use", message)
            }
            VersionError::Ended(_) => Self::new(StatusCode::CONFLICT, "build_ended", message),
            // Waiting helps, but not for as little as clients wait.
            VersionError::TooManyBuilds { limit } => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_builds",
                format!("you have reached the limit of {limit} concurrent builds; wait until one has ended"),
            )
            .retry(Retry::After(5)),
            VersionError::Uploads(_) | VersionError::BrokeOff => {
                tracing::error!(error = %Chain(&error), "a request for a build failed");
                Self::internal("the request could not be carried out; try again")
            }
        }
    }
}

impl From<VersionNameError> for ApiError {
    fn from(error: VersionNameError) -> Self {
        match error {
            VersionNameError::Tag(error) => error.into(),
            VersionNameError::Foreign(error) => {
                Self::bad_request("invalid_name", format!("Invalid name: {error}"))
            }
        }
    }
}

impl From<TagError> for ApiError {
    fn from(error: TagError) -> Self {
        Self::bad_request("invalid_tag", format!("Invalid tag: {error}"))
    }
}

impl From<LinkError> for ApiError {
    fn from(error: LinkError) -> Self {
        Self::new(
            StatusCode::FORBIDDEN,
            "invalid_upload_link",
            error.to_string(),
        )
    }
}

impl From<UploadError> for ApiError {
    fn from(error: UploadError) -> Self {
        let message = error.to_string();
        match error {
            UploadError::TooLarge { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "upload_too_large", message)
            }
            UploadError::TeamFull { .. } => {
                Self::new(StatusCode::PAYLOAD_TOO_LARGE, "uploads_too_large", message)
            }
            UploadError::Broken(_) => Self::bad_request("upload_broken", message),
            UploadError::NoRoom => {
                Self::unavailable("server_disk_full", message).retry(Retry::After(5))
            }
            UploadError::Failed(_) => {
                tracing::error!(error = %Chain(&error), "an upload was not kept");
                Self::unavailable(
                    "upload_failed",
                    "the server could not keep the archive; try again",
                )
            }
        }
    }
}
