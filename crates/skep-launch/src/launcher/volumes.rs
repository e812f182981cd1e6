//! Volumes in the new root.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode};
use rustix::mount::UnmountFlags;

use super::tree;
use crate::step_error::{About, StepError};
use crate::{Descriptors, LaunchPlan, VolumeBind};

/// Shows all volumes of a plan in the root. The current directory is the staging directory.
pub(super) fn bind_all(
    root: &OwnedFd,
    plan: &LaunchPlan,
    users: Option<&OwnedFd>,
    descriptors: &Descriptors,
) -> Result<(), StepError> {
    let users = users.map(AsFd::as_fd);
    for (number, volume) in plan.volumes.iter().enumerate() {
        let mount = take_directory(volume, number, descriptors)?;
        show(root, plan, volume, mount, users).about(|| volume.target.clone())?;
    }
    Ok(())
}

/// A mount of the volume's directory alone. What is beside it on the file system is the server's, and
/// is in no namespace of the sandbox.
fn take_directory(
    volume: &VolumeBind,
    number: usize,
    descriptors: &Descriptors,
) -> Result<OwnedFd, StepError> {
    let whole = descriptors.get(volume.mount)?;
    let name = format!("volume-{number}");
    rustix::fs::mkdirat(CWD, &name, Mode::RWXU).about(|| name.clone())?;
    // Only what is attached in this namespace can be copied.
    tree::attach_at(whole, &name)?;
    let mount = tree::copy_mount(CWD, format!("{name}/{}", volume.directory))?;
    rustix::mount::unmount(name.as_str(), UnmountFlags::DETACH).about(|| name.clone())?;
    Ok(mount)
}

fn show(
    root: &OwnedFd,
    plan: &LaunchPlan,
    volume: &VolumeBind,
    mount: OwnedFd,
    users: Option<BorrowedFd<'_>>,
) -> Result<(), StepError> {
    if let Some(users) = users {
        skep_linux::map_ids(mount.as_fd(), users)?;
    }
    let mut attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    if !volume.writable {
        attributes |= libc::MOUNT_ATTR_RDONLY;
    }
    skep_linux::add_mount_attributes(mount.as_fd(), attributes)?;
    let place = tree::ensure_directory(root.as_fd(), &volume.target, plan.users)?;
    tree::attach(mount.as_fd(), place.as_fd())
}
