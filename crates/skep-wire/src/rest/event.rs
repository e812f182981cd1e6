//! Events of sandboxes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Beginning of the types of events.
pub const EVENT_TYPE_PREFIX: &str = "sandbox.lifecycle.";

/// All types of events, without their prefix.
pub const EVENT_TYPES: [&str; 6] = [
    "created",
    "paused",
    "resumed",
    "updated",
    "checkpointed",
    "killed",
];

/// Something that happened to a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxEvent {
    /// Unique id, a UUID. What comes twice has the same.
    pub id: String,
    /// Version of this shape.
    pub version: String,
    /// Kind of the event: `sandbox.lifecycle.` and a word.
    #[serde(rename = "type")]
    pub kind: String,
    /// Time at which it happened.
    pub timestamp: Timestamp,
    /// The word before the last of the type.
    pub event_category: String,
    /// The last word of the type.
    pub event_label: String,
    /// Details of the event.
    pub event_data: SandboxEventData,
    /// The sandbox.
    pub sandbox_id: String,
    /// Its run at the time.
    pub sandbox_execution_id: String,
    /// Its template.
    pub sandbox_template_id: String,
    /// The build of its template.
    pub sandbox_build_id: String,
    /// Its team.
    pub sandbox_team_id: String,
}

/// Details of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxEventData {
    /// Key-value pairs of the sandbox.
    pub sandbox_metadata: BTreeMap<String, String>,
    /// The run that a pause or an end has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub execution: Option<SandboxExecution>,
    /// Reason of an end, in the contract's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kill_reason: Option<String>,
    /// Reason of an end, in ours, which tell more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_reason: Option<String>,
    /// The new deadline, if it was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_timeout: Option<Timestamp>,
    /// The new rules for what leaves it, if they were changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_egress: Option<SandboxEventNetwork>,
}

/// Network rules of a sandbox since its owner has changed them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxEventNetwork {
    /// Addresses and ranges that it may reach, whatever is denied.
    pub allowed_cidrs: Vec<String>,
    /// Addresses and ranges that it may not.
    pub denied_cidrs: Vec<String>,
    /// Hosts that it may reach by name.
    pub allowed_domains: Vec<String>,
}

/// A run of a sandbox that is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxExecution {
    /// Time at which it began.
    pub started_at: Timestamp,
    /// Processors that it could use.
    pub vcpu_count: u32,
    /// Memory that it could use, in MiB.
    pub memory_mb: u32,
    /// Its length in milliseconds.
    pub execution_time: i64,
}
