//! A file that holds a filesystem, mounted as the writable layer of an overlay.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::attach_loop_device;

/// The directory of a disk that an overlay's changes go to.
pub const UPPER: &str = "upper";
/// The directory of a disk that is the overlay's own.
pub const WORK: &str = "work";

/// Options of the filesystem.
const FLAGS: [&str; 3] = [
    // Nothing of it outlives the host's own crash, so it need not wait for the host's disk when
    // it is let go.
    "nobarrier",
    // Blocks of deleted files are given back to the host.
    "discard",
    // The inode tables of the image are holes and read as zeros already.
    "noinit_itable",
];

/// Mounts the ext4 filesystem in a file, nowhere yet, with the directories [`UPPER`] and
/// [`WORK`]. When the answer is dropped before it is mounted somewhere, the file is let go.
///
/// # Errors
///
/// The error of the system call that failed.
pub fn mount_overlay_disk(path: &Path) -> io::Result<OwnedFd> {
    let image = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let device = attach_loop_device(image.as_fd())?;
    let context = rustix::mount::fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(context.as_fd(), "source", device.path.as_str())?;
    for flag in FLAGS {
        rustix::mount::fsconfig_set_flag(context.as_fd(), flag)?;
    }
    rustix::mount::fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mount = rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let mode = Mode::from_raw_mode(0o755);
    for name in [UPPER, WORK] {
        match rustix::fs::mkdirat(&mount, name, mode) {
            // The umask is the caller's, so the mode is set once more.
            Ok(()) => rustix::fs::chmodat(&mount, name, mode, AtFlags::empty())?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(mount)
}
