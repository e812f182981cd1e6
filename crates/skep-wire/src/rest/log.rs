//! What sandboxes said.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// How much an entry matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For whoever looks for a fault.
    Debug,
    /// As expected.
    Info,
    /// Odd.
    Warn,
    /// Wrong.
    Error,
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogEntry {
    /// When.
    pub timestamp: Timestamp,
    /// What.
    pub message: String,
    /// How much it matters.
    pub level: LogLevel,
    /// More about it.
    pub fields: BTreeMap<String, String>,
}

/// One entry for clients of the first generation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogLine {
    /// When.
    pub timestamp: Timestamp,
    /// A flat JSON object as text. The official CLI parses it and wants a `level` in it.
    pub line: String,
}

/// `GET /sandboxes/{id}/logs`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Logs {
    /// The oldest first.
    pub logs: Vec<LogLine>,
    /// The same in parts.
    pub log_entries: Vec<LogEntry>,
}

/// `GET /v2/sandboxes/{id}/logs`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogsV2 {
    /// In the order asked for.
    pub logs: Vec<LogEntry>,
}
