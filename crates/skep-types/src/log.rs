//! Entries of a sandbox's log.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// One entry of a sandbox's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogEntry {
    /// The time at which it was logged.
    pub at: Timestamp,
    /// Severity of the event.
    pub level: LogLevel,
    /// Text for people.
    pub message: String,
    /// Details, such as the id of the process that wrote it.
    pub fields: BTreeMap<String, String>,
}

/// The severity of a log entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Helps to find a fault.
    Debug,
    /// Normal course of events.
    Info,
    /// Unexpected event that was handled.
    Warn,
    /// Failure of something that was asked for.
    Error,
}
