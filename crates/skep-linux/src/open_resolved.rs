//! Paths in trees that somebody else changes meanwhile.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// Number of attempts at a path walk. Beneath a root the kernel gives up when anything on the host
/// is renamed or mounted while it climbs by `..`, and asks for another try.
const ATTEMPTS: usize = 256;

/// `openat2`, asked again as long as the kernel wants to be. Never waits for a pipe's other end, and
/// no terminal becomes the caller's.
///
/// # Errors
///
/// The error of the system call.
pub fn open_resolved(
    directory: BorrowedFd<'_>,
    path: impl rustix::path::Arg + Copy,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> io::Result<OwnedFd> {
    // With O_PATH the kernel refuses the other flags, which mean nothing for it.
    let flags = if flags.contains(OFlags::PATH) {
        flags | OFlags::CLOEXEC
    } else {
        flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK
    };
    let mut answer = Err(Errno::AGAIN);
    for _ in 0..ATTEMPTS {
        answer = openat2(directory, path, flags, mode, resolve);
        if !matches!(answer, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    Ok(answer?)
}
