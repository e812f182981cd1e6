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
