//! Acting for somebody else in the eyes of whoever compares effective users.

use std::io;
use std::thread;

use rustix::thread::CapabilitySet;

/// Runs `work` on a thread of its own whose effective user is `user`, while files are still opened
/// as the caller would. The thread has no capability in effect.
///
/// cgroup v1 lets a process be moved only by root of the host, or by an effective user that is the
/// user of the process; the files of the cgroup belong to another.
///
/// # Errors
///
/// The error of `work`, or that of becoming the user.
pub fn as_effective_user<T: Send>(
    user: u32,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let file_user = rustix::process::geteuid().as_raw();
    thread::scope(|scope| {
        let done = thread::Builder::new().spawn_scoped(scope, move || {
            become_user(user, file_user)?;
            work()
        })?;
        done.join()
            .unwrap_or_else(|_panic| Err(io::Error::other("the thread of another user panicked")))
    })
}

/// Changes this thread for good: its real and saved user stay, so that nobody of the other
/// user's can signal or trace it.
fn become_user(user: u32, file_user: u32) -> io::Result<()> {
    const UNCHANGED: libc::uid_t = libc::uid_t::MAX;
    // SAFETY: `setresuid` takes no pointer. The system call itself, unlike the function of the C
    // library, changes this thread alone.
    let answer = unsafe { libc::syscall(libc::SYS_setresuid, UNCHANGED, user, UNCHANGED) };
    if answer == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `setfsuid` takes no pointer.
    unsafe { libc::setfsuid(file_user) };
    // SAFETY: as above. An id that cannot exist changes nothing, and the present one is the answer.
    let present = unsafe { libc::setfsuid(u32::MAX) };
    if present.cast_unsigned() != file_user {
        return Err(rustix::io::Errno::PERM.into());
    }
    // Whoever becomes root for files gets the rights over files with it.
    let mut sets = rustix::thread::capabilities(None)?;
    sets.effective = CapabilitySet::empty();
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    #[test]
    fn files_are_opened_as_before_and_this_thread_stays_who_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(directory.path(), mode).unwrap();
        let path = directory.path().join("file");
        let effective = as_effective_user(1234, || {
            std::fs::write(&path, "")?;
            std::fs::read_to_string("/proc/thread-self/status")
        })
        .unwrap();
        assert!(effective.contains("Uid:\t0\t1234\t0\t0\n"), "{effective}");
        assert!(effective.contains("CapEff:\t0000000000000000\n"));
        assert_eq!(std::fs::metadata(&path).unwrap().uid(), 0);
        assert!(rustix::process::geteuid().is_root());
    }
}
