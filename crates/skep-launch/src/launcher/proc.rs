//! `/proc` of the new pid namespace, without what is about the machine.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{WaitId, WaitIdOptions};
use rustix::thread::{ThreadNameSpaceType, UnshareFlags};
use skep_linux::{Child, Cloned};

use super::Machine;
use super::root::{EMPTY_DIRECTORY, locked_down};
use super::tree::{self, FsOption};
use crate::trouble::{On, Trouble};
use crate::{Defence, LaunchPlan, Privileges};

/// What tells about the machine or its other sandboxes, or changes it.
const MASKED: [&str; 22] = [
    "acpi",
    "asound",
    "cgroups",
    "diskstats",
    "driver",
    "dynamic_debug",
    "fs",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "partitions",
    "sched_debug",
    "scsi",
    "slabinfo",
    "sysrq-trigger",
    "timer_list",
    "vmallocinfo",
];

/// What programs read, and must not write.
const READ_ONLY: [&str; 4] = ["bus", "irq", "mtrr", "sys"];

/// Mounts `/proc` for the pid namespace of `child`, and masks it.
pub(super) fn mount(child: &Child, machine: &Machine, plan: &LaunchPlan) -> Result<(), Trouble> {
    let root = open_directory("/")?;
    let place = tree::ensure_directory(root.as_fd(), "/proc", plan.users)?;
    mount_for(child, machine, &place, plan.privileges)?;

    let proc = tree::open_inside(root.as_fd(), "/proc", OFlags::PATH | OFlags::DIRECTORY)?;
    let (masked, read_only): (&[&str], &[&str]) = (
        if plan.has(Defence::MaskedProc) {
            &MASKED
        } else {
            &[]
        },
        if plan.has(Defence::ReadOnlyProc) {
            &READ_ONLY
        } else {
            &[]
        },
    );
    for name in masked {
        let Some((place, kind)) = find(&proc, name)? else {
            continue;
        };
        let mask = if kind == FileType::Directory {
            EMPTY_DIRECTORY
        } else {
            "/dev/null"
        };
        let mask = tree::copy_mount(CWD, mask)?;
        tree::attach(mask.as_fd(), place.as_fd()).on(|| format!("/proc/{name}"))?;
    }
    for name in read_only {
        let Some((place, _)) = find(&proc, name)? else {
            continue;
        };
        let copy = tree::copy_mount(proc.as_fd(), name)?;
        skep_linux::add_mount_attributes(copy.as_fd(), libc::MOUNT_ATTR_RDONLY)?;
        tree::attach(copy.as_fd(), place.as_fd()).on(|| format!("/proc/{name}"))?;
    }
    Ok(())
}

fn mount_for(
    child: &Child,
    machine: &Machine,
    place: &OwnedFd,
    privileges: Privileges,
) -> Result<(), Trouble> {
    let options: &[FsOption<'_>] = match privileges {
        Privileges::Build | Privileges::Sandbox => &[],
        // Among the machine's processes it sees only its own.
        Privileges::Enter => &[FsOption::Value("hidepid", "ptraceable".into())],
    };
    let processes = machine.open_file(&format!("{}/ns/pid", child.pid))?;
    let of_child = FsOption::File("pidns", processes.as_fd());
    let all: Vec<_> = options.iter().cloned().chain([of_child]).collect();
    match tree::new_mount("proc", &all, locked_down()) {
        Ok(proc) => tree::attach(proc.as_fd(), place.as_fd()),
        // Kernels before 6.17 do not know that option.
        Err(Trouble { errno, .. }) if errno == Errno::INVAL.raw_os_error() => {
            mount_from_inside(child, place, options)
        }
        Err(trouble) => Err(trouble),
    }
}

/// Without being told, the kernel shows the pid namespace of whoever mounts, so a process is sent
/// into it. It keeps the machine's user namespace and the launcher's mounts: the new process
/// itself would not be allowed to mount before it sees a whole `/proc`.
fn mount_from_inside(
    child: &Child,
    place: &OwnedFd,
    options: &[FsOption<'_>],
) -> Result<(), Trouble> {
    rustix::thread::move_into_thread_name_spaces(
        child.pidfd.as_fd(),
        ThreadNameSpaceType::PROCESS_ID,
    )?;
    match skep_linux::clone_process(UnshareFlags::empty())? {
        Cloned::Child => {
            let result = tree::new_mount("proc", options, locked_down())
                .and_then(|proc| tree::attach(proc.as_fd(), place.as_fd()));
            skep_linux::exit_now(result.err().map_or(0, |trouble| trouble.errno))
        }
        Cloned::Parent(helper) => {
            let helper = WaitId::PidFd(helper.pidfd.as_fd());
            let ended = rustix::io::retry_on_intr(|| {
                rustix::process::waitid(helper.clone(), WaitIdOptions::EXITED)
            })?;
            match ended.and_then(|ended| ended.exit_status()) {
                Some(0) => Ok(()),
                Some(errno) => Err(Trouble { errno, thing: None }),
                None => Err(Errno::CHILD.into()),
            }
        }
    }
}

fn find(proc: &OwnedFd, name: &str) -> Result<Option<(OwnedFd, FileType)>, Trouble> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(proc, name, flags, Mode::empty()) {
        Ok(file) => {
            let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
            Ok(Some((file, kind)))
        }
        // Kernels are built without one or the other.
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error).on(|| format!("/proc/{name}")),
    }
}

fn open_directory(path: &str) -> Result<OwnedFd, Trouble> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).on(|| path.into())
}
