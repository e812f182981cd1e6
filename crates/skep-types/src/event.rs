//! Events of sandboxes, as they are told to their owners.

use std::str::FromStr;

/// Something that happened to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// It runs for the first time.
    Created,
    /// It is paused.
    Paused,
    /// It runs again.
    Resumed,
    /// Its deadline was changed, or the rules for what leaves it.
    Updated,
    /// A checkpoint of it was taken: for a snapshot or for copies.
    Checkpointed,
    /// It ended, for whatever reason.
    Killed,
}

impl EventKind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Created,
        Self::Paused,
        Self::Resumed,
        Self::Updated,
        Self::Checkpointed,
        Self::Killed,
    ];

    /// The stable word of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Paused => "paused",
            Self::Resumed => "resumed",
            Self::Updated => "updated",
            Self::Checkpointed => "checkpointed",
            Self::Killed => "killed",
        }
    }
}

impl FromStr for EventKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| text.to_owned())
    }
}
