//! The sandboxes that live, by team.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use skep_store::Order;
use skep_types::{SandboxId, TeamId};

use crate::metrics::History;
use crate::quota::QuotaGuard;

/// Control's entry of a living sandbox. Its phase is known to its node alone.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) order: Arc<Order>,
    /// Samples of its usage, taken when somebody asked.
    pub(crate) history: Mutex<History>,
    /// One sandbox of the team's quota, while it is not paused.
    quota: Mutex<Option<QuotaGuard>>,
}

impl Entry {
    pub(crate) fn new(order: Order, quota: Option<QuotaGuard>) -> Self {
        Self {
            order: Arc::new(order),
            history: Mutex::default(),
            quota: Mutex::new(quota),
        }
    }

    /// Counts the sandbox for its team, or no longer. Paused ones do not count.
    pub(crate) fn set_quota(&self, quota: Option<QuotaGuard>) {
        let replaced = std::mem::replace(&mut *self.quota.lock(), quota);
        drop(replaced);
    }

    pub(crate) fn is_counted(&self) -> bool {
        self.quota.lock().is_some()
    }
}

/// A look-up takes the team, so that nobody finds what another team has.
///
/// It holds at most as many entries as all teams together may have sandboxes: ended ones are
/// dropped when somebody comes across them, at the latest when the quota looks full.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    /// Held only for a look-up or a change of the maps.
    teams: Mutex<HashMap<TeamId, HashMap<SandboxId, Arc<Entry>>>>,
}

impl Registry {
    pub(crate) fn insert(&self, entry: Entry) -> Arc<Entry> {
        let entry = Arc::new(entry);
        let order = &entry.order;
        self.teams
            .lock()
            .entry(order.team.clone())
            .or_default()
            .insert(order.id.clone(), Arc::clone(&entry));
        entry
    }

    pub(crate) fn find(&self, team: &TeamId, id: &SandboxId) -> Option<Arc<Entry>> {
        self.teams.lock().get(team)?.get(id).cloned()
    }

    pub(crate) fn of(&self, team: &TeamId) -> Vec<Arc<Entry>> {
        let teams = self.teams.lock();
        teams
            .get(team)
            .map(|entries| entries.values().cloned().collect())
            .unwrap_or_default()
    }

    pub(crate) fn remove(&self, team: &TeamId, id: &SandboxId) {
        let removed = self
            .teams
            .lock()
            .get_mut(team)
            .and_then(|entries| entries.remove(id));
        // Dropped after the lock is given back: its place takes another one.
        drop(removed);
    }
}
