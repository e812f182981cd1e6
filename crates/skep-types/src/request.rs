//! Requests of a sandbox to the web, as they are told to its owner.

use jiff::Timestamp;

/// One request of a sandbox that the egress proxy has passed on or refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedRequest {
    /// Its place among the requests of this run of the sandbox, from 1.
    pub number: u64,
    /// The time at which it had ended.
    pub at: Timestamp,
    /// Name of the host that was asked for, if there was one.
    pub host: Option<String>,
    /// Port of the host.
    pub port: u16,
    /// Method, where it is seen.
    pub method: Option<String>,
    /// Path without the query, where it is seen.
    pub path: Option<String>,
    /// Status of the answer, where it is seen.
    pub status: Option<u16>,
    /// Bytes that the sandbox sent.
    pub sent: u64,
    /// Bytes that came back.
    pub received: u64,
    /// Rule that allowed it, in its owner's words.
    pub rule: Option<String>,
    /// Reason for which it was refused, or did not come about.
    pub refusal: Option<String>,
}
