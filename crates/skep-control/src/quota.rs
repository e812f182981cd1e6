//! Counters per team, with limits: of sandboxes, from reservation to end, or of requests.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use skep_types::TeamId;

type Counts = HashMap<TeamId, u32>;

/// Counters of teams. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Quota {
    counts: Arc<Mutex<Counts>>,
}

/// One that is counted for a team, until this is dropped.
#[derive(Debug)]
pub struct QuotaGuard {
    quota: Quota,
    team: TeamId,
}

/// The team has as many as it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl Quota {
    /// Counts one more, of which a team may have `limit`.
    ///
    /// # Errors
    ///
    /// [`Full`] if the team has them all.
    pub fn take(&self, team: &TeamId, limit: u32) -> Result<QuotaGuard, Full> {
        let mut counts = self.counts.lock();
        let count = counts.entry(team.clone()).or_default();
        if *count >= limit {
            return Err(Full);
        }
        *count += 1;
        Ok(self.guard(team))
    }

    /// Counts one beyond every limit: a sandbox that already runs.
    pub(crate) fn take_anyway(&self, team: &TeamId) -> QuotaGuard {
        *self.counts.lock().entry(team.clone()).or_default() += 1;
        self.guard(team)
    }

    /// Number that is counted for a team.
    pub(crate) fn count(&self, team: &TeamId) -> u32 {
        self.counts.lock().get(team).copied().unwrap_or_default()
    }

    fn guard(&self, team: &TeamId) -> QuotaGuard {
        QuotaGuard {
            quota: self.clone(),
            team: team.clone(),
        }
    }
}

impl Drop for QuotaGuard {
    fn drop(&mut self) {
        let mut counts = self.quota.counts.lock();
        if let Some(count) = counts.get_mut(&self.team) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.team);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_guard_makes_room_again_and_teams_do_not_share() {
        let quota = Quota::default();
        let (ours, theirs) = (TeamId::random(), TeamId::random());
        let first = quota.take(&ours, 2).unwrap();
        let _second = quota.take(&ours, 2).unwrap();
        assert_eq!(quota.take(&ours, 2).unwrap_err(), Full);
        let _other = quota.take(&theirs, 1).unwrap();
        drop(first);
        let _again = quota.take(&ours, 2).unwrap();
        assert_eq!(quota.take(&ours, 2).unwrap_err(), Full);
    }

    #[test]
    fn sandboxes_that_already_run_count_even_beyond_the_limit() {
        let quota = Quota::default();
        let team = TeamId::random();
        let adopted: Vec<_> = (0..3).map(|_| quota.take_anyway(&team)).collect();
        assert_eq!(quota.take(&team, 2).unwrap_err(), Full);
        drop(adopted);
        assert!(quota.counts.lock().is_empty());
    }
}
