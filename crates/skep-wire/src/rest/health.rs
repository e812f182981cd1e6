//! `GET /health`, for those who ask for JSON.

use serde::{Deserialize, Serialize};

/// How the server is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// In a word.
    pub status: HealthStatus,
    /// What is wrong. Only the operator is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problems: Option<Vec<HealthProblem>>,
}

/// How the server is, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthStatus {
    /// All is well.
    Ok,
    /// It answers, and somebody should see to it.
    Degraded,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthProblem {
    /// A stable name, for programs.
    pub code: String,
    /// What is wrong, for people.
    pub message: String,
}
