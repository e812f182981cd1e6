//! Confinement of a process of ours that reads what a stranger has written, such as the layers of
//! an image.
//!
//! It stays in the host's user namespace, because what it writes has the natural ids of a layer,
//! and gives up everything that this would be worth: the directory that it writes to is its whole
//! file system, no device can be made or opened there, it has no network, and the kernel answers
//! only the few system calls that files need.

mod relay;

use std::io;
use std::os::fd::AsFd;

use rustix::fs::CWD;
use rustix::mount::{MountAttrFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags};
use rustix::mount::{UnmountFlags, mount_change, move_mount, open_tree, unmount};
use rustix::process::{Resource, Rlimit, Signal, pivot_root, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags};

use crate::capabilities::cut_bounding_set_to;
use crate::filter::filter_of_file_calls;
pub use relay::{RelayLimits, confine_relay};

/// Capabilities by which files get the owners, modes and attributes that a layer says. Not the one
/// to make devices: the mark of a removed file, which is one in form, needs none.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::SETFCAP);

/// Namespaces that the process leaves.
const NAMESPACES: UnshareFlags = UnshareFlags::NEWNS
    .union(UnshareFlags::NEWNET)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS);

/// System calls on files, memory and the process itself.
const CALLS: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_readlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fsetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_getdents64,
    libc::SYS_fcntl,
    libc::SYS_tgkill,
];

/// Limits of a confined process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfinedLimits {
    /// Address space, in bytes.
    pub memory: u64,
    /// Size of the largest file that it may write, in bytes.
    pub file: u64,
    /// Time on a processor, in seconds. The kernel kills it then.
    pub processor_seconds: u64,
    /// Descriptors that it may have open.
    pub open_files: u64,
}

/// Confines this process, for good, to its working directory, which is `/` afterwards, and to what
/// takes no more than `limits`. It dies with the thread that started it.
///
/// Its open descriptors stay open. Call it in a process with one thread that was made for nothing
/// else.
///
/// # Errors
///
/// The first operation that the system refused. The process must end then, because it is confined
/// by half.
pub fn confine(limits: ConfinedLimits) -> Result<(), ConfineError> {
    use ConfineError as Error;

    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(Error::of("tie the process to its parent"))?;
    limit(limits).map_err(Error::of("set limits"))?;
    skep_linux::leave_namespaces(NAMESPACES).map_err(Error::of("leave namespaces"))?;
    enter_working_directory().map_err(Error::of("make the working directory the root"))?;
    cut_bounding_set_to(KEPT).map_err(Error::of("cut capabilities"))?;
    // Before the capabilities go: without new privileges a filter needs none.
    rustix::thread::set_no_new_privs(true).map_err(Error::of("give up new privileges"))?;
    let sets = CapabilitySets {
        effective: KEPT,
        permitted: KEPT,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets).map_err(Error::of("give up capabilities"))?;
    let filter = filter_of_file_calls(CALLS).map_err(Error::of("make the filter"))?;
    skep_linux::install_filter(&filter).map_err(Error::of("install the filter"))
}

/// The system has refused a part of a confinement.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action}")]
pub struct ConfineError {
    action: &'static str,
    source: io::Error,
}

impl ConfineError {
    fn of<E: Into<io::Error>>(action: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self {
            action,
            source: error.into(),
        }
    }
}

fn limit(limits: ConfinedLimits) -> io::Result<()> {
    for (resource, most) in [
        (Resource::As, limits.memory),
        (Resource::Fsize, limits.file),
        (Resource::Cpu, limits.processor_seconds),
        (Resource::Nofile, limits.open_files),
        (Resource::Core, 0),
    ] {
        setrlimit(resource, rlimit(most))?;
    }
    Ok(())
}

/// A limit that nobody raises again.
fn rlimit(most: u64) -> Rlimit {
    Rlimit {
        current: Some(most),
        maximum: Some(most),
    }
}

/// Makes the working directory the root of this process, as a mount of its own on which no
/// program runs and no device works, and lets go of the host's.
fn enter_working_directory() -> io::Result<()> {
    // What is mounted here must not appear on the host.
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", private)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, ".", flags)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    skep_linux::add_mount_attributes(tree.as_fd(), u64::from(attributes.bits()))?;
    let moving = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&tree, "", CWD, ".", moving)?;
    rustix::process::fchdir(&tree)?;
    pivot_root(".", ".")?;
    // The old root lies on top of the new one now, and the current directory is in it.
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}
