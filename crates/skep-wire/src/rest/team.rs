//! Teams and their keys.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A team, as its member sees it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Team {
    /// Its id.
    #[serde(rename = "teamID")]
    pub team_id: String,
    /// What people call it.
    pub name: String,
    /// A key that works for it.
    pub api_key: String,
    /// Whether it is meant when no team is named.
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

/// What may be shown of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyMask {
    /// What every key begins with.
    pub prefix: String,
    /// How many characters follow.
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
    /// Its id.
    pub id: String,
    /// What people call it.
    pub name: String,
    /// What may be shown of it.
    pub mask: KeyMask,
    /// Since when it is there.
    pub created_at: Timestamp,
    /// When it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
}

/// A key at the only moment when it is known in full.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreatedApiKey {
    /// The key itself.
    pub key: String,
    /// What will be known of it later.
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
    /// What people will call it.
    pub name: String,
}
