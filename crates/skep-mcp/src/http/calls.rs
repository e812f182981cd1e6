//! Tools that work at the same time, counted by team.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Numbers of the teams that have some.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts(Arc<Mutex<HashMap<String, usize>>>);

/// The share of one team.
#[derive(Debug, Clone)]
pub(crate) struct Calls {
    counts: Counts,
    team: Arc<str>,
    limit: usize,
}

/// A tool that works, until it is dropped.
#[derive(Debug)]
pub(crate) struct CallPermit(Calls);

impl Counts {
    pub(super) fn of(&self, team: &str, limit: usize) -> Calls {
        Calls {
            counts: self.clone(),
            team: team.into(),
            limit,
        }
    }
}

impl Calls {
    /// The team.
    pub(crate) fn team(&self) -> Arc<str> {
        Arc::clone(&self.team)
    }

    /// Counts one more; `None` if there are too many.
    pub(crate) fn begin(&self) -> Option<CallPermit> {
        let mut counts = self.counts.0.lock();
        let count = counts.entry(self.team.to_string()).or_default();
        if *count >= self.limit {
            return None;
        }
        *count += 1;
        Some(CallPermit(self.clone()))
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let mut counts = self.0.counts.0.lock();
        if let Some(count) = counts.get_mut(&*self.0.team) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&*self.0.team);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_has_its_share_and_gives_it_back() {
        let counts = Counts::default();
        let (a, b) = (counts.of("a", 1), counts.of("b", 1));
        let place = a.begin();
        assert!(place.is_some() && a.begin().is_none() && b.begin().is_some());
        drop(place);
        assert!(a.begin().is_some());
        assert!(
            counts.0.lock().is_empty(),
            "nothing is kept of who has none"
        );
    }
}
