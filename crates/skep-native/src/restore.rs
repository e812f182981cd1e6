//! Sandboxes that are restored with their memory.
//!
//! A restore is a launch up to the point where the first process would be made; see
//! [`skep_launch::Restoration`]. Before anything of it runs, every task is compared from outside
//! with what a launch makes, and everything but the agent is told to stand until the agent knows
//! which sandbox it is.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use skep_agent_protocol::MemoryInfo;
use skep_checkpoint::{ExternalFile, NewPlace, Origin};
use skep_host::{CgroupSource, IDS, Lease, LogHolder, Parts, TakenSlot, Terms};
use skep_isolation::{LaunchError, Sandbox as _};
use skep_launch::{
    Descriptors, LaunchPlan, Lifetime, Program, Restoration, RestoredFile, Root, Stage, Top,
};
use skep_telemetry::Chain;

use crate::defence::Defence;
use crate::image::{LaunchOrder, MemoryImage};
use crate::launch::{LaunchedProcess, SandboxLauncher, failed, told_by_host, told_by_launcher};
use crate::memory::{ARCHIVE, Checkpointer, PROCESSES, PROGRAMS};
use crate::plan;
use crate::sandbox::{Checkpoints, NativeSandbox, Source};
use crate::task_bounds::{self, TaskBounds};

/// Time limit for a restore: a second for each gigabyte on a slow disk, and more on a busy host.
const RESTORE_TIMEOUT: Duration = Duration::from_mins(2);

/// Directory of a sandbox in which its restore works.
const WORK: &str = "restore";

impl SandboxLauncher {
    /// Restores a sandbox from an image, and waits until its agent answers. Everything else stands.
    pub(crate) async fn restore(
        self: &Arc<Self>,
        image: MemoryImage,
        checkpoints: &Checkpoints,
    ) -> Result<Arc<NativeSandbox>, LaunchError> {
        let slot = self.leases.take_slot().ok_or(LaunchError::NoRoom("slot"))?;
        let id = image.request.id.clone();
        let (known, new) = (
            image.agent_config.clone(),
            image.request.agent_config.clone(),
        );
        let launching = self.leases.launching();
        let working = Arc::clone(self);
        let checkpointer = Arc::clone(&checkpoints.checkpointer);
        let restored = tokio::task::spawn_blocking(move || {
            working.restore_processes(&image, slot, &checkpointer)
        });
        let launched = restored
            .await
            .unwrap_or_else(|panic| Err(failed("restore the sandbox")(panic)))?;
        let sandbox = self.take_charge(launched, None).await?;
        self.owners.running.add(&id, &sandbox);
        let is_another = known.reveal() != new.reveal();
        // What user code had started stands until its owner has written down that it runs.
        let told = checkpoints
            .agents
            .go_on(sandbox.address(), &known, is_another.then_some(&new))
            .await;
        drop(launching);
        match told {
            Ok(()) => Ok(sandbox),
            Err(error) => {
                sandbox.dispose().await;
                Err(failed("tell the restored agent that it goes on")(error))
            }
        }
    }

    /// Acquires everything that the processes of an image need and restores them. Blocks.
    fn restore_processes(
        &self,
        image: &MemoryImage,
        slot: TakenSlot,
        checkpointer: &Checkpointer,
    ) -> Result<LaunchedProcess, LaunchError> {
        let start = Instant::now();
        let sealed = image.check.descriptions();
        sealed.map_err(failed("read the image"))?;
        // The memory meanwhile, which nobody reads: what is approved waits for it.
        let check = Arc::clone(&image.check);
        drop(std::thread::spawn(move || check.pages()));
        let request = &image.request;
        let terms = Terms {
            id: request.id.clone(),
            slot,
            egress: request.egress.clone(),
            resources: request.resources,
            cgroups: CgroupSource::Pool,
            disk: image.disk.clone(),
        };
        let (mut lease, parts) = self.leases.acquire(terms).map_err(told_by_host)?;
        let order = LaunchOrder::of(request).map_err(failed("read the configuration"))?;
        (order.keep(&lease)).map_err(failed("write down how the sandbox was launched"))?;
        let plan = self
            .plan_restore(image, &lease, parts, checkpointer)
            .map_err(failed("prepare the restore"))?;
        let mut refused = None;
        let restored = checkpointer.launcher().restore(plan, RESTORE_TIMEOUT, &mut |stage, pid| {
            let approved = match stage {
                Stage::Restored => self.approve(&lease, image, pid, checkpointer),
                Stage::Dumped => Err("it is no restore".into()),
            };
            match approved {
                Ok(()) => true,
                Err(error) => {
                    tracing::error!(sandbox = %lease.id(), error = %Chain(error.as_ref()), "a restored sandbox is not what it was, and is ended");
                    refused = Some(error);
                    false
                }
            }
        });
        let started = restored.map_err(|error| {
            // What stands is killed before it is thawed.
            lease.kill_frozen();
            let log = fs::read_to_string(lease.file(WORK).join("criu.log")).unwrap_or_default();
            let last = skep_checkpoint::error_in(&log);
            tracing::warn!(sandbox = %lease.id(), error = %Chain(&error), criu = last, "restore failed");
            match refused.take() {
                Some(refused) => failed("trust the restored processes")(refused),
                None if !last.is_empty() => failed("restore the processes")(last),
                None => told_by_launcher(error, request),
            }
        })?;
        tracing::debug!(sandbox = %request.id, restored_in = ?start.elapsed(), steps = ?started.timings, "restored");
        let log_fd = image.part.log_fd;
        let holder = LogHolder {
            pid: started.pid,
            fd: log_fd,
        };
        (lease.take_log(holder)).map_err(failed("find the sandbox's log"))?;
        if let Err(error) = fs::remove_dir_all(lease.file(WORK)) {
            tracing::debug!(%error, "what a restore worked with is left until the sandbox ends");
        }
        Ok(LaunchedProcess {
            lease,
            started,
            stderr: None,
            log_fd,
            forks: None,
            layer_disk: None,
        })
    }

    fn plan_restore(
        &self,
        image: &MemoryImage,
        lease: &Lease,
        parts: Parts,
        checkpointer: &Checkpointer,
    ) -> Result<LaunchPlan, Source> {
        let (config, request, part) = (&self.config, &image.request, &image.part);
        let images = private_copy(image, lease)?;
        let mut descriptors = Descriptors::default();
        let root = Root {
            staging: lease.staging(),
            layers: request.layers.clone(),
            below: (parts.below.into_iter())
                .map(|disk| descriptors.add(disk))
                .collect(),
            top: Top::Mounted(descriptors.add(parts.disk)),
        };
        // What it executes is in the image.
        let process = plan::process(config, Program::Path("/".into()));
        let mut plan = LaunchPlan::new(descriptors, plan::users(config, lease), root, process);
        plan.network = plan::network(config, lease);
        plan::show_volumes(&mut plan, config, request)?;
        let memory = u64::from(request.resources.memory_mib) << 20;
        plan.shared_memory_bytes = memory / 2;
        plan.run_bytes = Some(memory / 8);
        plan.memory_info = Some(MemoryInfo::unused(memory).to_text());
        plan.lifetime = Lifetime::Detached;
        let unified = lease.unified_group()?;
        if unified.is_some() != part.is_unified {
            return Err("the image was made with another version of cgroups".into());
        }
        plan.join(parts.join_fds.join);
        // The agent makes groups in them, as it did where it was.
        drop(plan::kernel_cgroups(config, lease)?);
        let mut settings = parts.join_fds.settings;
        lease.make_subgroups(&part.subgroups, settings.as_mut())?;
        if let Some(settings) = settings {
            plan.join_home(parts.join_fds.home);
            plan.set_cgroups(settings.directory, settings.files);
            plan.give_cgroups(settings.given);
        }
        let groups = lease.group_directories()?;
        let mut files = Vec::new();
        for file in &part.survey.files {
            let restored = match &file.origin {
                Origin::Cgroup { path, .. } if part.is_unified => RestoredFile::Cgroup {
                    path: path
                        .to_str()
                        .ok_or("a group's name is not text")?
                        .to_owned(),
                    flags: opening_flags(file).bits(),
                },
                Origin::Cgroup { hierarchy, path } => {
                    let group = groups.get(*hierarchy).ok_or("a hierarchy is gone")?;
                    RestoredFile::Open(plan.attach(open_as(file, &group.join(path))?))
                }
                Origin::Host(path) => {
                    let path = own_program(image, lease, path)?;
                    RestoredFile::Program(plan.attach(File::open(path)?))
                }
                Origin::MemoryInfo => RestoredFile::MemoryInfo,
                Origin::Template(path) => {
                    let path = path.to_str().ok_or("a file's name is not text")?;
                    RestoredFile::Template(path.to_owned())
                }
            };
            files.push((file.key.clone(), restored));
        }
        let archive = plan.attach(File::open(images.join(ARCHIVE))?);
        let mounts = part.survey.mounts.iter();
        plan.restoration = Some(Restoration {
            tool: checkpointer.tool(images, unified),
            mounts: mounts
                .map(|mount| (mount.key.clone(), mount.point.clone()))
                .collect(),
            files,
            archive: (archive, part.memory_points.clone()),
            boot_id: part.boot_id.clone(),
        });
        Ok(plan)
    }

    /// Looks at the processes of a restored sandbox, none of which has run, and lets all but the agent
    /// stand beyond that.
    fn approve(
        &self,
        lease: &Lease,
        image: &MemoryImage,
        first: i32,
        checkpointer: &Checkpointer,
    ) -> Result<(), Source> {
        // Before anything that takes time: if CRIU dies meanwhile, the kernel lets go of whom it has stopped, and what they
        // wrote would be in an image that is older than that.
        lease.order_work(true)?;
        let first_id = lease.slot().first_id();
        let survey = &image.part.survey;
        let mounts: Vec<&str> = (survey.mounts.iter())
            .map(|mount| mount.point.as_str())
            .collect();
        let bounds = TaskBounds {
            first,
            ids: (first_id, IDS),
            capabilities: skep_launch::sandbox_capabilities(),
            marker: skep_linux::MARKER.bits(),
            filters: skep_launch::FILTERS,
            groups: &lease.group_directories()?,
            programs: &checkpointer.programs_of(lease)?,
            mounts: &mounts,
            volumes: &image.request.mounts,
        };
        let processes = if self.config.has(Defence::InspectedTasks) {
            task_bounds::inspect_tree(&bounds)?
        } else {
            skep_checkpoint::tree_of(first)?
        };
        image.check.pages()?;
        skep_checkpoint::own_pipes(&processes, &survey.pipes, first_id)?;
        Ok(())
    }
}

/// Links the processes of an image into the sandbox's own directory, with ids, groups and an address of its own.
fn private_copy(image: &MemoryImage, lease: &Lease) -> Result<PathBuf, Source> {
    let directory = lease.file(WORK).join(PROCESSES);
    fs::create_dir_all(&directory)?;
    // The processes read some of the files themselves, by a descriptor of this directory.
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
    for name in image.part.sealed.names() {
        let own = directory.join(name);
        fs::hard_link(image.processes.join(name), &own)?;
        // A server that was started since has closed them.
        fs::set_permissions(&own, fs::Permissions::from_mode(0o644))?;
    }
    let id = lease.id().to_string();
    let slot = lease.slot();
    let place = NewPlace {
        first_id: slot.first_id(),
        old_group: &image.part.group,
        new_group: &id,
        addresses: image.part.address.map(|old| (old, slot.address())),
    };
    skep_checkpoint::rewrite(&directory, &place)?;
    Ok(directory)
}

/// Links a program of an image into the sandbox's own directory, so that it has a name as long as
/// the sandbox executes it, and the next image finds it there.
fn own_program(image: &MemoryImage, lease: &Lease, path: &Path) -> Result<PathBuf, Source> {
    let mut kept = image.part.programs.iter();
    let Some((_, name)) = kept.find(|(known, _)| known == path) else {
        return Ok(path.to_owned());
    };
    let own = lease.file(name);
    fs::create_dir_all(lease.file(PROGRAMS))?;
    fs::hard_link(image.path.join(name), &own)?;
    Ok(own)
}

/// Opens a file of a cgroup as a process had it open.
fn open_as(file: &ExternalFile, path: &Path) -> Result<OwnedFd, Source> {
    let flags = opening_flags(file) | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Flags of an open file that matter for opening it once more.
fn opening_flags(file: &ExternalFile) -> OFlags {
    let flags = file.flags.unwrap_or_default();
    OFlags::from_bits_retain(flags) & (OFlags::ACCMODE | OFlags::DIRECTORY)
}
