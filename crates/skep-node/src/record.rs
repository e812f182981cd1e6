//! The part of a driver that a restarted server needs to drive a living sandbox again.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use skep_isolation::LaunchRecord;
use skep_types::{AccessToken, EndReason, ExecutionId, Redacted, SandboxRun, SandboxStatus};

use crate::clock::Deadline;

/// The part of a driver's state that must outlive the server.
#[derive(Debug, Clone)]
pub(crate) struct DriverRecord {
    pub(crate) execution: ExecutionId,
    pub(crate) launch: LaunchRecord,
    pub(crate) access_token: Option<AccessToken>,
    pub(crate) control_token: Redacted<String>,
    pub(crate) deadline: Deadline,
    /// Reason for which it is being ended, from before anything of it is removed.
    pub(crate) ending: Option<EndReason>,
}

/// The text form. Its own type, so that a renamed field elsewhere does not orphan sandboxes.
#[derive(Serialize, Deserialize)]
struct Written {
    execution: String,
    launch: String,
    access_token: Option<String>,
    control_token: String,
    deadline_since_boot_ns: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ending: Option<String>,
}

/// A record this version cannot read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("cannot parse the driver record")]
    Parse(#[source] serde_json::Error),
    #[error("driver record has a bad execution id")]
    Execution(#[source] skep_types::IdError),
    #[error("driver record has an unknown reason: {0}")]
    Reason(String),
}

impl DriverRecord {
    /// The run that the journal is to keep of a sandbox with this status.
    pub(crate) fn run(&self, status: &SandboxStatus) -> SandboxRun {
        SandboxRun {
            execution: self.execution,
            launch_record: self.to_text(),
            started_at: status.started_at,
            ends_at: self.deadline.wall,
        }
    }

    pub(crate) fn to_text(&self) -> String {
        let written = Written {
            execution: self.execution.to_string(),
            launch: self.launch.0.clone(),
            access_token: self
                .access_token
                .as_ref()
                .map(|token| token.reveal().to_owned()),
            control_token: self.control_token.reveal().clone(),
            deadline_since_boot_ns: u64::try_from(self.deadline.since_boot().as_nanos())
                .unwrap_or(u64::MAX),
            ending: self.ending.map(|reason| reason.to_string()),
        };
        serde_json::to_string(&written).expect("strings and numbers serialise")
    }

    pub(crate) fn from_text(text: &str, ends_at: Timestamp) -> Result<Self, ReadError> {
        let written: Written = serde_json::from_str(text).map_err(ReadError::Parse)?;
        let since_boot = Duration::from_nanos(written.deadline_since_boot_ns);
        Ok(Self {
            execution: written.execution.parse().map_err(ReadError::Execution)?,
            launch: LaunchRecord(written.launch),
            access_token: written
                .access_token
                .as_deref()
                .map(AccessToken::from_record),
            control_token: Redacted::new(written.control_token),
            deadline: Deadline::restored(since_boot, ends_at),
            ending: written
                .ending
                .map(|reason| reason.parse())
                .transpose()
                .map_err(ReadError::Reason)?,
        })
    }
}
