//! Limits of teams.

use std::time::Duration;

use skep_store::Team;

/// Limits of one team.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TeamLimits {
    /// Sandboxes at a time.
    pub sandboxes: u32,
    /// Limit on the lifetime of one sandbox without a pause.
    pub lifetime: Duration,
}

impl TeamLimits {
    /// The limits of `team`: its own, or else these.
    pub(crate) fn of(self, team: &Team) -> Self {
        Self {
            sandboxes: team.max_sandboxes.unwrap_or(self.sandboxes),
            lifetime: team.max_lifetime.unwrap_or(self.lifetime),
        }
    }
}

impl Default for TeamLimits {
    fn default() -> Self {
        Self {
            sandboxes: 1000,
            lifetime: Duration::from_hours(24),
        }
    }
}
