//! Limits of teams.

use std::time::Duration;

use skep_store::Team;
use skep_types::Resources;

/// Limits of one team.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TeamLimits {
    /// Sandboxes at a time.
    pub sandboxes: u32,
    /// Paused sandboxes that do not count among these; `None` is as many again.
    pub paused: Option<u32>,
    /// Limit on the lifetime of one sandbox without a pause.
    pub lifetime: Duration,
    /// Snapshots that are kept.
    pub snapshots: u32,
    /// Space that they may take; one that is taken below that limit may go beyond it.
    pub snapshot_bytes: u64,
    /// Volumes that exist, mounted or not.
    pub volumes: u32,
    /// Largest size of a volume, and that of one for which none is asked.
    pub volume_mib: u32,
    /// Builds at a time.
    pub builds: u32,
    /// Largest limits of the sandboxes of a template.
    pub largest: Resources,
}

impl TeamLimits {
    /// The limits of `team`: its own, or else these.
    pub(crate) fn of(self, team: &Team) -> Self {
        Self {
            sandboxes: team.max_sandboxes.unwrap_or(self.sandboxes),
            lifetime: team.max_lifetime.unwrap_or(self.lifetime),
            ..self
        }
    }

    /// Number of paused sandboxes that do not count among those that run.
    pub fn most_paused(&self) -> u32 {
        self.paused.unwrap_or(self.sandboxes)
    }
}

impl Default for TeamLimits {
    fn default() -> Self {
        Self {
            sandboxes: 1000,
            paused: None,
            lifetime: Duration::from_hours(24),
            snapshots: 1000,
            snapshot_bytes: 100 << 30,
            volumes: 100,
            volume_mib: 10 * 1024,
            builds: 20,
            largest: Resources {
                cpus: 32,
                memory_mib: 64 * 1024,
                disk_mib: 100 * 1024,
                pids: 4096,
            },
        }
    }
}
