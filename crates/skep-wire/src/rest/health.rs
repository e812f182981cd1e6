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

/// A problem of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthProblem {
    /// A stable name, for programs.
    pub code: String,
    /// Explanation for people.
    pub message: String,
}
