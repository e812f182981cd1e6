//! The leases of this server, and the parts of the host that they are made of.

use std::collections::HashMap;
use std::collections::hash_map;
use std::fs;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use skep_telemetry::Gauge;
use skep_types::{Capacity, Egress, HostCapacity, Resources, SandboxId, Usage};

use crate::capacity::host_capacity;
use crate::cgroup::{Cgroups, DiskSpeed, Group, ReadyGroups};
use crate::config::HostConfig;
use crate::directory::SandboxDirectory;
use crate::disk::{Capture, CopyReservation, DiskSource, Disks};
use crate::disk_meter::DiskMeter;
use crate::dns;
use crate::firewall::{Allowance, FirewallError, Policies};
use crate::instance::{Naming, Slot};
use crate::lease::{Lease, Parts, Source};
use crate::leftovers::Leftovers;
use crate::log::{KeptLogs, Log, LogHolder};
use crate::pools::{Launching, Pools};
use crate::proxies::Proxies;
use crate::record::LeaseRecord;
use crate::slots::{KeptRun, Run, Slots, TakenSlot};
use crate::watchers::Watchers;

/// The leases of this server, and what they are made of.
#[derive(Debug)]
pub struct Leases {
    pub(crate) config: HostConfig,
    pub(crate) naming: Naming,
    /// Names this run of the host.
    pub(crate) boot: String,
    pub(crate) cgroups: Cgroups,
    pub(crate) slots: Arc<Slots>,
    pub(crate) leftovers: Leftovers,
    /// Policies of sandboxes, as the packet filter has them.
    pub(crate) policies: Policies,
    pub(crate) proxies: Proxies,
    pools: Pools,
    logs: KeptLogs,
    watchers: Watchers,
    /// Every sandbox that has a lease, those that are being acquired included.
    holders: Mutex<HashMap<SandboxId, Holder>>,
}

/// A sandbox that has a lease, as the DNS forwarder knows it.
#[derive(Debug, Clone)]
struct Holder {
    slot: Slot,
    egress: Egress,
    /// Port of its egress proxy, while it has one.
    proxy: Option<u16>,
}

/// The terms of a lease.
#[derive(Debug)]
pub struct Terms {
    /// The sandbox.
    pub id: SandboxId,
    /// Its slot, taken from the same leases.
    pub slot: TakenSlot,
    /// Destinations that it may reach.
    pub egress: Egress,
    /// Its limits.
    pub resources: Resources,
    /// Origin of its cgroups.
    pub cgroups: CgroupSource,
    /// Origin of its disk.
    pub disk: DiskSource,
}

/// Origin of a lease's cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CgroupSource {
    /// The pool, with the limit of the disk's speed.
    Pool,
    /// Made for the lease, without that limit. For parts of the platform: they are asked for too
    /// rarely to be kept ready, and would push limits that are in demand out of the pool.
    New,
}

/// Failure to acquire a lease. Nothing of it is left, or it is among the leftovers.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// The sandbox has a lease, which is left as it is.
    #[error("it has a lease already")]
    Leased,
    /// A part could not be made.
    #[error("cannot {operation}")]
    Part {
        /// Operation that failed.
        operation: String,
        /// Error of the system.
        source: Source,
    },
}

/// Failure to acquire a recorded lease again.
#[derive(Debug, thiserror::Error)]
pub enum ReacquireError {
    /// The record was not written by a server.
    #[error("the record is unreadable")]
    Unreadable(#[source] skep_types::IdError),
    /// Another lease has the slot.
    #[error("its slot is taken")]
    SlotTaken,
    /// The sandbox has a lease.
    #[error("it has a lease already")]
    Leased,
}

impl Leases {
    /// Opens the directories and pools. Nothing is leased yet.
    pub(crate) fn open(
        config: HostConfig,
        naming: Naming,
        cgroups: Cgroups,
        boot: String,
    ) -> io::Result<Self> {
        fs::create_dir_all(config.data_dir.join("sandboxes"))?;
        let speed =
            (config.disk_bytes_per_second).map(|limit| DiskSpeed::new(&config.data_dir, limit));
        let groups =
            ReadyGroups::new(&cgroups, config.ready_parts, speed).map_err(io::Error::other)?;
        let disks = config.data_dir.join("disks");
        let disks = Disks::new(disks, config.ready_parts, config.disk_reserve)?;
        Ok(Self {
            naming,
            boot,
            cgroups,
            slots: Arc::new(Slots::new(naming)),
            leftovers: Leftovers::default(),
            policies: Policies::new(naming),
            proxies: Proxies::default(),
            pools: Pools::new(groups, disks),
            logs: KeptLogs::open(config.data_dir.join("logs"))?,
            watchers: Watchers::new(),
            holders: Mutex::default(),
            config,
        })
    }

    /// Takes a free slot, if there is one.
    pub fn take_slot(&self) -> Option<TakenSlot> {
        self.slots.take().map(|slot| self.slots.taken(slot))
    }

    /// Takes a free slot of a run.
    pub fn take_slot_of(&self, run: Run) -> Option<TakenSlot> {
        let slot = self.slots.take_reserved(run)?;
        Some(self.slots.taken(slot))
    }

    /// Keeps so many free slots side by side, or fewer where there is no such gap, and takes the
    /// first of them.
    pub fn keep_run(&self, count: u16) -> Option<(KeptRun, TakenSlot)> {
        self.slots.reserve(count).map(|run| self.slots.kept(run))
    }

    /// Number of slots of a run that are taken by those they are kept for.
    pub fn slots_in_use(&self, run: Run) -> usize {
        self.slots.in_use(run)
    }

    /// Keeps only those slots of a run that are taken.
    pub fn release_free_slots(&self, run: Run) {
        self.slots.release_free(run);
    }

    /// The slot of this number.
    pub fn slot(&self, number: u16) -> Slot {
        self.naming.slot(number)
    }

    /// Address of the default gateway and resolver of sandboxes.
    pub fn gateway(&self) -> Ipv4Addr {
        self.naming.gateway()
    }

    /// Policy of the sandbox at an address, if there is one.
    pub fn egress_at(&self, address: Ipv4Addr) -> Option<Egress> {
        let holders = self.holders.lock();
        let mut holders = holders.values();
        let holder = holders.find(|holder| holder.slot.address() == address);
        holder.map(|holder| holder.egress.clone())
    }

    /// Acquires a lease, and opens what the first process of its sandbox is to be given. Blocks.
    ///
    /// # Errors
    ///
    /// The first thing that could not be made. What was made before it is released again.
    pub fn acquire(self: &Arc<Self>, terms: Terms) -> Result<(Lease, Parts), LeaseError> {
        let Terms {
            id,
            slot,
            egress,
            resources,
            cgroups,
            disk,
        } = terms;
        // The entry comes before anything is made, so that a sweep spares what follows, and a
        // second sandbox of the name is refused while nothing of the first can be touched.
        if !self.register(&id, slot.slot(), egress.clone()) {
            return Err(LeaseError::Leased);
        }
        let log = Log::new(slot.slot().first_id());
        // From here on everything is the lease's, and goes with it if the rest cannot be made.
        let mut lease = Lease::new(Arc::clone(self), id, slot, egress);
        lease.set_log(log.map_err(failed("make the sandbox's log"))?);
        // Before the link is made, so that there is none without its policy.
        (lease.begin_policy()).map_err(failed("put the sandbox's policy in force"))?;
        let directory = lease.directory();
        let path = directory.path().display().to_string();
        (directory.create()).map_err(failed(&format!("make `{path}`")))?;
        // The disk lies in the directory, and is renamed into it if one was ready.
        let disk = (self.pools.disks)
            .mount_from(&disk, &directory.image(), resources.disk_mib)
            .map_err(failed("make the sandbox's disk"))?;
        lease.set_meter(&disk.top);
        // Last, because a cgroup with its limits is all that a process may start in: when it is
        // there, the lease is whole.
        let group = Group::new(lease.id());
        let made = match cgroups {
            CgroupSource::Pool => {
                let disk = disk.top.as_fd();
                (self.pools.groups).make(&self.cgroups, &group, &resources, disk)
            }
            CgroupSource::New => (self.cgroups.create(&group, &resources, None))
                .and_then(|settings| self.cgroups.open_join_fds(&group, settings)),
        };
        let join_fds = made.map_err(failed("make the sandbox's cgroup"))?;
        let parts = Parts {
            disk: disk.top,
            below: disk.below,
            join_fds,
        };
        Ok((lease, parts))
    }

    /// Acquires the lease of a living sandbox again. `holder` has the memory of its log.
    ///
    /// # Errors
    ///
    /// [`ReacquireError`]; nothing of the sandbox is touched then.
    pub fn reacquire(
        self: &Arc<Self>,
        record: &LeaseRecord,
        holder: LogHolder,
    ) -> Result<Lease, ReacquireError> {
        let id = record.id().map_err(ReacquireError::Unreadable)?;
        if !self.slots.take_number(record.slot()) {
            return Err(ReacquireError::SlotTaken);
        }
        let slot = self.slots.taken(self.naming.slot(record.slot()));
        // Until its owner's policy is known, which the record of the lease does not have. If that cannot be
        // put in force, this stays.
        let egress = Egress::closed();
        if !self.register(&id, slot.slot(), egress.clone()) {
            return Err(ReacquireError::Leased);
        }
        let log = record.log().and_then(|identity| {
            // It lives on without one.
            let lost = |error: &io::Error| tracing::warn!(sandbox = %id, %error, "a log was lost");
            Log::find(holder, identity).inspect_err(lost).ok()
        });
        let lease = Lease::new(Arc::clone(self), id, slot, egress);
        Ok(lease.found(log, record.meter()))
    }

    pub(crate) fn disks(&self) -> &Disks {
        &self.pools.disks
    }

    /// Takes room for so many bytes in a directory beside the disks, until it is dropped.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StorageFull`] if they would not fit beside the reserve and all that is being
    /// written.
    pub fn room_for(&self, directory: &Path, bytes: u64) -> io::Result<CopyReservation<'_>> {
        self.disks().room_for(directory, bytes)
    }

    /// Copies a captured disk to a new file, and returns the space that it takes when it would
    /// survive the host. Blocks.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or the host would have too little disk left; there is no file.
    pub fn copy_disk(&self, from: &Path, to: &Path) -> Result<u64, Source> {
        Ok(self.pools.disks.capture(from, to, Capture::Copy)?)
    }

    /// Returns true if the record is of this run of the host.
    pub fn is_of_this_boot(&self, record: &LeaseRecord) -> bool {
        record.boot() == self.boot
    }

    /// Usage of a sandbox that ended while there was no server, as far as it is known. Blocks.
    pub fn final_usage(&self, record: &LeaseRecord) -> Usage {
        let Ok(id) = record.id() else {
            return Usage::default();
        };
        let mut usage = self
            .cgroups
            .usage(&Group::new(&id))
            .unwrap_or_else(|error| {
                tracing::debug!(sandbox = %id, %error, "counters are gone");
                Usage::default()
            });
        let image = self.directory(&id).image();
        usage.disk_bytes = crate::disk::used_by_all(&image).unwrap_or_default();
        DiskMeter::add_traffic(record.meter(), &mut usage, &image);
        usage
    }

    /// Guard that says that a sandbox is being launched: parts are made ahead only while there is
    /// none.
    pub fn launching(&self) -> Launching<'_> {
        self.pools.under_way.launching()
    }

    /// Makes parts of leases ready, as long as nobody waits for a sandbox. Blocks.
    pub fn fill_pools(&self) {
        self.pools.fill(&self.cgroups);
    }

    /// Says whether parts of leases may be made ready; lets them go if not. Blocks.
    pub fn allow_pools(&self, allowed: bool) {
        self.pools.switch(allowed, &self.cgroups);
    }

    /// Lets go of everything that is ready. Blocks.
    pub fn clear_pools(&self) {
        self.pools.clear(&self.cgroups);
    }

    /// Returns true if the processes of a sandbox can be made to stand on this host.
    pub fn can_freeze(&self) -> bool {
        self.cgroups.can_freeze()
    }

    /// Returns true if cgroups of this host have a hierarchy for each controller.
    pub fn has_separate_hierarchies(&self) -> bool {
        matches!(self.cgroups, Cgroups::V1(_))
    }

    /// Capacity of the host for sandboxes. Blocks.
    ///
    /// # Errors
    ///
    /// If the kernel's counters cannot be read.
    pub fn capacity(&self) -> io::Result<HostCapacity> {
        let mut capacity = host_capacity(&self.config.data_dir, &self.config.cgroup_root)?;
        let (total, available) = self.slots.count();
        capacity.slots = Capacity {
            total: u64::try_from(total).map_err(io::Error::other)?,
            available: u64::try_from(available).map_err(io::Error::other)?,
        };
        Ok(capacity)
    }

    /// The sandboxes whose sockets or locks hold too much of the host's memory, of those that
    /// `sandboxes` names with their first processes. Blocks.
    pub fn hoarding(&self, sandboxes: impl Fn() -> Vec<(SandboxId, i32)>) -> Vec<SandboxId> {
        self.watchers.look(&self.cgroups, sandboxes)
    }

    /// Reads the kept log of a sandbox that has ended. Blocks.
    ///
    /// # Errors
    ///
    /// If it cannot be read. One that was never kept is empty.
    pub fn kept_log(&self, id: &SandboxId) -> io::Result<Vec<u8>> {
        self.logs.read(id)
    }

    /// The kept logs and their sizes in bytes. Blocks.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    pub fn kept_logs(&self) -> io::Result<Vec<(SandboxId, u64)>> {
        self.logs.list()
    }

    /// Forgets the kept log of a sandbox. Blocks.
    ///
    /// # Errors
    ///
    /// If it cannot be removed.
    pub fn forget_log(&self, id: &SandboxId) -> io::Result<()> {
        self.logs.forget(id)
    }

    pub(crate) fn keep_log(&self, id: &SandboxId, log: &Log) {
        let kept = log.read().and_then(|text| self.logs.keep(id, &text));
        if let Err(error) = kept {
            tracing::warn!(sandbox = %id, %error, "sandbox log is lost");
        }
    }

    /// Number of sandboxes without an owner that have something on the host that could not be
    /// removed and is tried again.
    pub fn leftovers(&self) -> Arc<Gauge> {
        Arc::clone(&self.leftovers.count)
    }

    pub(crate) fn directory(&self, id: &SandboxId) -> SandboxDirectory {
        let sandboxes = self.config.data_dir.join("sandboxes");
        SandboxDirectory::at(sandboxes.join(id.as_str()))
    }

    pub(crate) fn is_leased(&self, id: &SandboxId) -> bool {
        self.holders.lock().contains_key(id)
    }

    /// Makes the entry of a sandbox. False if there is one already, which is left as it is.
    fn register(&self, id: &SandboxId, slot: Slot, egress: Egress) -> bool {
        match self.holders.lock().entry(id.clone()) {
            hash_map::Entry::Occupied(_) => false,
            hash_map::Entry::Vacant(vacant) => {
                let proxy = None;
                vacant.insert(Holder {
                    slot,
                    egress,
                    proxy,
                });
                true
            }
        }
    }

    /// Takes note of what a sandbox may reach, and of its egress proxy.
    pub(crate) fn note_egress(&self, id: &SandboxId, egress: Egress, proxy: Option<u16>) {
        if let Some(holder) = self.holders.lock().get_mut(id) {
            holder.egress = egress;
            holder.proxy = proxy;
        }
    }

    /// Policy of a sandbox, as it was noted last.
    pub(crate) fn egress_of(&self, id: &SandboxId) -> Option<Egress> {
        let holders = self.holders.lock();
        holders.get(id).map(|holder| holder.egress.clone())
    }

    /// Installs the packet filter anew, with the policies of all sandboxes. Blocks.
    pub(crate) fn reinstall_filter(
        &self,
        install: impl FnOnce() -> Result<(), FirewallError>,
    ) -> Result<(), FirewallError> {
        self.policies.reinstall(install, || {
            let holders = self.holders.lock();
            let policy = |holder: &Holder| match Allowance::of(&holder.egress, holder.proxy) {
                Allowance::Everything | Allowance::Nothing => None,
                some @ Allowance::Some { .. } => Some((holder.slot, some)),
            };
            holders.values().filter_map(policy).collect()
        })
    }

    pub(crate) fn unregister(&self, id: &SandboxId) {
        self.holders.lock().remove(id);
    }

    /// Forgets who has a lease, so that a sweep removes everything.
    pub(crate) fn forget_all(&self) {
        for (_, holder) in self.holders.lock().drain() {
            self.slots.give_back(holder.slot);
        }
    }
}

impl dns::Clients for Leases {
    fn egress(&self, address: Ipv4Addr) -> Option<Egress> {
        self.egress_at(address)
    }
}

fn failed<E: Into<Source>>(operation: &str) -> impl FnOnce(E) -> LeaseError {
    let operation = operation.to_owned();
    move |source| LeaseError::Part {
        operation,
        source: source.into(),
    }
}
