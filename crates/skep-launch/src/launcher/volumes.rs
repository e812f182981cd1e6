//! Volumes in the new root.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode};
use rustix::mount::UnmountFlags;

use super::tree;
use crate::step_error::{About, StepError};
use crate::{Descriptors, LaunchPlan, VolumeBind};

/// Mounts of all volumes of a plan, attached nowhere yet. The current directory is the staging
/// directory.
pub(super) fn take_all(
    plan: &LaunchPlan,
    users: Option<&OwnedFd>,
    descriptors: &Descriptors,
) -> Result<Vec<OwnedFd>, StepError> {
    let users = users.map(AsFd::as_fd);
    let take = |(number, volume): (usize, &VolumeBind)| {
        let mount = take_directory(volume, number, descriptors)?;
        limit(&mount, volume, users).about(|| volume.target.clone())?;
        Ok(mount)
    };
    plan.volumes.iter().enumerate().map(take).collect()
}

/// Shows them in the root. From the first one on, other sandboxes change what is at paths of this
/// root, and so the launcher has done by then all that it does by path.
pub(super) fn show_all(
    root: &OwnedFd,
    plan: &LaunchPlan,
    mounts: Vec<OwnedFd>,
) -> Result<(), StepError> {
    for (volume, mount) in plan.volumes.iter().zip(mounts) {
        let place = tree::ensure_directory_itself(root.as_fd(), &volume.target, plan.users)?;
        tree::attach(mount.as_fd(), place.as_fd()).about(|| volume.target.clone())?;
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

fn limit(
    mount: &OwnedFd,
    volume: &VolumeBind,
    users: Option<BorrowedFd<'_>>,
) -> Result<(), StepError> {
    if let Some(users) = users {
        skep_linux::map_ids(mount.as_fd(), users)?;
    }
    let mut attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    if !volume.writable {
        attributes |= libc::MOUNT_ATTR_RDONLY;
    }
    Ok(skep_linux::add_mount_attributes(mount.as_fd(), attributes)?)
}
