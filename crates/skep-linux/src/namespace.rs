//! Asking about namespaces.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// The number of the question, which takes no argument: `_IO(0xb7, 0x1)`.
const NS_GET_USERNS: libc::Ioctl = 0xb701;

/// The user namespace whose root has rights over `namespace`.
///
/// # Errors
///
/// `EPERM` if it is above the caller's own; `ENOTTY` if the descriptor is no namespace.
pub fn owner_of_namespace(namespace: impl AsFd) -> io::Result<OwnedFd> {
    let namespace = namespace.as_fd().as_raw_fd();
    // SAFETY: this request takes no argument, and the descriptor is borrowed until it returns.
    let answer = unsafe { libc::ioctl(namespace, NS_GET_USERNS) };
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us; nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(answer) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_namespace_has_no_owner() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = owner_of_namespace(&file).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTTY));
    }
}
