//! Descriptors that a parent process left open for this one.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};

/// Takes ownership of a descriptor that the parent passed by its number.
///
/// Call it once for each number, before anything else opens files: a number that is taken
/// twice would be closed twice. The descriptor is not passed on to children.
///
/// # Errors
///
/// If the number is one of the standard three, or nothing is open under it.
pub fn take_inherited(number: RawFd) -> io::Result<OwnedFd> {
    if number <= 2 {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: `borrow_raw` requires a number other than -1, which was checked, and an open
    // descriptor, which the next call checks before anything else is done with it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC)?;
    // SAFETY: `from_raw_fd` requires an open descriptor that nobody else owns: it is open, as
    // the call above has shown, and the caller takes each inherited number once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Takes what the parent passed as standard input, and leaves `/dev/null` in its place.
///
/// # Errors
///
/// If nothing is open there, or there is no `/dev/null`.
pub fn take_standard_input() -> io::Result<OwnedFd> {
    let taken = io::stdin().as_fd().try_clone_to_owned()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let null = rustix::fs::open("/dev/null", flags, Mode::empty())?;
    // SAFETY: no memory is touched. Nobody owns the descriptor 0: the standard library uses it
    // by its number, whatever is open under that.
    let answer = unsafe { libc::dup2(null.as_raw_fd(), libc::STDIN_FILENO) };
    if answer == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use std::os::fd::IntoRawFd as _;

    use super::*;

    #[test]
    fn an_open_descriptor_is_taken_and_a_closed_one_refused() {
        let number = std::fs::File::open("/dev/null").unwrap().into_raw_fd();
        let taken = take_inherited(number).unwrap();
        assert_eq!(taken.as_raw_fd(), number);
        assert_eq!(
            take_inherited(1_000_000).unwrap_err().raw_os_error(),
            Some(libc::EBADF)
        );
        assert_eq!(
            take_inherited(1).unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
