//! Namespaces for the whole test, so that nothing it does is seen or heard outside.

use std::os::fd::AsFd as _;
use std::process::ExitCode;

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change,
    move_mount, open_tree,
};
use rustix::process::{Signal, WaitId, WaitIdOptions, set_parent_process_death_signal, waitid};
use rustix::thread::UnshareFlags;
use skep_linux::{Child, Cloned};

const SYS: &str = "/sys";
const CGROUPS: &str = "/sys/fs/cgroup";

/// Goes on in namespaces of its own, and gives the end of what goes on there to whoever waits.
/// When that ends, or is killed, everything in it is. To be called before there is a second
/// thread.
pub(crate) fn enter() -> Option<ExitCode> {
    let kinds =
        UnshareFlags::NEWPID | UnshareFlags::NEWNET | UnshareFlags::NEWNS | UnshareFlags::NEWIPC;
    match skep_linux::clone_process(kinds).unwrap() {
        Cloned::Parent(child) => Some(wait(&child)),
        Cloned::Child => {
            set_parent_process_death_signal(Some(Signal::KILL)).unwrap();
            arrange_mounts();
            // A keyring of its own, which sandboxes must not inherit.
            skep_linux::leave_session_keyring().unwrap();
            None
        }
    }
}

fn wait(child: &Child) -> ExitCode {
    let child = WaitId::PidFd(child.pidfd.as_fd());
    let ended = waitid(child, WaitIdOptions::EXITED).unwrap().unwrap();
    match ended.exit_status() {
        Some(0) => ExitCode::SUCCESS,
        Some(_) | None => ExitCode::FAILURE,
    }
}

fn arrange_mounts() {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .unwrap();
    mount(c"none", "/proc", c"proc", MountFlags::empty(), None).unwrap();
    // `/sys` shows the network of whoever mounted it, so it is mounted anew. The cgroups that
    // lie on it are those of the host.
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let cgroups = open_tree(CWD, CGROUPS, flags).unwrap();
    mount(c"none", SYS, c"sysfs", MountFlags::empty(), None).unwrap();
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    move_mount(&cgroups, c"", CWD, CGROUPS, flags).unwrap();
}

/// The interfaces there are.
pub(crate) fn interfaces() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net").unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
