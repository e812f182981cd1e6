//! The lease of one sandbox on parts of the host.

mod egress;
#[cfg(test)]
mod tests;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use skep_egress::{Proxy, RequestLog};
use skep_telemetry::Chain;
use skep_types::{Egress, LoggedRequest, SandboxId, Usage};

use crate::cgroup::{Child, Group, JoinFds, Settings, Subgroup};
use crate::directory::SandboxDirectory;
use crate::disk::{Capture, CopyReservation};
use crate::disk_meter::{BLOCK_DEVICES, DiskMeter, FILE_SYSTEMS};
use crate::firewall::Allowance;
use crate::instance::Slot;
use crate::leases::Leases;
use crate::log::{Log, LogHolder};
use crate::page_out::page_out;
use crate::record::{LeaseRecord, Recorded};
use crate::slots::TakenSlot;
use crate::{disk, firewall, gateway};

/// An error below another one.
pub(crate) type Source = Box<dyn std::error::Error + Send + Sync>;

/// The lease of one sandbox on parts of the host: its slot, link, directory, disk, cgroups and log.
///
/// Acquired in that order, and released in reverse: processes and their cgroups, then what they
/// used, the slot last, because whoever has it next has the address and the user ids.
///
/// A lease is released when it is dropped, until [`Lease::keep`] says that it is recorded. From
/// then on it outlives this value and the server: dropping it forgets it, and the next server
/// acquires it again from its [`LeaseRecord`]. Dropping one that is not kept blocks until its
/// processes are dead.
#[derive(Debug)]
pub struct Lease {
    leases: Arc<Leases>,
    id: SandboxId,
    number: Slot,
    /// Held while it is changed, in the packet filter, too.
    egress: Mutex<Egress>,
    /// Its egress proxy, while it reaches hosts by name. Locked after the policy.
    proxy: Mutex<Option<Proxy>>,
    requests: Arc<RequestLog>,
    meter: Option<DiskMeter>,
    log: Option<Log>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Released when the value is dropped.
    Acquired(TakenSlot),
    /// Forgotten when the value is dropped.
    Kept(TakenSlot),
    /// Nothing is left of it, or what is left is tried again by others.
    Over,
}

/// Descriptors of a lease that the first process of its sandbox is to be given.
#[derive(Debug)]
pub struct Parts {
    /// Its disk, mounted nowhere yet.
    pub disk: OwnedFd,
    /// Disks that it lies on, the lowest first, mounted nowhere yet.
    pub below: Vec<OwnedFd>,
    /// Files by which processes join its cgroups.
    pub join_fds: JoinFds,
}

/// The host's end of a sandbox's link, as its maker is to make it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Name of the interface.
    pub interface: String,
    /// Group of the interface, by which the packet filter knows what the sandbox may reach.
    pub group: u32,
}

/// Counters that only a living sandbox has.
#[derive(Debug, Clone, Copy)]
pub struct LastLook {
    /// Bytes of memory, and processes.
    in_use: (u64, u32),
    /// Bytes that came and that it sent.
    traffic: (u64, u64),
}

impl LastLook {
    /// Adds what was seen to what is counted beyond the end.
    pub fn complete(self, usage: Usage) -> Usage {
        Usage {
            memory_bytes: self.in_use.0,
            pids: self.in_use.1,
            received_bytes: self.traffic.0,
            sent_bytes: self.traffic.1,
            ..usage
        }
    }
}

/// The first part of a lease that could not be removed. The rest is removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove {what}")]
pub struct ReleaseError {
    /// Description of what is left.
    pub what: String,
    /// Error of the system.
    pub source: Source,
}

impl Lease {
    pub(crate) fn new(leases: Arc<Leases>, id: SandboxId, slot: TakenSlot, egress: Egress) -> Self {
        Self {
            leases,
            id,
            number: slot.slot(),
            egress: Mutex::new(egress),
            proxy: Mutex::default(),
            requests: Arc::default(),
            meter: None,
            log: None,
            state: Mutex::new(State::Acquired(slot)),
        }
    }

    /// A lease that is recorded, with what was found of it.
    pub(crate) fn found(mut self, log: Option<Log>, meter: Option<DiskMeter>) -> Self {
        self.keep();
        self.log = log;
        self.meter = meter;
        self
    }

    pub(crate) fn set_log(&mut self, log: Log) {
        self.log = Some(log);
    }

    pub(crate) fn set_meter(&mut self, disk: &OwnedFd) {
        self.meter = DiskMeter::of(disk.as_fd());
    }

    /// The sandbox that has it.
    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// Its slot.
    pub fn slot(&self) -> Slot {
        self.number
    }

    /// The host's end of its link.
    pub fn link(&self) -> Link {
        Link {
            interface: self.number.interface(),
            group: firewall::group(&self.allowance(&self.egress.lock())),
        }
    }

    /// Address of the default gateway and resolver of the sandbox.
    pub fn gateway(&self) -> std::net::Ipv4Addr {
        self.leases.gateway()
    }

    /// An empty directory on which mounts can be put together.
    pub fn staging(&self) -> PathBuf {
        self.directory().staging()
    }

    pub(crate) fn directory(&self) -> SandboxDirectory {
        self.leases.directory(&self.id)
    }

    /// The agent's end of the log.
    ///
    /// # Errors
    ///
    /// If there is none, or no descriptor for it.
    pub fn share_log(&self) -> io::Result<OwnedFd> {
        let log = self.log.as_ref();
        log.ok_or(io::ErrorKind::NotFound)?.share()
    }

    /// Reads the log so far; empty if it was lost. Blocks for as long as it takes to copy memory.
    ///
    /// # Errors
    ///
    /// If the memory cannot be read.
    pub fn read_log(&self) -> io::Result<Vec<u8>> {
        self.log.as_ref().map_or(Ok(Vec::new()), Log::read)
    }

    /// The last requests that its egress proxy has passed on or refused, the oldest first.
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.requests.read()
    }

    /// Keeps the log beyond the end of the sandbox. Blocks.
    pub fn keep_log(&self) {
        if let Some(log) = &self.log {
            self.leases.keep_log(&self.id, log);
        }
    }

    /// Lets `owner`, the first process, make cgroups of its own for kernels, and opens what it
    /// needs for that, each under the name by which it knows it.
    ///
    /// # Errors
    ///
    /// If the cgroups cannot be given away.
    pub fn delegate(&self, owner: Option<u32>) -> Result<Vec<(&'static str, OwnedFd)>, Source> {
        Ok(self.leases.cgroups.delegate(&self.group(), owner)?)
    }

    /// Opens the files by which a process joins the cgroups of what user code starts.
    ///
    /// # Errors
    ///
    /// If they are gone.
    pub fn work_join_fds(&self) -> Result<Vec<std::fs::File>, Source> {
        Ok(self.leases.cgroups.join_fds(&self.group(), Child::Work)?)
    }

    /// Usage of the sandbox. Blocks.
    ///
    /// # Errors
    ///
    /// If the counters are gone.
    pub fn usage(&self) -> Result<Usage, Source> {
        let image = self.directory().image();
        let mut usage = self.leases.cgroups.usage(&self.group())?;
        usage.disk_bytes = disk::used_by_all(&image)?;
        DiskMeter::add_traffic(self.meter, &mut usage, &image);
        // A sandbox that ends takes its link with it, before anybody could read the counters.
        if let Ok(traffic) = gateway::traffic(self.number) {
            (usage.received_bytes, usage.sent_bytes) = traffic;
        }
        Ok(usage)
    }

    /// Counters that are gone in a moment, once the sandbox is killed. Takes microseconds, and
    /// what cannot be read is left out.
    pub fn last_look(&self) -> LastLook {
        LastLook {
            in_use: self
                .leases
                .cgroups
                .in_use(&self.group())
                .unwrap_or_default(),
            traffic: gateway::traffic(self.number).unwrap_or_default(),
        }
    }

    /// Lets every process of the sandbox stand. Blocks until `deadline` at the latest.
    ///
    /// # Errors
    ///
    /// If some do not stand by then. All go on.
    pub fn freeze(&self, deadline: Instant) -> Result<(), Source> {
        Ok(self.leases.cgroups.freeze(&self.group(), deadline)?)
    }

    /// Lets the processes of the sandbox go on.
    ///
    /// # Errors
    ///
    /// If they cannot be told.
    pub fn thaw(&self) -> Result<(), Source> {
        let group = self.group();
        // What runs has no swap. What stood may have been paged out, also by an earlier server.
        self.leases.cgroups.allow_swap(&group, false)?;
        Ok(self.leases.cgroups.thaw(&group)?)
    }

    /// Lets the agent of a sandbox that stands go on; everything that user code has started stands
    /// until all are thawed.
    ///
    /// # Errors
    ///
    /// If they cannot be told.
    pub fn thaw_agent(&self) -> Result<(), Source> {
        Ok(self.leases.cgroups.thaw_agent(&self.group())?)
    }

    /// Brings the memory of a sandbox that stands to the host's swap, where that is allowed and as long
    /// as it is wanted. Returns the bytes that were looked at. Blocks.
    ///
    /// # Errors
    ///
    /// If its processes cannot be listed, or its limits not be changed.
    pub fn page_out(&self, is_wanted: &dyn Fn() -> bool) -> Result<u64, Source> {
        if !self.leases.config.page_out.is_possible() {
            return Ok(0);
        }
        let processes = self.processes()?;
        let group = self.group();
        self.leases.cgroups.allow_swap(&group, true)?;
        let bytes = page_out(&processes, is_wanted);
        if !is_wanted() {
            // Whoever has let it go on may have forbidden swap before it was allowed.
            self.leases.cgroups.allow_swap(&group, false)?;
        }
        Ok(bytes)
    }

    /// Tells the processes of the sandbox to stand, and does not wait until they do: they may be in
    /// somebody's hands who lets go of them afterwards.
    ///
    /// # Errors
    ///
    /// If they cannot be told.
    pub fn order_freeze(&self) -> Result<(), Source> {
        Ok(self
            .leases
            .cgroups
            .order_freeze(&self.group(), None, true)?)
    }

    /// Tells everything that user code has started to stand or to go on; the agent is not concerned.
    ///
    /// # Errors
    ///
    /// If it cannot be told.
    pub fn order_work(&self, freeze: bool) -> Result<(), Source> {
        let work = Some(Child::Work);
        Ok(self
            .leases
            .cgroups
            .order_freeze(&self.group(), work, freeze)?)
    }

    /// The processes of the sandbox, by their numbers on the host.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    pub fn processes(&self) -> Result<Vec<i32>, Source> {
        let all = self.leases.cgroups.processes(&self.group())?;
        Ok(all
            .into_iter()
            .map(|pid| pid.as_raw_nonzero().get())
            .collect())
    }

    /// Directories of its group, one for each hierarchy.
    ///
    /// # Errors
    ///
    /// If one is gone.
    pub fn group_directories(&self) -> Result<Vec<PathBuf>, Source> {
        Ok(self.leases.cgroups.own_directories(&self.group())?)
    }

    /// The groups that its agent has made.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    pub fn subgroups(&self) -> Result<Vec<Subgroup>, Source> {
        Ok(self.leases.cgroups.subgroups(&self.group())?)
    }

    /// Makes groups as another sandbox's agent had made them, for the agent of this one. What can
    /// be written only when the launcher has left the sandbox's own group is added to `settings`.
    ///
    /// # Errors
    ///
    /// If one cannot be made.
    pub fn make_subgroups(
        &self,
        subgroups: &[Subgroup],
        settings: Option<&mut Settings>,
    ) -> Result<(), Source> {
        let owner = self.number.first_id();
        let group = self.group();
        let cgroups = &self.leases.cgroups;
        Ok(cgroups.make_subgroups(&group, subgroups, owner, settings)?)
    }

    /// Directory of its group if the host has the unified tree, and not a hierarchy for each
    /// controller.
    ///
    /// # Errors
    ///
    /// If it is gone.
    pub fn unified_group(&self) -> Result<Option<PathBuf>, Source> {
        if self.leases.has_separate_hierarchies() {
            return Ok(None);
        }
        Ok(self.group_directories()?.pop())
    }

    /// Takes the memory that a restored agent has as its log for the sandbox's.
    ///
    /// # Errors
    ///
    /// If it is none.
    pub fn take_log(&mut self, holder: LogHolder) -> io::Result<()> {
        self.log = Some(Log::restored(holder)?);
        Ok(())
    }

    /// Returns true if every process of the sandbox stands.
    ///
    /// # Errors
    ///
    /// If nobody can tell.
    pub fn is_frozen(&self) -> Result<bool, Source> {
        Ok(self.leases.cgroups.is_frozen(&self.group())?)
    }

    /// Captures the disk in a new file, and returns the space that it takes when it would survive
    /// the host. What processes write meanwhile may be missing: they should stand. Blocks.
    ///
    /// # Errors
    ///
    /// If that is not possible; there is no such file then.
    pub fn capture_disk(&self, to: &Path, how: Capture) -> Result<u64, Source> {
        let image = self.directory().image();
        let meter = self.meter.ok_or("the device of its disk is not known")?;
        meter.sync(&image)?;
        Ok(self.leases.disks().capture(&image, to, how)?)
    }

    /// Takes room for so many bytes in a directory beside the disks, until it is dropped.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::StorageFull`] if they would not fit beside the reserve and all that is being
    /// written.
    pub fn room_for(&self, directory: &Path, bytes: u64) -> io::Result<CopyReservation<'_>> {
        self.leases.room_for(directory, bytes)
    }

    /// Path of a file of the backend's own, which goes with the sandbox.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory().path().join(name)
    }

    /// Makes sure that processes that stand can die. Blocks for as long as that takes, not until
    /// they are dead.
    pub fn kill_frozen(&self) {
        if let Err(error) = self.leases.cgroups.kill_frozen(&self.group()) {
            // What removes the groups tries the same.
            tracing::debug!(sandbox = %self.id, error = %Chain(&error), "cannot thaw to kill");
        }
    }

    /// Returns true if its disk has lost writes. Blocks.
    pub fn has_lost_writes(&self) -> bool {
        let Some(meter) = self.meter else {
            return false;
        };
        let (devices, file_systems) = (Path::new(BLOCK_DEVICES), Path::new(FILE_SYSTEMS));
        let image = self.directory().image();
        // One that ends takes its disk away while we look.
        (meter.has_lost_writes(devices, file_systems, &image)).unwrap_or_else(|error| {
            tracing::debug!(sandbox = %self.id, %error, "cannot look at a disk");
            false
        })
    }

    /// Time limit for the processes of the sandbox to die.
    pub fn kill_deadline(&self) -> Duration {
        self.leases.config.kill_deadline
    }

    /// The record by which a later server acquires it again.
    ///
    /// # Errors
    ///
    /// If the identity of the log cannot be read.
    pub fn record(&self) -> io::Result<LeaseRecord> {
        let log = self.log.as_ref().map(Log::identity).transpose()?;
        Ok(LeaseRecord::new(Recorded {
            id: &self.id,
            slot: self.number.number(),
            reach: &self.egress.lock().routed(),
            boot: &self.leases.boot,
            log,
            meter: self.meter,
        }))
    }

    /// Says that the lease is recorded and has an owner who releases it: it outlives this value.
    pub fn keep(&self) {
        let mut state = self.state.lock();
        *state = match std::mem::replace(&mut *state, State::Over) {
            State::Acquired(slot) | State::Kept(slot) => State::Kept(slot),
            State::Over => State::Over,
        };
    }

    /// Kills what is left of the sandbox and gives everything back to the host. Blocks until
    /// `deadline`, and then as long as removing takes.
    ///
    /// Can be called again when it has failed. One that is over is not an error.
    ///
    /// # Errors
    ///
    /// The first thing that could not be removed. As long as processes live, their cgroups,
    /// limits, files and slot stay; only their network goes.
    pub fn release(&self, deadline: Instant) -> Result<(), ReleaseError> {
        self.leases.remove(&self.id, Some(self.number), deadline)?;
        drop(self.proxy.lock().take());
        let state = std::mem::replace(&mut *self.state.lock(), State::Over);
        if let State::Acquired(slot) | State::Kept(slot) = state {
            self.leases.unregister(&self.id);
            // The slot last: the next sandbox in it has the address and the ids.
            drop(slot);
        }
        Ok(())
    }

    /// Leaves it to the retries after a failed release: nobody else will try again.
    pub fn abandon(&self, error: &ReleaseError) {
        let state = std::mem::replace(&mut *self.state.lock(), State::Over);
        if let State::Acquired(slot) | State::Kept(slot) = state {
            self.leases.leftovers.add(&self.id, vec![slot], error);
        }
    }

    fn group(&self) -> Group {
        Group::new(&self.id)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let state = std::mem::replace(self.state.get_mut(), State::Over);
        match state {
            State::Acquired(slot) => {
                *self.state.get_mut() = State::Acquired(slot);
                let deadline = Instant::now() + self.kill_deadline();
                if let Err(error) = self.release(deadline) {
                    self.abandon(&error);
                }
            }
            State::Kept(slot) => {
                self.leases.unregister(&self.id);
                drop(slot);
            }
            State::Over => {}
        }
    }
}

impl Leases {
    /// Removes whatever is there of a sandbox, from its processes to its files. Blocks until
    /// `deadline`, and then as long as removing takes.
    ///
    /// Goes on when something cannot be removed, and reports the first such thing. Finding
    /// nothing is not an error.
    pub(crate) fn remove(
        &self,
        id: &SandboxId,
        slot: Option<Slot>,
        deadline: Instant,
    ) -> Result<(), ReleaseError> {
        let left = |what: &str, source: Source| {
            tracing::debug!(sandbox = %id, what, error = %Chain(source.as_ref()), "cannot remove");
            let what = what.to_owned();
            ReleaseError { what, source }
        };
        // Processes first: they use all the rest.
        let ended = (self.cgroups.destroy(&Group::new(id), deadline))
            .map_err(|error| left("processes and their cgroups", error.into()));
        // The link goes also from those that do not die: they reach nobody any more.
        let unlinked = (slot.map_or(Ok(()), gateway::remove_link))
            .map_err(|error| left("network link", error.into()));
        // After the link: nobody else has the interface's name before the slot is given back.
        if let Some(slot) = slot
            && let Err(error) = self.policies.set(slot, &Allowance::Nothing, || ())
        {
            // The next sandbox in the slot replaces it.
            tracing::warn!(sandbox = %id, error = %Chain(&error), "a policy stays in the packet filter");
        }
        // Files stay as long as a process could write to them.
        ended.and_then(|()| {
            let removed = self.directory(id).remove();
            unlinked.and(removed.map_err(|error| left("files", error.into())))
        })
    }
}
