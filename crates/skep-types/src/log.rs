//! Entries of a sandbox's log.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// Something a sandbox logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The time at which it was logged.
    pub at: Timestamp,
    /// The severity.
    pub level: LogLevel,
    /// The text.
    pub message: String,
    /// Details, such as the id of the process that wrote it.
    pub fields: BTreeMap<String, String>,
}

/// The severity of a log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Helps to find a fault.
    Debug,
    /// As expected.
    Info,
    /// Unexpected.
    Warn,
    /// Wrong.
    Error,
}
