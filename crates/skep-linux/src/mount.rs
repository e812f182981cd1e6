//! Calls of the mount interface that rustix does not have.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Makes a detached mount show other owners: id `n` on disk becomes what `n` is in the user
/// namespace.
///
/// # Errors
///
/// `EINVAL` if the filesystem cannot do it or the mount is attached already.
pub fn map_ids(mount: BorrowedFd<'_>, user_namespace: BorrowedFd<'_>) -> io::Result<()> {
    let namespace = u64::try_from(user_namespace.as_raw_fd()).map_err(io::Error::other)?;
    set_attributes(
        mount,
        &libc::mount_attr {
            attr_set: libc::MOUNT_ATTR_IDMAP,
            attr_clr: 0,
            propagation: 0,
            userns_fd: namespace,
        },
        0,
    )
}

/// Sets `MOUNT_ATTR_*` on a mount and on all below it.
///
/// # Errors
///
/// The error of `mount_setattr`.
pub fn add_mount_attributes(mount: BorrowedFd<'_>, attributes: u64) -> io::Result<()> {
    set_attributes(
        mount,
        &libc::mount_attr {
            attr_set: attributes,
            attr_clr: 0,
            propagation: 0,
            userns_fd: 0,
        },
        libc::AT_RECURSIVE,
    )
}

fn set_attributes(
    mount: BorrowedFd<'_>,
    attributes: &libc::mount_attr,
    flags: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the path is an empty C string, and the pointer and the size describe
    // `attributes`, which the kernel only reads and which outlives the call.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            std::ptr::from_ref(attributes),
            size_of::<libc::mount_attr>(),
        )
    };
    if answer == -1 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
