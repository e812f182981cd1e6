//! `GET /skep/sandboxes`, which is ours alone: sandboxes with how they ended and what they used.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A sandbox, living or ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxRecord {
    /// Unique id of the sandbox.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// Its template's id.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// The first name of its template.
    pub alias: String,
    /// Stage in the sandbox's life.
    pub state: SandboxRecordState,
    /// Time at which it was ordered.
    pub created_at: Timestamp,
    /// Time at which it became ready; absent if it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// Time at which it ends, or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_at: Option<Timestamp>,
    /// Reason of its end, as a word for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<String>,
    /// Resources that it had used when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<SandboxUsage>,
    /// Number of processors.
    pub cpu_count: u32,
    /// Memory in MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Disk in MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// Key-value pairs that its owner attached.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// Stage in a sandbox's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxRecordState {
    /// It is being launched.
    Starting,
    /// It runs and can be reached.
    Running,
    /// Kept, not running.
    Paused,
    /// It is being killed.
    Stopping,
    /// Killed and out of reach, but something of it could not be removed yet.
    Stuck,
    /// It is gone.
    Ended,
}

/// Resources that a sandbox used in its life.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxUsage {
    /// Processor time of all its processes.
    pub cpu_seconds: f64,
    /// The most memory ever in use.
    pub memory_peak_bytes: u64,
    /// Memory in use on average.
    #[serde(default)]
    pub memory_average_bytes: u64,
    /// Space on its disk that it had written and still held.
    pub disk_bytes: u64,
    /// Bytes read from its disk.
    #[serde(default)]
    pub disk_read_bytes: u64,
    /// Bytes written to its disk.
    #[serde(default)]
    pub disk_written_bytes: u64,
    /// Bytes received over the network.
    #[serde(default)]
    pub received_bytes: u64,
    /// Bytes sent over the network.
    #[serde(default)]
    pub sent_bytes: u64,
    /// Number of its processes that the OOM killer took.
    pub out_of_memory_kills: u64,
}
