//! Opening the web console. All of it is ours.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A ticket that opens the console once, for whoever brings it first.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleTicket {
    /// The ticket itself.
    pub ticket: String,
    /// Time from which on it opens nothing.
    pub expires_at: Timestamp,
}

impl std::fmt::Debug for ConsoleTicket {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ConsoleTicket")
            .field("expires_at", &self.expires_at)
            .finish_non_exhaustive()
    }
}

/// A request for a key in exchange for a ticket.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewConsoleSession {
    /// The ticket.
    pub ticket: String,
}

impl std::fmt::Debug for NewConsoleSession {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("NewConsoleSession")
            .finish_non_exhaustive()
    }
}

/// The team of a console.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleTeam {
    /// Unique id of the team.
    #[serde(rename = "teamID")]
    pub team_id: String,
    /// Name for people.
    pub name: String,
}

/// The key of a browser in which the console was opened.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsoleSession {
    /// An API key, which is listed and revoked like all others.
    pub api_key: String,
    /// Time from which on it opens nothing.
    pub expires_at: Timestamp,
    /// The team that it is a key of.
    pub team: ConsoleTeam,
}

impl std::fmt::Debug for ConsoleSession {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ConsoleSession")
            .field("expires_at", &self.expires_at)
            .field("team", &self.team)
            .finish_non_exhaustive()
    }
}
