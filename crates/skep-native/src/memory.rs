//! Images of sandboxes with their memory: how one is made.
//!
//! The agent is told first, so that it lets go of what ties it to the host; of a sandbox that stood
//! it alone goes on for that. Then the sandbox stands
//! for a moment, in which everything is listed that is not its own; CRIU stops the processes itself
//! and must not find them frozen. When the memory is written and everything still stands, disk and
//! memory file systems are captured, so that all parts are of one moment. If the sandbox is to stand
//! afterwards it is frozen before CRIU lets go of it.

use std::fs::{self, File};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, ResolveFlags};
use serde::{Deserialize, Serialize};
use skep_checkpoint::{
    Criu, MESSAGE_QUEUE, Origin, Sealed, Surroundings, Survey, SurveyError, WATCHES,
};
use skep_host::{Capture, Lease, Subgroup};
use skep_isolation::AfterCheckpoint;
use skep_launch::{CheckpointTool, Descriptors, DumpPlan, Launcher, SpawnError, Stage};
use skep_telemetry::Chain;
use skep_types::{Checkpoint, ImagePurpose};

use crate::image::{Images, LaunchOrder, NewSeal};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Directory of an image with what CRIU writes.
pub(crate) const PROCESSES: &str = "processes";
/// Archive of the memory file systems in it.
pub(crate) const ARCHIVE: &str = "memory-files.archive";
/// Directory with the executables that the processes have mapped, of an image and of a restored
/// sandbox. They are links to those of the installation and are executed by users of sandboxes, so a
/// server that starts and takes the rights of others from everything leaves them alone: it knows the
/// name.
pub(crate) const PROGRAMS: &str = "programs";

/// Memory file systems of a sandbox.
const MEMORY_POINTS: [&str; 3] = ["/dev", "/dev/shm", "/run"];

/// Time limit for a dump: a second for each gigabyte on a slow disk, and more on a busy host.
const DUMP_TIMEOUT: Duration = Duration::from_mins(2);
/// Time limit for CRIU if the server is gone that would have killed it.
const CRIU_TIMEOUT: Duration = Duration::from_secs(150);
/// Room for deleted files in an image, of which there are few.
const DELETED_FILES: u64 = 512 << 20;
/// Time limit for processes to recover from a CRIU that was killed.
const RECOVERY_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit for the processes to stand while they are looked at.
const STAND_TIMEOUT: Duration = Duration::from_secs(5);

/// Limit on the files of the host that a sandbox has open: files of its cgroups, some for each
/// kernel. A restore passes them in one message with a few others.
const MOST_FILES: usize = Descriptors::MAX - 40;

/// A sandbox has more files of its cgroups open than a restore can pass.
#[derive(Debug, thiserror::Error)]
#[error("more than {MOST_FILES} files of its cgroups are open")]
struct TooManyFiles;

/// The processes of an image, and what they need beside the disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MemoryPart {
    /// Name of the group that the processes were in.
    pub(crate) group: String,
    /// Their address; missing in what older servers have written.
    #[serde(default)]
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) survey: Survey,
    /// True if cgroups were unified, and names of groups begin at the sandbox's own.
    #[serde(default)]
    pub(crate) is_unified: bool,
    pub(crate) subgroups: Vec<Subgroup>,
    pub(crate) memory_points: Vec<String>,
    pub(crate) boot_id: String,
    /// Number of the agent's descriptor of its log.
    pub(crate) log_fd: i32,
    /// Executables of the host that are kept in the image, by their paths.
    pub(crate) programs: Vec<(PathBuf, String)>,
    /// Versions of what made it, for people.
    criu: String,
    kernel: String,
    pub(crate) sealed: Sealed,
}

impl MemoryPart {
    /// Links the files of an image into another, those of the processes in this directory of both.
    pub(crate) fn link(&self, processes: &str, from: &Path, to: &Path) -> io::Result<u64> {
        for name in self.sealed.names() {
            let file = Path::new(processes).join(name);
            fs::hard_link(from.join(&file), to.join(&file))?;
        }
        fs::create_dir(to.join(PROGRAMS))?;
        for (_, name) in &self.programs {
            fs::hard_link(from.join(name), to.join(name))?;
        }
        // Of the same blocks, but the other image may go first, and then this one alone keeps them.
        Ok(self.sealed.bytes())
    }
}

/// CRIU on this host, and what it works with.
#[derive(Debug, Clone)]
pub(crate) struct Checkpointer {
    criu: Criu,
    launcher: Launcher,
    hook: PathBuf,
    cache: PathBuf,
    /// Directories and files of the host that processes may have mapped.
    programs: Vec<PathBuf>,
}

/// The process to be dumped and its state, as its owner knows it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dumped {
    pub(crate) pid: i32,
    pub(crate) log_fd: i32,
    pub(crate) was_frozen: bool,
    pub(crate) after: AfterCheckpoint,
}

/// Failure of a dump.
#[derive(Debug)]
pub(crate) struct DumpError {
    pub(crate) source: Source,
    /// The reason in a word, for counters.
    pub(crate) reason: &'static str,
    /// True if CRIU was killed with the processes in its hands: they are not what they were.
    pub(crate) is_damaged: bool,
}

impl<E: Into<Source>> From<E> for DumpError {
    fn from(error: E) -> Self {
        Self {
            source: error.into(),
            reason: "host",
            is_damaged: false,
        }
    }
}

impl Checkpointer {
    /// Writes what CRIU is called with to a directory of root's. Blocks.
    pub(crate) fn new(
        criu: Criu,
        launcher: Launcher,
        directory: &Path,
        programs: Vec<PathBuf>,
    ) -> io::Result<Self> {
        use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(directory)?;
        let hook = directory.join("hook");
        fs::write(&hook, skep_checkpoint::HOOK)?;
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o700))?;
        // Of this run of the kernel: the next one may be another.
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let cache = directory.join(format!("kernel-{}", boot.trim()));
        let there = programs.into_iter().filter(|path| path.exists());
        let programs = there
            .map(|path| path.canonicalize())
            .collect::<io::Result<_>>()?;
        Ok(Self {
            criu,
            launcher,
            hook,
            cache,
            programs,
        })
    }

    pub(crate) fn launcher(&self) -> &Launcher {
        &self.launcher
    }

    /// Directories and files of the host that processes of a sandbox may have mapped.
    pub(crate) fn programs_of(&self, lease: &Lease) -> io::Result<Vec<PathBuf>> {
        // A sandbox that was restored has what it executes in its own directory.
        let own = lease.file(".").canonicalize()?;
        Ok([self.programs.as_slice(), &[own]].concat())
    }

    /// CRIU in a directory of images, with the sandbox's own group where cgroups are unified.
    pub(crate) fn tool(&self, images: PathBuf, cgroup: Option<PathBuf>) -> CheckpointTool {
        CheckpointTool {
            command: self.criu.command().to_vec(),
            hook: self.hook.display().to_string(),
            images,
            cache: self.cache.clone(),
            timeout: CRIU_TIMEOUT,
            cgroup,
        }
    }

    /// Makes an image of a sandbox whose agent is prepared and runs. Blocks.
    pub(crate) fn dump(
        &self,
        lease: &Lease,
        images: &Images,
        dumped: Dumped,
    ) -> Result<Checkpoint, DumpError> {
        let order = LaunchOrder::kept(lease)?;
        let new = images.begin_memory(dumped.after)?;
        let usage = lease.usage()?;
        // Files that are deleted and still open are on the disk, and go into the image.
        let deleted = usage.disk_bytes.min(DELETED_FILES);
        let bytes = usage.memory_bytes.saturating_add(deleted);
        let _room = lease.room_for(new.path(), bytes)?;
        lease.freeze(Instant::now() + STAND_TIMEOUT)?;
        let part = self.look(lease, new.path(), dumped);
        // Before CRIU comes: it waits for ever for a process that is frozen.
        lease.thaw()?;
        let mut part = part.map_err(not_seen)?;
        let network = File::open(format!("/proc/{}/ns/net", dumped.pid))?;
        let tool = self.tool(new.processes(), lease.unified_group()?);
        let arguments = skep_checkpoint::dump_arguments(dumped.pid, &part.survey, &tool.hook);
        let mut plan = DumpPlan::new(tool, arguments, network);
        if part.is_unified {
            // An image without a root of its cgroup namespace has one that is made before it, by
            // whoever restores it.
            plan.enter_cgroups(File::open(format!("/proc/{}/ns/cgroup", dumped.pid))?);
        }
        let how = match dumped.after {
            AfterCheckpoint::Continue(ImagePurpose::Keep) => Capture::Copy,
            AfterCheckpoint::Continue(ImagePurpose::Copy) => Capture::PassingCopy,
            AfterCheckpoint::Stand => Capture::Keep,
        };
        let stands = dumped.was_frozen || dumped.after == AfterCheckpoint::Stand;
        let mut captured: Option<Result<(u64, NewSeal), Source>> = None;
        let written = self.launcher.dump(&plan, DUMP_TIMEOUT, &mut |stage, _| {
            // The memory is written, and is hashed while the rest is captured and CRIU ends.
            let sealing = new.begin_seal();
            let done = match stage {
                Stage::Dumped => still_there(lease, dumped.pid)
                    .and_then(|()| capture(lease, &new.disk(), &new.processes(), dumped.pid, how)),
                Stage::Restored => Err("it is no dump".into()),
            };
            let done = done.and_then(|bytes| {
                if stands {
                    lease.order_freeze()?;
                }
                Ok((bytes, sealing?))
            });
            let goes_on = done.is_ok();
            captured = Some(done);
            goes_on
        });
        let (disk, sealing) = match (captured, written) {
            (Some(Ok(captured)), Ok(())) => captured,
            (_, Err(error)) if error.damages_processes() => {
                return Err(failure(lease, &error, new.path()));
            }
            (Some(Err(error)), _) => return Err(error.into()),
            (_, Err(error)) => return Err(failure(lease, &error, new.path())),
            (None, Ok(())) => return Err("criu did not ask before its end".into()),
        };
        if stands {
            lease.freeze(Instant::now() + STAND_TIMEOUT)?;
        }
        part.sealed = sealing.finish()?;
        let bytes = disk + part.sealed.bytes();
        let is_last = how == Capture::Keep;
        Ok(new.finish(is_last, order, Some(part), bytes)?)
    }

    /// Lists what is not the sandbox's own, while it stands.
    fn look(&self, lease: &Lease, image: &Path, dumped: Dumped) -> Result<MemoryPart, Source> {
        let groups = lease.group_directories()?;
        let processes = skep_checkpoint::of_tree(dumped.pid, lease.processes()?)?;
        if !processes.contains(&dumped.pid) {
            return Err("its first process is gone".into());
        }
        let around = Surroundings {
            cgroups: &groups,
            programs: &self.programs_of(lease)?,
            first_id: lease.slot().first_id(),
        };
        let survey = Survey::of(dumped.pid, &processes, around)?;
        // Each travels to the launcher of a restore as a descriptor. An image that could not be
        // restored is not made.
        let opened = survey.files.iter().filter(|file| match file.origin {
            Origin::Cgroup { .. } | Origin::Host(_) => true,
            Origin::Template(_) | Origin::MemoryInfo => false,
        });
        if opened.count() > MOST_FILES {
            return Err(TooManyFiles.into());
        }
        let mut programs = Vec::new();
        fs::create_dir(image.join(PROGRAMS))?;
        for file in &survey.files {
            if let Origin::Host(path) = &file.origin {
                let name = format!("{PROGRAMS}/{}", programs.len());
                // A second link keeps it as long as the image needs it. On another file system it
                // is found at its place, or the restore is refused.
                if fs::hard_link(path, image.join(&name)).is_ok() {
                    programs.push((path.clone(), name));
                }
            }
        }
        let boot_id = "/proc/sys/kernel/random/boot_id";
        let boot_id = fs::read_to_string(format!("/proc/{}/root{boot_id}", dumped.pid))?;
        // In the order in which they are packed.
        for point in MEMORY_POINTS {
            if !survey.mounts.iter().any(|mount| mount.point == point) {
                return Err(format!("`{point}` is no mount").into());
            }
        }
        let kernel = rustix::system::uname();
        Ok(MemoryPart {
            group: lease.id().to_string(),
            address: Some(lease.slot().address()),
            memory_points: MEMORY_POINTS.map(str::to_owned).into(),
            survey,
            is_unified: lease.unified_group()?.is_some(),
            subgroups: lease.subgroups()?,
            boot_id,
            log_fd: dumped.log_fd,
            programs,
            criu: self.criu.version().to_owned(),
            kernel: kernel.release().to_string_lossy().into_owned(),
            sealed: Sealed::default(),
        })
    }
}

/// Explains why a sandbox cannot be described: it holds something of the kernel's that is in no image.
fn not_seen(source: Source) -> DumpError {
    let survey = source.downcast_ref::<SurveyError>();
    let lacks = survey.filter(|error| error.source.kind() == io::ErrorKind::Unsupported);
    let reason = match lacks {
        Some(error) if error.what == WATCHES => "watch",
        Some(error) if error.source.to_string() == MESSAGE_QUEUE => "message_queue",
        Some(_) => "foreign_file",
        None if source.is::<TooManyFiles>() => "too_many_kernels",
        None => "host",
    };
    DumpError {
        reason,
        ..DumpError::from(source)
    }
}

/// Requires that a number is still that of a process of the sandbox. CRIU was told the number, and
/// whatever has it stands now.
fn still_there(lease: &Lease, pid: i32) -> Result<(), Source> {
    if lease.processes()?.contains(&pid) {
        return Ok(());
    }
    Err("its first process is gone".into())
}

/// Captures disk and memory file systems of a sandbox that stands.
fn capture(
    lease: &Lease,
    disk: &Path,
    processes: &Path,
    pid: i32,
    how: Capture,
) -> Result<u64, Source> {
    let bytes = lease.capture_disk(disk, how)?;
    let root = File::open(format!("/proc/{pid}/root"))?;
    let mounts = MEMORY_POINTS
        .map(|point| open_mount(&root, point))
        .into_iter()
        .collect::<io::Result<Vec<_>>>()?;
    let first = lease.slot().first_id();
    skep_checkpoint::pack(&mounts, first, &processes.join(ARCHIVE))?;
    Ok(bytes)
}

/// Opens a mount of a sandbox, whose links lead nowhere else.
fn open_mount(root: &File, point: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(skep_linux::retry_openat2(
        root.as_fd(),
        point,
        flags,
        Mode::empty(),
        resolve,
    )?)
}

/// Waits until processes that CRIU had hold of when it was killed have recovered. Blocks.
///
/// # Errors
///
/// If some do not, or the first of them is gone.
pub(crate) fn recover(lease: &Lease, first: i32) -> Result<(), Source> {
    let deadline = Instant::now() + RECOVERY_TIMEOUT;
    loop {
        let processes = lease.processes()?;
        if !processes.contains(&first) {
            return Err("its first process is gone".into());
        }
        if !skep_checkpoint::is_in_the_hands_of_criu(&processes)? {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("some are still held, or in code of criu".into());
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "called where blocking is allowed, and nobody tells when they have recovered"
        )]
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Explains a failed dump, with the reason that CRIU gave.
fn failure(lease: &Lease, error: &SpawnError, image: &Path) -> DumpError {
    let log = fs::read_to_string(image.join("criu.log")).unwrap_or_default();
    let reason = skep_checkpoint::reason_of(&log);
    let last = skep_checkpoint::error_in(&log);
    tracing::warn!(sandbox = %lease.id(), reason, error = %Chain(error), criu = last, "dump failed");
    DumpError {
        source: format!("criu gave up: {last}").into(),
        reason,
        is_damaged: error.damages_processes(),
    }
}
