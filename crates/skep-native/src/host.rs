//! Everything that all sandboxes of this server share; making and removing one.

use std::collections::HashMap;
use std::collections::hash_map;
use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use skep_isolation::{DestroyError, LaunchError, LaunchRequest};
use skep_launch::{
    Descriptors, ForkServer, LaunchPlan, LaunchedBy, Parent, SpawnError, Started, Step, sealed_file,
};
use skep_linux::packet;
use skep_telemetry::{Chain, Counter};
use skep_types::{Capacity, Egress, HostCapacity, SandboxId, Usage};

use crate::capacity::host_capacity;
use crate::cgroup::{Cgroups, Group, IoLimit, ReadyGroups};
use crate::config::NativeConfig;
use crate::defence::Defence;
use crate::disk::{self, Disks};
use crate::disk_meter::{BLOCK_DEVICES, DiskMeter, FILE_SYSTEMS};
use crate::file_locks::LockWatch;
use crate::instance::{Naming, Slot};
use crate::leftovers::Leftovers;
use crate::log::{KeptLogs, Log};
use crate::pool::UnderWay;
use crate::queues::QueueWatch;
use crate::record::Record;
use crate::sandbox::NativeSandbox;
use crate::slots::Slots;
use crate::zygote::{Holder, Zygotes};
use crate::{dns, gateway, plan};

/// Time limit for the launcher. It takes milliseconds, unless the host is overloaded.
const LAUNCHER_TIMEOUT: Duration = Duration::from_secs(30);
/// Limit on what an agent may write to its standard error. Agents are quiet; this is for the
/// last lines before an end.
const STDERR_BYTES: u64 = 64 << 10;

/// Everything that all sandboxes of this server share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) config: NativeConfig,
    pub(crate) naming: Naming,
    pub(crate) cgroups: Cgroups,
    pub(crate) groups: ReadyGroups,
    pub(crate) slots: Slots,
    /// Names this run of the host.
    pub(crate) boot: String,
    pub(crate) logs: KeptLogs,
    pub(crate) disks: Disks,
    pub(crate) under_way: UnderWay,
    pub(crate) zygotes: Zygotes,
    pub(crate) launcher: ForkServer,
    pub(crate) launches: Arc<LaunchCounts>,
    /// True if parts of sandboxes are made ready.
    keeps_ready: AtomicBool,
    pub(crate) leftovers: Leftovers,
    queues: QueueWatch,
    locks: LockWatch,
    agent: OwnedFd,
    /// Every sandbox that was launched or adopted by this server and not destroyed yet, those
    /// that are being launched included.
    entries: Mutex<HashMap<SandboxId, Entry>>,
    /// Step at which the next launches are to fail. For tests.
    fail_at: Mutex<Option<Step>>,
}

/// Numbers of launched sandboxes, by the kind of their launcher.
#[derive(Debug, Default)]
pub struct LaunchCounts {
    /// Those launched by a fork of the fork server.
    pub by_fork: Counter,
    /// Those launched by a launcher of their own, because the fork server did not answer.
    pub by_own_launcher: Counter,
}

#[derive(Debug, Clone)]
struct Entry {
    slot: Slot,
    egress: Egress,
    /// Missing until it runs.
    sandbox: Option<Arc<NativeSandbox>>,
}

/// Counters that only a living sandbox has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LastLook {
    /// Bytes of memory, and processes.
    in_use: (u64, u32),
    /// Bytes that came and that it sent.
    traffic: (u64, u64),
}

impl LastLook {
    /// Adds what was seen to what is counted beyond the end.
    pub(crate) fn complete(self, usage: Usage) -> Usage {
        Usage {
            memory_bytes: self.in_use.0,
            pids: self.in_use.1,
            received_bytes: self.traffic.0,
            sent_bytes: self.traffic.1,
            ..usage
        }
    }
}

/// A sandbox whose first process runs, but has not said that it listens.
#[derive(Debug)]
pub(crate) struct LaunchedProcess {
    pub(crate) started: Started,
    /// Gets one byte when the agent listens.
    pub(crate) ready: OwnedFd,
    pub(crate) agent_stderr: OwnedFd,
    pub(crate) log: Log,
    /// Socket on which its agent asks for kernels, if it is below a zygote.
    pub(crate) forks: Option<OwnedFd>,
    pub(crate) meter: Option<DiskMeter>,
    /// Duration of making disk and cgroups.
    pub(crate) prepared_in: Duration,
    /// Duration of the launcher's work.
    pub(crate) launched_in: Duration,
}

impl Host {
    pub(crate) fn new(
        config: NativeConfig,
        naming: Naming,
        cgroups: Cgroups,
        boot: String,
    ) -> io::Result<Self> {
        fs::create_dir_all(config.data_dir.join("sandboxes"))?;
        let agent = rustix::fs::open(&config.agent, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let io = config
            .disk_bytes_per_second
            .and_then(|speed| IoLimit::on_disk_of(&config.data_dir, speed));
        Ok(Self {
            naming,
            groups: ReadyGroups::new(&cgroups, config.ready_parts, io).map_err(io::Error::other)?,
            cgroups,
            under_way: UnderWay::default(),
            slots: Slots::new(naming),
            boot,
            logs: KeptLogs::open(config.data_dir.join("logs"))?,
            disks: Disks::new(config.data_dir.join("disks"), config.ready_parts)?,
            zygotes: Zygotes::new(config.zygotes.clone())?,
            launcher: ForkServer::new(config.launcher.clone()),
            launches: Arc::default(),
            keeps_ready: AtomicBool::new(true),
            leftovers: Leftovers::default(),
            queues: QueueWatch::default(),
            locks: LockWatch::new(),
            agent,
            entries: Mutex::default(),
            fail_at: Mutex::default(),
            config,
        })
    }

    /// Registers a sandbox before anything of it is made, so that a sweep spares it. False if
    /// there is one of that name already, which is left as it is.
    pub(crate) fn register(&self, id: &SandboxId, slot: Slot, egress: Egress) -> bool {
        match self.entries.lock().entry(id.clone()) {
            hash_map::Entry::Occupied(_) => false,
            hash_map::Entry::Vacant(vacant) => {
                vacant.insert(Entry {
                    slot,
                    egress,
                    sandbox: None,
                });
                true
            }
        }
    }

    /// Makes a sandbox findable.
    pub(crate) fn attach(&self, id: &SandboxId, sandbox: &Arc<NativeSandbox>) {
        if let Some(entry) = self.entries.lock().get_mut(id) {
            entry.sandbox = Some(Arc::clone(sandbox));
        }
    }

    /// Forgets a sandbox of which nothing is left.
    pub(crate) fn unregister(&self, id: &SandboxId, slot: Slot) {
        self.entries.lock().remove(id);
        self.slots.give_back(slot);
        self.zygotes.end_unused(self);
    }

    /// The sandbox of this name, if it runs here.
    pub(crate) fn sandbox(&self, id: &SandboxId) -> Option<Arc<NativeSandbox>> {
        self.entries.lock().get(id)?.sandbox.clone()
    }

    pub(crate) fn knows(&self, id: &SandboxId) -> bool {
        self.entries.lock().contains_key(id)
    }

    /// Makes everything a sandbox needs and starts its first process. Blocks.
    ///
    /// What was made before a failure is left for [`Host::remove`].
    pub(crate) fn launch(
        &self,
        request: &LaunchRequest,
        slot: Slot,
        holder: Option<&Holder>,
    ) -> Result<LaunchedProcess, LaunchError> {
        let start = Instant::now();
        let directory = self.directory(&request.id);
        let image = directory.join(plan::IMAGE);
        make_directory(&directory)?;
        make_directory(&directory.join(plan::STAGING))?;
        let disk = self
            .disks
            .mount(&image, request.resources.disk_mib)
            .map_err(failed("make the sandbox's disk"))?;
        let meter = DiskMeter::of(disk.as_fd());
        let group = Group::new(&request.id);
        let join_fds = self
            .groups
            .make(&self.cgroups, &group, &request.resources)
            .map_err(failed("make the sandbox's cgroup"))?;
        let owner = self.config.has(Defence::OwnUsers).then(|| slot.first_id());
        let kernels = self.cgroups.delegate(&group, owner);
        let kernels = kernels.map_err(failed("give the agent its cgroups"))?;

        let mut descriptors = Descriptors::default();
        let config = sealed_file("agent-config", request.agent_config.reveal())
            .map_err(failed("store the agent's configuration"))?;
        let (ready, theirs) = io::pipe().map_err(failed("make a pipe"))?;
        let agent_stderr = stderr_file().map_err(failed("make room for last words"))?;
        let log = Log::new().map_err(failed("make the sandbox's log"))?;
        let copy = |file: &OwnedFd| file.try_clone().map_err(failed("copy a descriptor"));
        let forks = holder.map(|_| packet::pair()).transpose();
        let (forks, asking) = forks.map_err(failed("make a socket"))?.unzip();
        let zygote = match (holder, asking) {
            (Some(holder), Some(asking)) => {
                let parent = Parent {
                    namespace: descriptors.add(copy(&holder.namespace)?),
                    first: holder.first_id(slot),
                };
                Some((parent, descriptors.add(asking)))
            }
            (None, _) | (_, None) => None,
        };
        let passed = plan::Passed {
            zygote,
            disk: descriptors.add(disk),
            join: descriptors.add_all(join_fds.join),
            home: descriptors.add_all(join_fds.home),
            agent: descriptors.add(copy(&self.agent)?),
            agent_stderr: descriptors.add(copy(&agent_stderr)?),
            log: descriptors.add(log.share().map_err(failed("copy a descriptor"))?),
            config: descriptors.add(config),
            ready: descriptors.add(theirs),
            work: descriptors.add_all(join_fds.work),
            kill_count: descriptors.add(join_fds.kill_count),
            kernels: kernels
                .into_iter()
                .map(|(name, file)| (name, descriptors.add(file)))
                .collect(),
        };
        let plan = plan::plan(self, request, slot, &directory, &passed);
        let prepared_in = start.elapsed();
        let started = self.run_launcher(&request.id, &plan, descriptors)?;
        Ok(LaunchedProcess {
            meter,
            started,
            ready: ready.into(),
            agent_stderr,
            log,
            forks,
            prepared_in,
            launched_in: start.elapsed().saturating_sub(prepared_in),
        })
    }

    fn run_launcher(
        &self,
        id: &SandboxId,
        plan: &LaunchPlan,
        descriptors: Descriptors,
    ) -> Result<Started, LaunchError> {
        let launched = self
            .launcher
            .launch(plan, descriptors, LAUNCHER_TIMEOUT)
            .map_err(told_by_launcher);
        let (started, launched_by) = launched?;
        match launched_by {
            LaunchedBy::Fork => self.launches.by_fork.add_one(),
            LaunchedBy::OwnLauncher { reason } => {
                tracing::warn!(sandbox = %id, reason, "fork server failed and was replaced");
                self.launches.by_own_launcher.add_one();
            }
        }
        Ok(started)
    }

    /// Makes parts of sandboxes ready, as long as nobody waits for a sandbox. Blocks.
    pub(crate) fn make_ready(&self) {
        self.under_way.in_quiet_moments(|| {
            if !self.keeps_ready.load(Ordering::Relaxed) {
                return false;
            }
            self.groups.make_one_ready(&self.cgroups);
            self.disks.make_one_ready();
            self.groups.wants_more() || self.disks.ready.wants_more()
        });
    }

    /// Says whether parts of sandboxes may be made ready; lets them go if not. Blocks.
    pub(crate) fn allow_pools(&self, allowed: bool) {
        self.keeps_ready.store(allowed, Ordering::Relaxed);
        if !allowed {
            self.zygotes.end_without_sandboxes(self);
            self.clear_ready();
        }
    }

    /// Capacity of the host for sandboxes. Blocks.
    pub(crate) fn capacity(&self) -> io::Result<HostCapacity> {
        let mut capacity = host_capacity(&self.config.data_dir, &self.config.cgroup_root)?;
        let (total, available) = self.slots.count();
        capacity.slots = Capacity {
            total: u64::try_from(total).map_err(io::Error::other)?,
            available: u64::try_from(available).map_err(io::Error::other)?,
        };
        Ok(capacity)
    }

    /// The sandboxes whose disk has lost writes. Blocks.
    pub(crate) fn damaged(&self) -> Vec<SandboxId> {
        let sandboxes: Vec<_> = {
            let entries = self.entries.lock();
            let sandboxes = entries.iter().filter_map(|(id, entry)| {
                let meter = entry.sandbox.as_ref()?.meter()?;
                Some((id.clone(), meter))
            });
            sandboxes.collect()
        };
        let has_lost = |(id, meter): &(SandboxId, DiskMeter)| {
            let (devices, file_systems) = (Path::new(BLOCK_DEVICES), Path::new(FILE_SYSTEMS));
            let image = self.directory(id).join(plan::IMAGE);
            let lost = meter.has_lost_writes(devices, file_systems, &image);
            // One that ends takes its disk away while we look.
            lost.unwrap_or_else(|error| {
                tracing::debug!(sandbox = %id, %error, "cannot look at a disk");
                false
            })
        };
        let damaged = sandboxes.into_iter().filter(has_lost);
        damaged.map(|(id, _)| id).collect()
    }

    /// The sandboxes whose sockets or locks hold too much of the host's memory. Blocks.
    pub(crate) fn hoarding(&self) -> Vec<SandboxId> {
        let sandboxes = || {
            let entries = self.entries.lock();
            let sandboxes = entries.iter().filter_map(|(id, entry)| {
                let pid = entry.sandbox.as_ref()?.pid();
                Some((id.clone(), pid))
            });
            sandboxes.collect::<Vec<_>>()
        };
        let memory = |id: &SandboxId| {
            let limit = self.cgroups.memory_limit(&Group::new(id));
            limit.map_err(io::Error::other)
        };
        let with_queues = self.queues.look(sandboxes, memory);
        let mut hoarding = with_queues.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot see what sockets hold");
            Vec::new()
        });
        let with_locks = self.locks.look(sandboxes);
        hoarding.extend(with_locks.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot see who holds locks");
            Vec::new()
        }));
        hoarding
    }

    /// Lets go of everything that is ready. Blocks.
    pub(crate) fn clear_ready(&self) {
        self.groups.clear(&self.cgroups);
        self.disks.clear_ready();
    }

    /// Removes whatever is there of a sandbox, from its processes to its files. Blocks until
    /// `deadline`, and then as long as removing takes.
    ///
    /// Goes on when something cannot be removed, and reports the first such thing. Finding
    /// nothing is no error. As long as processes live their groups, limits and files stay; only
    /// their network goes.
    pub(crate) fn remove(
        &self,
        id: &SandboxId,
        slot: Option<Slot>,
        deadline: Instant,
    ) -> Result<(), DestroyError> {
        let left = |what: &str, source: Box<dyn std::error::Error + Send + Sync>| {
            tracing::debug!(sandbox = %id, what, error = %Chain(source.as_ref()), "cannot remove");
            let what = what.to_owned();
            DestroyError { what, source }
        };
        let ended = self.cgroups.destroy(&Group::new(id), deadline);
        let ended = ended.map_err(|error| left("processes and their cgroups", error.into()));
        let unlinked = slot.map_or(Ok(()), gateway::remove_link);
        let unlinked = unlinked.map_err(|error| left("network link", error.into()));
        ended.and_then(|()| {
            let removed = remove_directory(&self.directory(id));
            unlinked.and(removed.map_err(|error| left("files", error.into())))
        })
    }

    /// The slots whose ids living processes of a sandbox have: nobody else may have them.
    /// Blocks.
    pub(crate) fn slots_in_use(&self, id: &SandboxId) -> Vec<Slot> {
        let processes = self.cgroups.processes(&Group::new(id));
        let processes = processes.unwrap_or_else(|error| {
            tracing::warn!(sandbox = %id, error = %Chain(&error), "cannot list processes");
            Vec::new()
        });
        let mut slots = Vec::new();
        for process in processes {
            // It may have ended meanwhile, which is what everybody wants.
            let map = fs::read_to_string(format!("/proc/{process}/uid_map"));
            slots.extend(self.naming.slots_in_map(&map.unwrap_or_default()));
        }
        slots.sort_by_key(|slot| slot.number());
        slots.dedup();
        slots
    }

    /// Finds everything that is there and belongs to no sandbox of this server. Blocks.
    pub(crate) fn find_leftovers(&self) -> Result<(Vec<SandboxId>, Vec<Slot>), DestroyError> {
        let unlisted = |what: &str| {
            let what = what.to_owned();
            move |source: Box<dyn std::error::Error + Send + Sync>| DestroyError { what, source }
        };
        let groups = self.cgroups.list();
        let mut names = groups.map_err(|error| unlisted("cgroups")(error.into()))?;
        let directories = fs::read_dir(self.config.data_dir.join("sandboxes"));
        for directory in directories.map_err(|error| unlisted("files")(error.into()))? {
            let directory = directory.map_err(|error| unlisted("files")(error.into()))?;
            names.extend(directory.file_name().into_string());
        }
        names.sort();
        names.dedup();
        let ids = names.iter().filter_map(|name| name.parse().ok());
        let ids = ids.filter(|id| !self.knows(id)).collect();
        let links = gateway::links(self.naming);
        let links = links.map_err(|error| unlisted("network links")(error.into()))?;
        let links = links.into_iter().filter(|slot| !self.slots.is_taken(*slot));
        Ok((ids, links.collect()))
    }

    /// Reads the log of a sandbox, also after its end. Blocks.
    pub(crate) fn read_log(&self, id: &SandboxId) -> io::Result<Vec<u8>> {
        match self.sandbox(id) {
            Some(sandbox) => sandbox.read_log(),
            None => self.logs.read(id),
        }
    }

    /// Keeps the log of a sandbox beyond its end. Blocks.
    pub(crate) fn keep_log(&self, id: &SandboxId, log: &Log) {
        let kept = log.read().and_then(|text| self.logs.keep(id, &text));
        if let Err(error) = kept {
            tracing::warn!(sandbox = %id, %error, "sandbox log is lost");
        }
    }

    /// Usage of a sandbox. Blocks.
    pub(crate) fn usage(
        &self,
        id: &SandboxId,
    ) -> Result<Usage, Box<dyn std::error::Error + Send + Sync>> {
        let mut usage = self.cgroups.usage(&Group::new(id))?;
        usage.disk_bytes = disk::used(&self.directory(id).join(plan::IMAGE))?;
        let entry = self.entries.lock().get(id).cloned();
        let slot = entry.as_ref().map(|entry| entry.slot);
        let sandbox = entry.and_then(|entry| entry.sandbox);
        self.add_disk_traffic(&mut usage, id, sandbox.and_then(|sandbox| sandbox.meter()));
        // A sandbox that ends takes its link with it, before anybody could read the counters.
        if let Some(Ok(traffic)) = slot.map(gateway::traffic) {
            (usage.received_bytes, usage.sent_bytes) = traffic;
        }
        Ok(usage)
    }

    /// Counters of a sandbox that are gone in a moment, once it is
    /// killed. Takes microseconds, and what cannot be read is left out.
    pub(crate) fn last_look(&self, id: &SandboxId, slot: Slot) -> LastLook {
        let in_use = self.cgroups.in_use(&Group::new(id)).unwrap_or_default();
        let traffic = gateway::traffic(slot).unwrap_or_default();
        LastLook { in_use, traffic }
    }

    /// Usage of a sandbox that ended while there was no server, as far as it is known. Blocks.
    pub(crate) fn final_usage(&self, record: &Record) -> Usage {
        let mut usage = self
            .cgroups
            .usage(&Group::new(&record.id))
            .unwrap_or_else(|error| {
                tracing::debug!(sandbox = %record.id, %error, "counters are gone");
                Usage::default()
            });
        let image = self.directory(&record.id).join(plan::IMAGE);
        usage.disk_bytes = disk::used(&image).unwrap_or_default();
        self.add_disk_traffic(&mut usage, &record.id, record.meter);
        usage
    }

    fn add_disk_traffic(&self, usage: &mut Usage, id: &SandboxId, meter: Option<DiskMeter>) {
        let image = self.directory(id).join(plan::IMAGE);
        let traffic = meter.map(|meter| meter.traffic(Path::new(BLOCK_DEVICES), &image));
        match traffic {
            Some(Ok(traffic)) => {
                usage.disk_read_bytes = traffic.read;
                usage.disk_written_bytes = traffic.written;
            }
            Some(Err(error)) => tracing::debug!(sandbox = %id, %error, "disk traffic is lost"),
            None => {}
        }
    }

    pub(crate) fn fail_at(&self) -> Option<Step> {
        *self.fail_at.lock()
    }

    pub(crate) fn set_fail_at(&self, step: Option<Step>) {
        *self.fail_at.lock() = step;
    }

    /// Forgets every sandbox, so that a sweep removes it.
    pub(crate) fn clear(&self) {
        for (_, entry) in self.entries.lock().drain() {
            self.slots.give_back(entry.slot);
        }
    }

    pub(crate) fn directory(&self, id: &SandboxId) -> PathBuf {
        self.config.data_dir.join("sandboxes").join(id.as_str())
    }
}

impl dns::Clients for Host {
    fn may_resolve(&self, address: Ipv4Addr) -> bool {
        self.entries
            .lock()
            .values()
            .any(|entry| entry.slot.address() == address && entry.egress == Egress::Internet)
    }
}

/// Makes the file for a standard error, in memory: a file on disk would have to be bounded by somebody,
/// and a pipe would break when the server is restarted.
pub(crate) fn stderr_file() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("agent-stderr", flags)?;
    rustix::fs::ftruncate(&file, STDERR_BYTES)?;
    let seals = SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, seals)?;
    Ok(file)
}

/// Reads the standard error of an agent.
pub(crate) fn read_stderr(words: &OwnedFd) -> io::Result<String> {
    use std::os::unix::fs::FileExt;
    let mut bytes = vec![0; usize::try_from(STDERR_BYTES).map_err(io::Error::other)?];
    let file = File::from(words.try_clone()?);
    let length = file.read_at(&mut bytes, 0)?;
    let text = bytes[..length].split(|byte| *byte == 0).next();
    Ok(String::from_utf8_lossy(text.unwrap_or_default()).into_owned())
}

pub(crate) fn failed<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
    operation: &str,
) -> impl FnOnce(E) -> LaunchError {
    let operation = operation.to_owned();
    move |source| LaunchError::Host {
        operation,
        source: source.into(),
    }
}

fn told_by_launcher(error: SpawnError) -> LaunchError {
    match error {
        SpawnError::Step {
            step,
            thing,
            source,
        } => LaunchError::Step {
            step: match thing {
                Some(thing) => format!("{step} `{thing}`"),
                None => step.to_string(),
            },
            source: source.into(),
        },
        SpawnError::Start { .. }
        | SpawnError::Send(_)
        | SpawnError::Receive(_)
        | SpawnError::Died(_)
        | SpawnError::Silent(_) => failed("run the launcher")(error),
    }
}

fn make_directory(path: &Path) -> Result<(), LaunchError> {
    fs::create_dir(path).map_err(failed(&format!("make `{}`", path.display())))
}

fn remove_directory(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
