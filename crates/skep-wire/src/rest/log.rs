//! Logs of sandboxes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Severity of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Detail that helps to find a fault.
    Debug,
    /// Normal course of events.
    Info,
    /// Unexpected event that was handled.
    Warn,
    /// Failure of something that was asked for.
    Error,
}

/// One entry in a sandbox's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// Time of the event.
    pub timestamp: Timestamp,
    /// Text for people.
    pub message: String,
    /// Severity of the event.
    pub level: LogLevel,
    /// Further data about the event, by name.
    pub fields: BTreeMap<String, String>,
}

/// One entry for clients of the first generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// Time of the event.
    pub timestamp: Timestamp,
    /// A flat JSON object as text. The official CLI parses it and wants a `level` in it.
    pub line: String,
}

/// Answer of `GET /sandboxes/{id}/logs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Logs {
    /// The oldest first.
    pub logs: Vec<LogLine>,
    /// The same in parts.
    pub log_entries: Vec<LogEntry>,
}

/// Answer of `GET /v2/sandboxes/{id}/logs`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogsV2 {
    /// Entries in the order asked for.
    pub logs: Vec<LogEntry>,
}

/// A request of a sandbox that its egress proxy has passed on or refused. Only Skep has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SandboxRequest {
    /// Its place among the requests of this run of the sandbox, from 1.
    pub number: u64,
    /// The time at which it had ended.
    pub timestamp: Timestamp,
    /// Name of the host that was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Port of the host.
    pub port: u16,
    /// Method; missing where it is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path without the query; missing where it is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Status of the answer; missing where it is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// Bytes that the sandbox sent.
    pub sent_bytes: u64,
    /// Bytes that came back.
    pub received_bytes: u64,
    /// Rule that allowed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Reason for which it was refused, or did not come about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}
