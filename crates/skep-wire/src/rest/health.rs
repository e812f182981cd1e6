//! `GET /health`, for those who ask for JSON.

use serde::{Deserialize, Serialize};

/// Health of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// Summary for programs.
    pub status: HealthStatus,
    /// List of the problems. Only the operator is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problems: Option<Vec<HealthProblem>>,
}

/// Summary of the server's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// All is well.
    Ok,
    /// It answers, and somebody should see to it.
    Degraded,
}

/// Result of one check of the host, as `skep doctor` makes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCheck {
    /// Subject of the check.
    pub name: String,
    /// Consequence for sandboxes.
    pub status: HostCheckStatus,
    /// Result, for people.
    pub detail: String,
    /// Remedy, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cure: Option<String>,
}

/// Consequence of a check's result for sandboxes on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostCheckStatus {
    /// The host is as it should be.
    Ok,
    /// Sandboxes run, but something is weaker or slower.
    Limited,
    /// Sandboxes do not run on the host as it is.
    Missing,
}

/// A problem of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthProblem {
    /// A stable name, for programs.
    pub code: String,
    /// Explanation for people.
    pub message: String,
}
