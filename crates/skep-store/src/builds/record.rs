//! Rows of builds.

use jiff::Timestamp;
use rusqlite::{Connection, Row};
use skep_types::{BuildFailure, BuildId, BuildOrder, Resources, TeamId, TemplateId};

use super::{encoding, log};
use crate::column;

/// State of a build.
///
/// ```text
/// Waiting ──start──► Building ──► Ready
///    └───────────────────┴──────► Error
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildStatus {
    /// Requested, not started.
    Waiting,
    /// It is being carried out.
    Building,
    /// It can be used.
    Ready,
    /// It has failed, or was ended.
    Error,
}

/// The text is no state of a build.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no state of a build")]
pub struct StatusError(String);

impl std::str::FromStr for BuildStatus {
    type Err = StatusError;

    fn from_str(text: &str) -> Result<Self, StatusError> {
        match text {
            "waiting" => Ok(Self::Waiting),
            "building" => Ok(Self::Building),
            "ready" => Ok(Self::Ready),
            "error" => Ok(Self::Error),
            other => Err(StatusError(other.to_owned())),
        }
    }
}

/// A build as the database has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildRecord {
    /// Id of the build.
    pub id: BuildId,
    /// Template that it is a version of.
    pub template: TemplateId,
    /// Team that ordered it.
    pub team: TeamId,
    /// State of the build.
    pub status: BuildStatus,
    /// Limits of the sandboxes that are made of it.
    pub resources: Resources,
    /// Reason of its failure, if it has failed.
    pub failure: Option<BuildFailure>,
    /// Bytes that it takes on the disk beyond its base, if it is ready.
    pub bytes: Option<u64>,
    /// Id of what is in it, if it is ready.
    pub content: Option<String>,
    /// Time of the request.
    pub created_at: Timestamp,
    /// Time of the start.
    pub started_at: Option<Timestamp>,
    /// Time of its end, good or bad.
    pub ended_at: Option<Timestamp>,
}

impl BuildRecord {
    /// Time of the last change.
    pub fn updated_at(&self) -> Timestamp {
        self.ended_at.or(self.started_at).unwrap_or(self.created_at)
    }
}

/// The outcome of a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartOutcome {
    /// It is to be carried out.
    Started(StartedBuild),
    /// The same request has started it before.
    Repeated,
    /// Another request has started it, or it has failed.
    NotWaiting,
    /// The template has no such build.
    Unknown,
    /// The team runs as many builds as it may.
    TooMany,
}

/// A build that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedBuild {
    /// Builds that ran, and that it takes the place of.
    pub cancelled: Vec<BuildId>,
}

/// A build that ran when its server died.
#[derive(Debug, Clone)]
pub struct UnfinishedBuild {
    /// Id of the build.
    pub build: BuildId,
    /// The order without credentials, if it can be read.
    pub order: Option<BuildOrder>,
    /// True if it had credentials, which are not kept.
    pub had_credentials: bool,
}

pub(super) fn read(row: &Row<'_>) -> rusqlite::Result<BuildRecord> {
    let failure: Option<String> = row.get("failure")?;
    let phase: Option<String> = row.get("failure_phase")?;
    let bytes: Option<i64> = row.get("bytes")?;
    let result: Option<String> = row.get("result")?;
    let built = result
        .map(|text| encoding::decode_result(&text, 0))
        .transpose()
        .map_err(|error| column::unreadable("result", error))?;
    Ok(BuildRecord {
        id: column::parsed(row, "id")?,
        template: column::parsed(row, "template")?,
        team: column::parsed(row, "team")?,
        status: column::parsed(row, "status")?,
        resources: read_resources(row)?,
        failure: failure.map(|message| BuildFailure {
            phase: phase.as_deref().and_then(log::phase_of),
            message,
        }),
        bytes: bytes.and_then(|bytes| u64::try_from(bytes).ok()),
        content: built.map(|built| built.image.content_id()),
        created_at: column::time(row, "created_at")?,
        started_at: column::optional_time(row, "started_at")?,
        ended_at: column::optional_time(row, "ended_at")?,
    })
}

pub(crate) fn read_resources(row: &Row<'_>) -> rusqlite::Result<Resources> {
    Ok(Resources {
        cpus: row.get("cpus")?,
        memory_mib: row.get("memory_mib")?,
        disk_mib: row.get("disk_mib")?,
        pids: row.get("pids")?,
    })
}

pub(super) fn unfinished(connection: &Connection) -> rusqlite::Result<Vec<UnfinishedBuild>> {
    connection
        .prepare_cached("SELECT * FROM builds WHERE status = 'building' ORDER BY started_at")?
        .query_map([], |row| {
            let record = read(row)?;
            let ordered: Option<String> = row.get("ordered")?;
            Ok(UnfinishedBuild {
                build: record.id,
                order: ordered.and_then(|text| encoding::decode_order(&text, &record).ok()),
                had_credentials: row.get("had_secrets")?,
            })
        })?
        .collect()
}
