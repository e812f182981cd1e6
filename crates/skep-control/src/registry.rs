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
    /// Reference of the template that its files are made of: another one than was ordered, if it was
    /// put back to a snapshot of a sandbox of that.
    base: Mutex<String>,
    /// Samples of its usage, taken when somebody asked.
    pub(crate) history: Mutex<History>,
    place: Mutex<QuotaShare>,
    /// Number of sandboxes that its team may have paused beside those that count.
    pub(crate) most_paused: u32,
    /// Held by the one who resumes it: the others find it running then, and take no second part of
    /// the quota.
    pub(crate) resuming: tokio::sync::Mutex<()>,
}

/// Place of a sandbox among those of its team.
#[derive(Debug)]
enum QuotaShare {
    /// None yet: an earlier server made it.
    None,
    /// One of those that run.
    Counted(#[expect(dead_code, reason = "counts until it is dropped")] QuotaGuard),
    /// One of those that are paused, which count for nothing else.
    Asleep(#[expect(dead_code, reason = "counts until it is dropped")] QuotaGuard),
}

impl Entry {
    pub(crate) fn new(order: Order, quota: Option<QuotaGuard>, most_paused: u32) -> Self {
        Self {
            base: Mutex::new(order.base.clone()),
            order: Arc::new(order),
            history: Mutex::default(),
            place: Mutex::new(quota.map_or(QuotaShare::None, QuotaShare::Counted)),
            most_paused,
            resuming: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn base(&self) -> String {
        self.base.lock().clone()
    }

    pub(crate) fn set_base(&self, base: String) {
        *self.base.lock() = base;
    }

    /// Counts the sandbox among those of its team that run.
    pub(crate) fn set_quota(&self, quota: QuotaGuard) {
        self.replace(QuotaShare::Counted(quota));
    }

    /// Counts it among the paused ones instead.
    pub(crate) fn fall_asleep(&self, place: QuotaGuard) {
        self.replace(QuotaShare::Asleep(place));
    }

    pub(crate) fn is_counted(&self) -> bool {
        matches!(*self.place.lock(), QuotaShare::Counted(_))
    }

    pub(crate) fn is_asleep(&self) -> bool {
        matches!(*self.place.lock(), QuotaShare::Asleep(_))
    }

    fn replace(&self, place: QuotaShare) {
        let replaced = std::mem::replace(&mut *self.place.lock(), place);
        // After the lock is given back: it takes another one.
        drop(replaced);
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

    /// A sandbox of whichever team, for a caller that the sandbox itself has let in.
    pub(crate) fn find_anywhere(&self, id: &SandboxId) -> Option<Arc<Entry>> {
        let teams = self.teams.lock();
        teams.values().find_map(|entries| entries.get(id).cloned())
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
