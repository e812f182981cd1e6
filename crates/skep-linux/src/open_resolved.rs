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
    Ok(retry_openat2(directory, path, flags, mode, resolve)?)
}

/// `openat2`, asked again as long as the kernel wants to be, with no flag but the caller's.
///
/// # Errors
///
/// The error of the system call.
pub fn retry_openat2(
    directory: BorrowedFd<'_>,
    path: impl rustix::path::Arg + Copy,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> rustix::io::Result<OwnedFd> {
    let mut answer = Err(Errno::AGAIN);
    for _ in 0..ATTEMPTS {
        answer = openat2(directory, path, flags, mode, resolve);
        if !matches!(answer, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::CWD;

    use super::*;

    #[test]
    fn a_climb_succeeds_while_others_rename() {
        let folder = tempfile::tempdir().unwrap();
        let (here, there) = (folder.path().join("here"), folder.path().join("there"));
        std::fs::create_dir_all(folder.path().join("root/a/b")).unwrap();
        std::fs::write(&here, "").unwrap();
        let root = folder.path().join("root");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, &root, flags, Mode::empty()).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::fs::rename(&here, &there).unwrap();
                    std::fs::rename(&there, &here).unwrap();
                }
            });
            let up = "a/b/../../".repeat(2);
            let opened = (0..2000).map(|_| {
                let resolve = ResolveFlags::IN_ROOT;
                retry_openat2(root.as_fd(), up.as_str(), flags, Mode::empty(), resolve)
            });
            let refused = opened.filter_map(Result::err).next();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(refused, None);
        });
    }
}
