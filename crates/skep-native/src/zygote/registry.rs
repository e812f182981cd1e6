//! The registry of zygotes: which exist, for whom, and which one makes room for another.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use skep_host::Leases;
use skep_types::TenantId;

use super::holder::{self, Holder};
use super::specification::{self, Specification};

/// Time for which a template is left alone after its zygote could not be made.
const REST: Duration = Duration::from_secs(60);

/// Number of templates whose specifications are remembered. Callers make new versions all the time.
const MOST_SPECIFICATIONS: usize = 256;

/// The template and tenant a zygote is for. Only sandboxes of these layers and of this tenant are
/// ever below it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ZygoteKey {
    pub(crate) layers: Vec<PathBuf>,
    pub(crate) tenant: TenantId,
}

/// The zygotes of a server.
#[derive(Debug, Default)]
pub(super) struct Registry {
    /// Entries with a zygote, with one on its way, or with a recent failure to make one.
    entries: HashMap<ZygoteKey, ZygoteEntry>,
    /// The templates' specifications, by their layers; `None` for a template without a zygote.
    specifications: HashMap<Vec<PathBuf>, Option<Specification>>,
}

/// The zygotes of one key.
#[derive(Debug, Default)]
struct ZygoteEntry {
    current: Option<Arc<Holder>>,
    /// Those that were replaced and still have sandboxes.
    former: Vec<Arc<Holder>>,
    is_warming: bool,
    /// The process that is being warmed, as soon as there is one.
    warming: Option<OwnedFd>,
    rests_until: Option<Instant>,
}

impl Registry {
    /// The specification of a template's zygote. Looks at files the first time.
    pub(super) fn specification(&mut self, layers: &[PathBuf]) -> Option<&Specification> {
        if !self.specifications.contains_key(layers) {
            if self.specifications.len() >= MOST_SPECIFICATIONS {
                self.specifications.clear();
            }
            match specification::find(layers) {
                Ok(found) => self.specifications.insert(layers.to_vec(), found),
                Err(error) => {
                    tracing::warn!(%error, "cannot look for the zygote of a template");
                    return None;
                }
            };
        }
        self.specifications.get(layers)?.as_ref()
    }

    /// The zygote that new sandboxes go below.
    pub(super) fn living(&mut self, key: &ZygoteKey) -> Option<Arc<Holder>> {
        let entry = self.entries.get_mut(key)?;
        entry.current.take_if(|holder| holder.has_ended());
        entry.current.clone()
    }

    pub(super) fn is_warming(&self, key: &ZygoteKey) -> bool {
        self.entries.get(key).is_some_and(|entry| entry.is_warming)
    }

    /// Returns true if a zygote may be made: none is on its way, and the last could be made.
    pub(super) fn may_begin(&self, key: &ZygoteKey) -> bool {
        let entry = self.entries.get(key);
        entry.is_none_or(|entry| !entry.is_warming && !entry.rests())
    }

    /// Counts a zygote that is on its way from now on.
    pub(super) fn begin(&mut self, key: &ZygoteKey) {
        self.entries.entry(key.clone()).or_default().is_warming = true;
    }

    /// The process that is to be a zygote runs. `false` if none is wanted any more.
    pub(super) fn runs(&mut self, key: &ZygoteKey, process: OwnedFd) -> bool {
        match self.entries.get_mut(key) {
            Some(entry) => {
                entry.warming = Some(process);
                true
            }
            None => false,
        }
    }

    /// A zygote is ready, or will not be.
    pub(super) fn arrived(&mut self, key: &ZygoteKey, holder: Option<Arc<Holder>>) {
        let Some(entry) = self.entries.get_mut(key) else {
            return;
        };
        entry.is_warming = false;
        entry.warming = None;
        entry.rests_until = match &holder {
            Some(_) => None,
            None => Some(Instant::now() + REST),
        };
        if let Some(holder) = holder {
            entry.former.extend(entry.current.replace(holder));
        }
    }

    /// Makes room for one more of a tenant where there are to be at most so many. The one goes
    /// that was used longest ago, if it has no sandboxes. If all have some, one of a tenant that
    /// has at least two more than this one. `false` if there is none, either.
    pub(super) fn make_room(&mut self, leases: &Leases, tenant: &TenantId, most: u16) -> bool {
        let count: usize = self.entries.values().map(ZygoteEntry::count).sum();
        if count < usize::from(most) {
            return true;
        }
        let ended = self.take_unused(leases).or_else(|| self.take_share(tenant));
        ended.iter().for_each(|holder| holder.end());
        ended.is_some()
    }

    /// The one without sandboxes that was used longest ago.
    fn take_unused(&mut self, leases: &Leases) -> Option<Arc<Holder>> {
        let unused = self.entries.values_mut().filter_map(|entry| {
            let holder = entry.current.as_ref()?;
            let idle = (!has_sandboxes(leases, holder)).then(|| holder.idle())?;
            Some((idle, entry))
        });
        let longest = unused.max_by_key(|(idle, _)| *idle);
        longest.and_then(|(_, entry)| entry.current.take())
    }

    /// One of the tenant that has most, if that leaves it with no fewer than this tenant gets.
    /// One that was replaced rather than another, because nobody new is put below it. Its
    /// sandboxes live on and start their next kernels themselves.
    fn take_share(&mut self, tenant: &TenantId) -> Option<Arc<Holder>> {
        let mut counts: HashMap<&TenantId, usize> = HashMap::new();
        for (key, entry) in &self.entries {
            *counts.entry(&key.tenant).or_default() += entry.count();
        }
        let own = counts.get(tenant).copied().unwrap_or_default();
        let (largest, count) = counts.into_iter().max_by_key(|(_, count)| *count)?;
        let largest = is_unfair(own, count).then(|| largest.clone())?;
        let mut entries: Vec<_> = (self.entries.iter_mut())
            .filter_map(|(key, entry)| (key.tenant == largest).then_some(entry))
            .collect();
        let oldest = (entries.iter_mut())
            .filter(|entry| !entry.former.is_empty())
            .max_by_key(|entry| entry.former[0].age());
        if let Some(entry) = oldest {
            return Some(entry.former.remove(0));
        }
        let idle =
            |entry: &&mut &mut ZygoteEntry| entry.current.as_ref().map(|holder| holder.idle());
        entries.iter_mut().max_by_key(idle)?.current.take()
    }

    /// Ends zygotes without sandboxes: one that was replaced at once, another when nothing was
    /// put below it for so long.
    pub(super) fn end_unused(&mut self, leases: &Leases, idle_after: Duration) {
        self.entries.retain(|_, entry| {
            entry.end_unused(leases, idle_after);
            entry.count() > 0 || entry.rests()
        });
    }

    /// Ends all zygotes, also those that are being made.
    pub(super) fn end(&mut self) {
        for (_, entry) in self.entries.drain() {
            let holders = entry.current.iter().chain(&entry.former);
            holders.for_each(|holder| holder.end());
            entry.warming.iter().for_each(holder::kill);
        }
    }
}

impl ZygoteEntry {
    /// Number of zygotes at this entry, the one on its way included.
    fn count(&self) -> usize {
        usize::from(self.current.is_some()) + self.former.len() + usize::from(self.is_warming)
    }

    fn rests(&self) -> bool {
        self.rests_until.is_some_and(|end| Instant::now() < end)
    }

    fn end_unused(&mut self, leases: &Leases, idle_after: Duration) {
        self.current.take_if(|holder| holder.has_ended());
        self.former.retain(|holder| !holder.has_ended());
        // Nobody new is put below these, so what nobody uses of them is everybody's.
        (self.former.iter()).for_each(|holder| leases.release_free_slots(holder.run));
        let is_unused =
            |holder: &mut Arc<Holder>| !has_sandboxes(leases, holder) && holder.idle() > idle_after;
        let unused = self.current.take_if(is_unused);
        let replaced = (self.former).extract_if(.., |holder| !has_sandboxes(leases, holder));
        replaced.chain(unused).for_each(|holder| holder.end());
    }
}

/// Returns true if a tenant that has `own` zygotes may be given one of a tenant that has `other`:
/// not if they would only change entries.
fn is_unfair(own: usize, other: usize) -> bool {
    other >= own + 2
}

fn has_sandboxes(leases: &Leases, holder: &Holder) -> bool {
    leases.slots_in_use(holder.run) > holder::OWN_SLOTS
}
