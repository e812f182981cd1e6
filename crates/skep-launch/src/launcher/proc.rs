//! `/proc` of the new pid namespace, without what is about the host.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::thread::ThreadNameSpaceType;
use skep_linux::Child;

use super::root::{EMPTY_DIRECTORY, locked_down};
use super::tree::{self, FsOption};
use super::{HostProc, in_child};
use crate::step_error::{About, StepError};
use crate::{Defence, LaunchPlan, Privileges};

/// Files that tell about the host or its other sandboxes, or change it. Below `sys` they are
/// those that count what all sandboxes have together.
///
/// Each is a mount in every sandbox, so what says no more than what must stay is not here:
/// programs read `loadavg`, `stat`, `uptime` and `vmstat`, and a call (`sysinfo`) tells the same.
const MASKED_FILES: [&str; 29] = [
    "buddyinfo",
    "cgroups",
    "cmdline",
    "diskstats",
    "interrupts",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    // Whoever reads it holds up all locks of files on the host.
    "locks",
    "partitions",
    "sched_debug",
    "schedstat",
    "slabinfo",
    "softirqs",
    "swaps",
    "sysrq-trigger",
    "timer_list",
    "vmallocinfo",
    "zoneinfo",
    "sys/fs/dentry-state",
    "sys/fs/file-nr",
    "sys/fs/inode-nr",
    "sys/fs/inode-state",
    "sys/kernel/pty/nr",
];

/// Directories of the same kind.
const MASKED_DIRECTORIES: [&str; 7] = [
    "acpi",
    "asound",
    "driver",
    "dynamic_debug",
    "fs",
    "pressure",
    "scsi",
];

/// Mask of files.
const NULL: &str = "/dev/null";

/// Entries that programs read, and must not write.
const READ_ONLY: [&str; 4] = ["bus", "irq", "mtrr", "sys"];

/// Returns the paths that are covered in `/proc` of a sandbox, if the kernel has them.
pub fn covered_proc() -> impl Iterator<Item = String> {
    let masked = MASKED_FILES.iter().chain(&MASKED_DIRECTORIES);
    masked.map(|name| format!("/proc/{name}"))
}

/// Returns the paths that are read-only in `/proc` of a sandbox, if the kernel has them.
pub fn read_only_proc() -> impl Iterator<Item = String> {
    READ_ONLY.iter().map(|name| format!("/proc/{name}"))
}

/// A number that is the same until the host is started anew, and so tells two sandboxes that
/// they are on the same one.
const BOOT_ID: &str = "sys/kernel/random/boot_id";

/// Memory of the host, for which a sandbox has its own.
const MEMORY_INFO: &str = "meminfo";

/// Files of ours that take the place of the kernel's, as mounts that are attached nowhere yet. They
/// lie in the staging directory, which is one sandbox's alone.
#[derive(Debug)]
pub(super) struct OwnFiles {
    boot_id: OwnedFd,
    /// The file itself, open for writing, and its mount, through which nobody can write.
    pub(super) memory_info: Option<(OwnedFd, OwnedFd)>,
}

impl OwnFiles {
    /// Makes them in the staging directory, which is the current one.
    pub(super) fn make(host: &HostProc, plan: &LaunchPlan) -> Result<Self, StepError> {
        let memory_info = plan.memory_info.as_deref().map(make_memory_info);
        let boot_id = match &plan.restoration {
            None => make_boot_id(host)?,
            // Its processes have seen one already.
            Some(restoration) => write_boot_id(restoration.boot_id.as_bytes())?,
        };
        Ok(Self {
            boot_id,
            memory_info: memory_info.transpose()?,
        })
    }

    /// The mount that belongs at a path of the new root.
    pub(super) fn mount_at(&self, path: &str) -> Option<BorrowedFd<'_>> {
        match path.strip_prefix("/proc/")? {
            BOOT_ID => Some(self.boot_id.as_fd()),
            MEMORY_INFO => self.memory_info.as_ref().map(|(_, mount)| mount.as_fd()),
            _ => None,
        }
    }
}

fn make_memory_info(text: &str) -> Result<(OwnedFd, OwnedFd), StepError> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o444);
    let file = rustix::fs::open(MEMORY_INFO, flags, mode).about(|| MEMORY_INFO.into())?;
    rustix::io::write(&file, text.as_bytes())?;
    let mount = tree::copy_mount(CWD, MEMORY_INFO)?;
    let attributes = libc::MOUNT_ATTR_RDONLY
        | libc::MOUNT_ATTR_NOSUID
        | libc::MOUNT_ATTR_NODEV
        | libc::MOUNT_ATTR_NOEXEC;
    skep_linux::add_mount_attributes(mount.as_fd(), attributes)?;
    Ok((file, mount))
}

fn make_boot_id(host: &HostProc) -> Result<OwnedFd, StepError> {
    let mut id = [0; 64];
    // A new one with every reading, in the same form.
    let source = host.open_file("sys/kernel/random/uuid")?;
    let length = rustix::io::read(source, &mut id)?;
    write_boot_id(&id[..length])
}

fn write_boot_id(id: &[u8]) -> Result<OwnedFd, StepError> {
    let name = "boot-id";
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = rustix::fs::open(name, flags, Mode::from_raw_mode(0o444)).about(|| name.into())?;
    rustix::io::write(file, id)?;
    tree::copy_mount(CWD, name)
}

/// Mounts `/proc` for the pid namespace of `child`, and masks it.
pub(super) fn mount(
    child: &Child,
    host: &HostProc,
    own_files: &OwnFiles,
    plan: &LaunchPlan,
) -> Result<(), StepError> {
    let root = open_directory("/")?;
    let place = tree::ensure_directory_itself(root.as_fd(), "/proc", plan.users)?;
    mount_for(child, host, &place, plan.privileges)?;

    let proc = tree::open_inside(root.as_fd(), "/proc", OFlags::PATH | OFlags::DIRECTORY)?;
    if plan.has(Defence::ReadOnlyProc) {
        for name in READ_ONLY {
            let Ok(copy) = tree::copy_mount(proc.as_fd(), name) else {
                // Kernels are built without one or the other.
                continue;
            };
            skep_linux::add_mount_attributes(copy.as_fd(), libc::MOUNT_ATTR_RDONLY)?;
            tree::attach_if_there(copy.as_fd(), proc.as_fd(), name)?;
        }
    }
    if plan.has(Defence::MaskedProc) {
        cover(&root, &MASKED_FILES, NULL, FileType::CharacterDevice)?;
        cover(
            &root,
            &MASKED_DIRECTORIES,
            EMPTY_DIRECTORY,
            FileType::Directory,
        )?;
        tree::attach_if_there(own_files.boot_id.as_fd(), proc.as_fd(), BOOT_ID)?;
        if let Some((_, mount)) = &own_files.memory_info {
            tree::attach_if_there(mount.as_fd(), proc.as_fd(), MEMORY_INFO)?;
        }
    }
    Ok(())
}

/// Puts a mount of `mask` over each of these that is there.
///
/// By the older call, which makes and attaches a mount at once. The newer ones take half as long
/// again for each, and this is the greater part of all mounts of a sandbox. Nobody else is in
/// this root yet, volumes with the files of others come after, and the kernel alone decides what is
/// in `/proc`.
///
/// That call does not say whether it misses the mask or what is masked, and links of a template may
/// have put another mount over the mask. So that is seen first, and is no launch.
fn cover(root: &OwnedFd, names: &[&str], mask: &str, kind: FileType) -> Result<(), StepError> {
    let found = tree::open_inside(root.as_fd(), mask, OFlags::PATH).about(|| mask.into())?;
    let found = rustix::fs::fstat(&found)?;
    if FileType::from_raw_mode(found.st_mode) != kind {
        return Err(Errno::NODEV).about(|| mask.into());
    }
    for name in names {
        match rustix::mount::mount_bind(mask, format!("/proc/{name}")) {
            // Kernels are built without one or the other.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error).about(|| format!("/proc/{name}")),
        }
    }
    Ok(())
}

fn mount_for(
    child: &Child,
    host: &HostProc,
    place: &OwnedFd,
    privileges: Privileges,
) -> Result<(), StepError> {
    let options: &[FsOption<'_>] = match privileges {
        Privileges::Build | Privileges::Sandbox => &[],
        // Among the host's processes it sees only its own.
        Privileges::Enter => &[FsOption::Value("hidepid", "ptraceable".into())],
    };
    let processes = host.open_file(&format!("{}/ns/pid", child.pid))?;
    let of_child = FsOption::File("pidns", processes.as_fd());
    let all: Vec<_> = options.iter().cloned().chain([of_child]).collect();
    match tree::new_mount("proc", &all, locked_down()) {
        Ok(proc) => tree::attach(proc.as_fd(), place.as_fd()),
        // Kernels before 6.17 do not know that option.
        Err(StepError { errno, .. }) if errno == Errno::INVAL.raw_os_error() => {
            mount_from_inside(child, place, options)
        }
        Err(error) => Err(error),
    }
}

/// Mounts from a process that is sent into the pid namespace, because kernels before 6.17 show that
/// of whoever mounts. It keeps the host's user namespace and the launcher's mounts: the new
/// process itself would not be allowed to mount before it sees a whole `/proc`.
fn mount_from_inside(
    child: &Child,
    place: &OwnedFd,
    options: &[FsOption<'_>],
) -> Result<(), StepError> {
    rustix::thread::move_into_thread_name_spaces(
        child.pidfd.as_fd(),
        ThreadNameSpaceType::PROCESS_ID,
    )?;
    // A process never changes its own pid namespace, only that of its children.
    in_child::run(|| {
        let proc = tree::new_mount("proc", options, locked_down())?;
        tree::attach(proc.as_fd(), place.as_fd())
    })
}

fn open_directory(path: &str) -> Result<OwnedFd, StepError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).about(|| path.into())
}
