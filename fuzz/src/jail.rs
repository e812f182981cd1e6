//! A filesystem in which hostile requests may do what they like.
//!
//! The agent works with root's rights on whatever paths it is given. So the thread that runs it,
//! and all threads made from there, see a small filesystem in memory and nothing of the
//! host; libFuzzer's own thread goes on seeing its corpora. There is no program in there
//! that could be started.

use std::ffi::CStr;
use std::io;

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::process::{chdir, pivot_root};

/// Moves this thread in. Needs root.
pub(crate) fn enter() -> io::Result<()> {
    // A place that is there on every host; only this thread sees it covered.
    const PLACE: &str = "/tmp";
    skep_linux::leave_shared_view()?;
    let propagation = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", propagation)?;
    let options = c"mode=755,size=64m,nr_inodes=8192";
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("fuzz", PLACE, "tmpfs", flags, Some::<&CStr>(options))?;
    chdir(PLACE)?;
    pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    chdir("/")?;
    std::fs::create_dir_all("/dev/pts")?;
    let terminals = c"newinstance,ptmxmode=0666";
    mount(
        "terminals",
        "/dev/pts",
        "devpts",
        flags,
        Some::<&CStr>(terminals),
    )?;
    Ok(())
}
