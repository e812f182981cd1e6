//! The disk of a sandbox: a file that holds a filesystem.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::mount::MountAttrFlags;

use crate::launcher::{FsOption, make_directory, new_mount};
use crate::step_error::{About, StepError};

/// The directories of a disk that an overlay's changes go to, and its own.
pub(crate) const UPPER: &str = "upper";
pub(crate) const WORK: &str = "work";

/// Mounts the ext4 filesystem in a file, nowhere yet: for [`crate::Top::Mounted`]. When the
/// answer is dropped before anything of it is mounted somewhere, the file is let go.
///
/// # Errors
///
/// The error of the system call, with the object it was about.
pub fn mount_disk(path: &Path) -> io::Result<OwnedFd> {
    mount(path).map_err(|error| {
        let source = io::Error::from_raw_os_error(error.errno);
        match error.thing {
            Some(thing) => io::Error::new(source.kind(), format!("{thing}: {source}")),
            None => source,
        }
    })
}

pub(crate) fn mount(path: &Path) -> Result<OwnedFd, StepError> {
    let name = || path.display().to_string();
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let image = rustix::fs::open(path, flags, Mode::empty()).about(name)?;
    let device = skep_linux::attach_loop_device(image.as_fd()).about(name)?;
    let mount = new_mount(
        "ext4",
        &[
            FsOption::Value("source", device.path.clone()),
            // Nothing of it outlives the host's own crash, so it need not wait for the
            // host's disk when it is let go.
            FsOption::Flag("nobarrier"),
            // Blocks of deleted files are given back to the host.
            FsOption::Flag("discard"),
            // The inode tables of the image are holes and read as zeros already.
            FsOption::Flag("noinit_itable"),
        ],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )?;
    for name in [UPPER, WORK] {
        make_directory(mount.as_fd(), name)?;
    }
    Ok(mount)
}
