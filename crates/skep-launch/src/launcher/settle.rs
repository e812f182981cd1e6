//! The cgroups of the new process, once it has its cgroup namespace.
//!
//! A cgroup namespace shows the groups below the one that its first process was in when it was made.
//! So that a sandbox sees its own groups and no way out of them, that is the sandbox's group, and
//! the process is moved below it afterwards.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use rustix::thread::UnshareFlags;
use skep_linux::Child;

use super::Launch;
use crate::step_error::{About, StepError};
use crate::{CgroupSettings, Users};

/// Time limit for a process that has ended to be gone from its cgroup.
const GONE_TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(1);

/// Moves the process to where it lives, and writes what could not be written before.
pub(super) fn settle(launch: Launch<'_>, child: &Child) -> Result<(), StepError> {
    let home = &launch.plan.home_cgroups;
    launch.move_to(home, child.pid)?;
    let Some(settings) = &launch.plan.cgroup_settings else {
        return Ok(());
    };
    apply(launch, settings)
}

/// Leaves the cgroup namespace for a new one, with the sandbox's group as its root, where controllers
/// are enabled only below groups that nobody is in: no process can be moved there later to make the
/// namespace.
pub(super) fn settle_launcher(launch: Launch<'_>) -> Result<(), StepError> {
    let Some(settings) = &launch.plan.cgroup_settings else {
        return Ok(());
    };
    skep_linux::leave_namespaces(UnshareFlags::NEWCGROUP)?;
    apply(launch, settings)
}

fn apply(launch: Launch<'_>, settings: &CgroupSettings) -> Result<(), StepError> {
    // The launcher is in the sandbox's group, too, and would be in the way.
    launch.join(&launch.plan.home_cgroups)?;
    let deadline = Instant::now() + GONE_TIMEOUT;
    for (path, text) in &settings.files {
        write(launch, settings, path, text, deadline).about(|| path.clone())?;
    }
    let Users::Range { first, .. } = launch.plan.users else {
        return Ok(());
    };
    for path in &settings.given {
        give(launch, settings, path, first).about(|| path.clone())?;
    }
    Ok(())
}

/// Gives a directory and the files in it to a user.
fn give(
    launch: Launch<'_>,
    settings: &CgroupSettings,
    path: &str,
    owner: u32,
) -> Result<(), StepError> {
    let (user, group) = (Uid::from_raw(owner), Gid::from_raw(owner));
    let directory = open(launch, settings, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
    rustix::fs::fchown(&directory, Some(user), Some(group))?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type() == FileType::RegularFile {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(&directory, name, Some(user), Some(group), flags)?;
        }
    }
    Ok(())
}

/// Opens a file below the directory of the settings.
pub(super) fn open(
    launch: Launch<'_>,
    settings: &CgroupSettings,
    path: &str,
    flags: OFlags,
) -> Result<OwnedFd, StepError> {
    let directory = launch.descriptors.get(settings.directory)?;
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(rustix::fs::openat(directory, path, flags, Mode::empty())?)
}

fn write(
    launch: Launch<'_>,
    settings: &CgroupSettings,
    path: &str,
    text: &str,
    deadline: Instant,
) -> Result<(), StepError> {
    let file = open(launch, settings, path, OFlags::WRONLY)?;
    loop {
        match rustix::io::write(&file, text.as_bytes()) {
            // A helper that has ended, and was waited for, leaves its cgroup a moment later, of
            // which the kernel tells nobody.
            Err(Errno::BUSY) if Instant::now() < deadline => pause(),
            written => return Ok(written.map(drop)?),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the launcher has one thread and nothing else to do"
)]
fn pause() {
    std::thread::sleep(PAUSE);
}
