//! The parts of leases that are made ahead.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::cgroup::{Cgroups, ReadyGroups};
use crate::disk::Disks;
use crate::pool::UnderWay;

pub use crate::pool::Launching;

/// The parts of leases that are made ahead, while nobody waits for a sandbox.
#[derive(Debug)]
pub(crate) struct Pools {
    pub(crate) groups: ReadyGroups,
    pub(crate) disks: Disks,
    pub(crate) under_way: UnderWay,
    /// True if parts are made ahead.
    is_on: AtomicBool,
}

impl Pools {
    pub(crate) fn new(groups: ReadyGroups, disks: Disks) -> Self {
        Self {
            groups,
            disks,
            under_way: UnderWay::default(),
            is_on: AtomicBool::new(true),
        }
    }

    /// Makes parts ready, as long as nobody waits for a sandbox. Blocks.
    pub(crate) fn fill(&self, cgroups: &Cgroups) {
        self.under_way.in_quiet_moments(|| {
            if !self.is_on.load(Ordering::Relaxed) {
                return false;
            }
            self.groups.make_one_ready(cgroups);
            self.disks.make_one_ready();
            self.groups.wants_more() || self.disks.ready.wants_more()
        });
    }

    /// Says whether parts may be made ready; lets them go if not. Blocks.
    pub(crate) fn switch(&self, on: bool, cgroups: &Cgroups) {
        self.is_on.store(on, Ordering::Relaxed);
        if !on {
            self.clear(cgroups);
        }
    }

    /// Lets go of everything that is ready. Blocks.
    pub(crate) fn clear(&self, cgroups: &Cgroups) {
        self.groups.clear(cgroups);
        self.disks.clear_ready();
    }
}
