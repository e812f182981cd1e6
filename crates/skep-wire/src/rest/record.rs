//! `GET /skep/sandboxes`, which is ours alone: sandboxes with how they ended and what they used.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A sandbox, living or ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxRecord {
    /// Its id.
    #[serde(rename = "sandboxID")]
    pub sandbox_id: String,
    /// Its template's id.
    #[serde(rename = "templateID")]
    pub template_id: String,
    /// The first name of its template.
    pub alias: String,
    /// Where it is in its life.
    pub state: SandboxRecordState,
    /// When it was ordered.
    pub created_at: Timestamp,
    /// When it became ready; absent if it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Timestamp>,
    /// When it ends, or ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_at: Option<Timestamp>,
    /// Why it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<String>,
    /// What it had used when it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<SandboxUsage>,
    /// Processors.
    pub cpu_count: u32,
    /// Memory in MiB.
    #[serde(rename = "memoryMB")]
    pub memory_mb: u32,
    /// Disk in MiB.
    #[serde(rename = "diskSizeMB")]
    pub disk_size_mb: u32,
    /// What its owner wrote on it.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// Where a sandbox is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SandboxRecordState {
    /// Being launched.
    Starting,
    /// Reachable.
    Running,
    /// Kept, not running.
    Paused,
    /// Being killed.
    Stopping,
    /// Killed and out of reach, but something of it could not be removed yet.
    Stuck,
    /// Gone.
    Ended,
}

/// What a sandbox used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxUsage {
    /// Processor time.
    pub cpu_seconds: f64,
    /// The most memory ever in use.
    pub memory_peak_bytes: u64,
    /// Memory in use on average.
    #[serde(default)]
    pub memory_average_bytes: u64,
    /// What it had written and still held.
    pub disk_bytes: u64,
    /// What it read from its disk.
    #[serde(default)]
    pub disk_read_bytes: u64,
    /// What it wrote to its disk.
    #[serde(default)]
    pub disk_written_bytes: u64,
    /// What came to it over the network.
    #[serde(default)]
    pub received_bytes: u64,
    /// What it sent over the network.
    #[serde(default)]
    pub sent_bytes: u64,
    /// How often the kernel killed inside it for lack of memory.
    pub out_of_memory_kills: u64,
}
