//! Teams and their keys.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A team, as its member sees it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Team {
    /// Unique id of the team.
    #[serde(rename = "teamID")]
    pub team_id: String,
    /// Name for people.
    pub name: String,
    /// A key that works for it.
    pub api_key: String,
    /// True for the team that is meant when none is named.
    pub is_default: bool,
}

impl std::fmt::Debug for Team {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Team")
            .field("team_id", &self.team_id)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The parts of a key that may be shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyMask {
    /// Prefix that all keys have.
    pub prefix: String,
    /// Number of characters after the prefix.
    pub value_length: u32,
    /// The first of them.
    pub masked_value_prefix: String,
    /// The last of them.
    pub masked_value_suffix: String,
}

/// A key in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiKey {
    /// Unique id of the key, which is not the key itself.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// The parts of it that may be shown.
    pub mask: KeyMask,
    /// Time at which it was made.
    pub created_at: Timestamp,
    /// Time at which it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
    /// Ours: time from which on it opens nothing, if it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// A key at the only moment when it is known in full.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedApiKey {
    /// The key itself.
    pub key: String,
    /// The fields that lists have too.
    #[serde(flatten)]
    pub listed: ApiKey,
}

impl std::fmt::Debug for CreatedApiKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CreatedApiKey")
            .field("listed", &self.listed)
            .finish_non_exhaustive()
    }
}

/// `POST /api-keys` and `PATCH /api-keys/{id}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiKeyName {
    /// Name for people.
    pub name: String,
}
