//! A file that holds a filesystem whose contents outlive whoever uses them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::LoopDevice;

const FIFREEZE: libc::Ioctl = 0xC004_5877_u32 as libc::Ioctl;
const FITHAW: libc::Ioctl = 0xC004_5878_u32 as libc::Ioctl;

/// Mounts the ext4 filesystem on a device, nowhere yet, without devices and set-user-id programs. It
/// may be mounted already: all mounts of one device are the same filesystem. Unlike on a sandbox's own
/// disk, what is synced has reached the host's disk.
///
/// # Errors
///
/// The error of the system call that failed.
pub fn mount_data_disk(device: &LoopDevice) -> io::Result<OwnedFd> {
    let context = rustix::mount::fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(context.as_fd(), "source", device.path.as_str())?;
    // Blocks of deleted files are given back to the host.
    rustix::mount::fsconfig_set_flag(context.as_fd(), "discard")?;
    rustix::mount::fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    Ok(rustix::mount::fsmount(context.as_fd(), flags, attributes)?)
}

/// A filesystem to which nobody can write until this is dropped: whoever tries to waits. What was
/// written is on its device.
#[derive(Debug)]
pub struct FrozenFilesystem(File);

impl FrozenFilesystem {
    /// Freezes the filesystem of a directory.
    ///
    /// # Errors
    ///
    /// `EBUSY` if somebody else has frozen it; else what the kernel says.
    pub fn freeze(directory: File) -> io::Result<Self> {
        request(directory.as_fd(), FIFREEZE)?;
        Ok(Self(directory))
    }
}

impl Drop for FrozenFilesystem {
    fn drop(&mut self) {
        // It fails only if somebody else has thawed it.
        thaw_filesystem(self.0.as_fd()).ok();
    }
}

/// Lets others write again to a filesystem that somebody froze and did not live to thaw.
///
/// # Errors
///
/// `EINVAL` if it is not frozen.
pub fn thaw_filesystem(directory: BorrowedFd<'_>) -> io::Result<()> {
    request(directory, FITHAW)
}

fn request(directory: BorrowedFd<'_>, request: libc::Ioctl) -> io::Result<()> {
    // SAFETY: neither request takes an argument that is looked at, and `BorrowedFd` keeps the
    // descriptor open until the call returns.
    let answer = unsafe { libc::ioctl(directory.as_raw_fd(), request, 0) };
    if answer == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
