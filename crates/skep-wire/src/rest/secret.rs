//! Secrets of a team.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Body of `POST /secrets`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSecret {
    /// Name, unique in the team.
    pub name: String,
    /// The secret itself.
    pub value: String,
    /// Key-value pairs that are not secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

impl std::fmt::Debug for NewSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("NewSecret")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Body of `POST /secrets/{selector}`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateSecret {
    /// The new value.
    pub value: String,
    /// Key-value pairs that replace those it has; absent keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
}

impl std::fmt::Debug for UpdateSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("UpdateSecret")
            .finish_non_exhaustive()
    }
}

/// A secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Secret {
    /// Unique id.
    #[serde(rename = "secretID")]
    pub secret_id: String,
    /// Name, in lower case.
    pub name: String,
    /// Number of values that it has had.
    pub current_version: u32,
    /// Key-value pairs that are not secret.
    pub metadata: BTreeMap<String, String>,
    /// Time of its creation.
    pub created_at: Timestamp,
    /// Time of its last value.
    pub updated_at: Timestamp,
}
