//! A `/dev` with nothing of the host in it.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, Uid, makedev};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use super::root::memory_mount;
use super::tree::{self, FsOption};
use crate::step_error::{About, StepError};
use crate::{Defence, LaunchPlan, Privileges, Users};

/// Devices that are only a behaviour of the kernel: name, major and minor number.
const DEVICES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

const LINKS: [(&str, &str); 5] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// The group that terminals belong to, on Debian and everywhere else.
const TTY_GROUP: u32 = 5;

/// Terminals that one sandbox may have open: the host has a few thousand for all.
const TERMINALS: u32 = 64;

/// Makes `/dev`, `/dev/pts` and `/dev/shm`. Terminals and shared memory are mounts of their own,
/// which can be written to also where `/dev` cannot.
pub(super) fn make(root: &OwnedFd, plan: &LaunchPlan) -> Result<(), StepError> {
    if !plan.has(Defence::MinimalDev) {
        return take_over(root, plan.users);
    }
    // The mounts are made in the host's user namespace, so the ids on them are the host's.
    let first = match plan.users {
        Users::Host => 0,
        Users::Range { first, .. } => first,
    };
    let devices = tree::new_mount(
        "tmpfs",
        &[
            FsOption::Value("size", "64k".into()),
            FsOption::Value("nr_inodes", "64".into()),
            FsOption::Value("mode", "755".into()),
            FsOption::Value("uid", first.to_string()),
            FsOption::Value("gid", first.to_string()),
        ],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
    )?;
    let own = |name: &str| {
        rustix::fs::chownat(
            &devices,
            name,
            Some(Uid::from_raw(first)),
            Some(Gid::from_raw(first)),
            AtFlags::SYMLINK_NOFOLLOW,
        )
        .about(|| format!("/dev/{name}"))
    };
    for (name, major, minor) in DEVICES {
        let mode = Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(
            &devices,
            name,
            FileType::CharacterDevice,
            mode,
            makedev(major, minor),
        )
        .about(|| format!("/dev/{name}"))?;
        own(name)?;
    }
    for (name, target) in LINKS {
        rustix::fs::symlinkat(target, &devices, name).about(|| format!("/dev/{name}"))?;
        own(name)?;
    }
    for name in ["pts", "shm"] {
        rustix::fs::mkdirat(&devices, name, Mode::from_raw_mode(0o755))?;
        own(name)?;
    }
    let place = tree::ensure_directory_itself(root.as_fd(), "/dev", plan.users)?;
    tree::attach(devices.as_fd(), place.as_fd())?;
    if plan.privileges == Privileges::Build && plan.has(Defence::ReadOnlyDev) {
        // This is the only mount on which nodes can be opened, and a step is the host's root.
        skep_linux::add_mount_attributes(devices.as_fd(), libc::MOUNT_ATTR_RDONLY)?;
    }

    let terminals = mount_terminals(first + TTY_GROUP)?;
    let place = tree::ensure_directory(devices.as_fd(), "/pts", plan.users)?;
    tree::attach(terminals.as_fd(), place.as_fd())?;

    let shared = memory_mount(plan.shared_memory_bytes, "1777", plan.users)?;
    let place = tree::ensure_directory(devices.as_fd(), "/shm", plan.users)?;
    tree::attach(shared.as_fd(), place.as_fd())
}

/// A set of terminals, which belong to this group of the host.
fn mount_terminals(group: u32) -> Result<OwnedFd, StepError> {
    let mount = |group: String| {
        tree::new_mount(
            "devpts",
            &[
                FsOption::Flag("newinstance"),
                FsOption::Value("ptmxmode", "0666".into()),
                FsOption::Value("mode", "0620".into()),
                FsOption::Value("gid", group),
                FsOption::Value("max", TERMINALS.to_string()),
            ],
            MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC,
        )
    };
    let as_signed = i64::from(group.cast_signed());
    match mount(group.to_string()) {
        // Kernels before 6.15 parse 64 bits without a sign, take them for a number with one, and
        // keep 32 of them if that fits. Later ones do as they should and refuse such a number.
        Err(error) if error.errno == Errno::INVAL.raw_os_error() && as_signed < 0 => {
            mount(as_signed.cast_unsigned().to_string())
        }
        mounted => mounted,
    }
}

/// The host's own devices and shared memory, for the controls of the attack suite.
fn take_over(root: &OwnedFd, users: Users) -> Result<(), StepError> {
    for path in ["/dev", "/dev/pts", "/dev/shm"] {
        let mount = tree::copy_mount(CWD, path)?;
        let place = tree::ensure_directory(root.as_fd(), path, users)?;
        tree::attach(mount.as_fd(), place.as_fd()).about(|| path.into())?;
    }
    Ok(())
}
