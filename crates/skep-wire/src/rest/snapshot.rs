//! Snapshots, forks and the way back.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Error, Sandbox};

/// Body of `POST /sandboxes/{id}/snapshots`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSnapshot {
    /// Name, with a tag after a colon if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `false` keeps the files of the sandbox alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<bool>,
}

/// A snapshot, which is a template.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Snapshot {
    /// Reference by which sandboxes are made of it.
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,
    /// Its names, with the namespace of its team.
    pub names: Vec<String>,
    /// Id of the checkpoint; ours.
    #[serde(rename = "checkpointID")]
    pub checkpoint_id: String,
    /// Id of the checkpoint before it in the history of its sandbox; ours.
    #[serde(rename = "parentID", default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// Sandbox that it was taken of; ours.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// True if the memory is in it; ours.
    pub memory: bool,
    /// Space that it takes; ours.
    pub size_bytes: u64,
    /// Time at which it was taken; ours.
    pub created_at: Timestamp,
    /// True in the history of a sandbox for the one that it was made of, put back to, or that was taken
    /// at last; ours.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_current: Option<bool>,
}

/// Body of `POST /sandboxes/{id}/fork`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// Seconds to live of each copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Number of copies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i64>,
}

/// A copy of a sandbox, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(
    clippy::large_enum_variant,
    reason = "there are at most a hundred of them, and nearly all are copies"
)]
pub enum ForkedSandbox {
    /// The copy.
    Sandbox(Sandbox),
    /// The reason.
    Error(Error),
}

/// Body of `POST /skep/sandboxes/{id}/rollback`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollback {
    /// The snapshot to go back to.
    #[serde(rename = "snapshotID")]
    pub snapshot_id: String,
    /// Seconds to live of a sandbox that is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
}
