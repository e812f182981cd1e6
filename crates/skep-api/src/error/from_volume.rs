//! Failures of requests about volumes.

use axum::http::StatusCode;
use skep_control::{InvalidMounts, NO_BUCKETS, VolumeError, VolumeRequestError};
use skep_telemetry::Chain;
use skep_types::{SandboxId, VolumeName};

use super::{ApiError, Retry};

/// Number of sandboxes that an answer names.
const NAMED: usize = 10;

impl From<VolumeRequestError> for ApiError {
    fn from(error: VolumeRequestError) -> Self {
        match error {
            VolumeRequestError::Blocked(error) => error.into(),
            VolumeRequestError::Record(error) => error.into(),
            VolumeRequestError::NotFound => Self::not_found("volume_not_found", "Volume not found"),
            VolumeRequestError::NameTaken(name) => Self::bad_request(
                "volume_exists",
                format!("Volume with name '{name}' already exists"),
            ),
            VolumeRequestError::QuotaReached { limit } => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "too_many_volumes",
                format!(
                    "you have reached the limit of {limit} volumes; delete one, or ask the \
                     operator for more"
                ),
            )
            .retry(Retry::Never),
            VolumeRequestError::Size { limit } => Self::bad_request(
                "invalid_volume_size",
                format!("the size of a volume is 1 to {limit} MB"),
            ),
            VolumeRequestError::InUse { by } => {
                Self::new(StatusCode::CONFLICT, "volume_in_use", in_use(&by))
            }
            VolumeRequestError::Backend(VolumeError::NoRoom(_)) => Self::unavailable(
                "server_disk_full",
                "the server's disk has no room for it; try again later",
            )
            .retry(Retry::After(5)),
            VolumeRequestError::Backend(_) | VolumeRequestError::BrokeOff => {
                tracing::error!(error = %Chain(&error), "request about a volume failed");
                Self::internal("the server could not do it; its log says why")
            }
        }
    }
}

fn in_use(by: &[SandboxId]) -> String {
    let named: Vec<_> = by.iter().take(NAMED).map(ToString::to_string).collect();
    let more = match by.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    match named.len() {
        0 => "the volume is being given to a sandbox; try again in a moment".to_owned(),
        _ => format!(
            "the volume is in use by {}{more}; kill them first (paused ones count)",
            named.join(", ")
        ),
    }
}

impl ApiError {
    /// A volume in a bucket, or anywhere but on the server's disk.
    pub(crate) fn elsewhere(place: &str) -> Self {
        let message = format!(
            "'{place}' cannot be a volume: volumes are on the server's own disk; {NO_BUCKETS}"
        );
        Self::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", message)
    }

    /// A sandbox that stays paused, because volumes of it have lost their files.
    pub(super) fn lost_volumes(id: &SandboxId, volumes: &[VolumeName]) -> Self {
        let named: Vec<_> = volumes.iter().map(|name| format!("'{name}'")).collect();
        let message = format!(
            "Sandbox '{id}' stays paused: the server has lost the files of its volume {}; ask the \
             operator to put them back, or kill the sandbox",
            named.join(", ")
        );
        Self::new(StatusCode::CONFLICT, "volume_lost", message)
    }
}

impl From<InvalidMounts> for ApiError {
    fn from(error: InvalidMounts) -> Self {
        Self::bad_request("invalid_mounts", error.to_string())
    }
}
