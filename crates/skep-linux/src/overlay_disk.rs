//! A file that holds a filesystem, mounted as the writable layer of an overlay.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
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

/// Mounts the ext4 filesystem in a file, nowhere yet, for reading alone: its directory [`UPPER`] is to
/// be a layer. Nothing is written to the file, so that many may do so at once.
///
/// # Errors
///
/// The error of the system call that failed.
pub fn mount_lower_disk(path: &Path) -> io::Result<OwnedFd> {
    let image = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    // A device of a file that is open for reading alone can only be read.
    let device = attach_loop_device(image.as_fd())?;
    let context = rustix::mount::fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(context.as_fd(), "source", device.path.as_str())?;
    rustix::mount::fsconfig_set_flag(context.as_fd(), "ro")?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_RDONLY;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    Ok(rustix::mount::fsmount(context.as_fd(), flags, attributes)?)
}

/// Mounts a disk that was a sandbox's, for another run on the same files. What the overlay kept for
/// itself is removed: it says that the last run did not end in good order, which none does, and the
/// kernel refuses it then.
///
/// # Errors
///
/// The error of the system call that failed.
pub fn mount_used_overlay_disk(path: &Path) -> io::Result<OwnedFd> {
    let mount = mount_overlay_disk(path)?;
    // A detached mount has no path but this one.
    let directory = Path::new("/proc/self/fd").join(mount.as_raw_fd().to_string());
    let work = directory.join(WORK);
    std::fs::remove_dir_all(&work)?;
    let mode = Mode::from_raw_mode(0o755);
    rustix::fs::mkdirat(&mount, WORK, mode)?;
    rustix::fs::chmodat(&mount, WORK, mode, AtFlags::empty())?;
    Ok(mount)
}

/// Brings everything that was written to the disk on a loop device to the file behind the device.
/// What its processes write meanwhile may be missing.
///
/// The overlay above it ignores such requests, so the file system is mounted once more for it.
///
/// # Errors
///
/// The error of the system call that failed.
pub fn sync_loop_disk(number: u32) -> io::Result<()> {
    let context = rustix::mount::fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
    let device = format!("/dev/loop{number}");
    rustix::mount::fsconfig_set_string(context.as_fd(), "source", device.as_str())?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mount = rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    // A mount is opened by path alone; files of it are what can be told to be synced.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(&mount, ".", flags, Mode::empty())?;
    rustix::fs::syncfs(root)?;
    Ok(())
}
