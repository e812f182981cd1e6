//! Making a process in new namespaces.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use rustix::thread::UnshareFlags;

/// The two sides on which [`clone_process`] returns.
#[derive(Debug)]
pub enum Cloned {
    /// The caller, and the process it made.
    Parent(Child),
    /// The new process. It must end with [`exit_now`] or execute a program: it has a copy of
    /// everything its parent owns, and must not clean that up.
    Child,
}

/// A process made by [`clone_process`].
#[derive(Debug)]
pub struct Child {
    /// Its id in the caller's pid namespace.
    pub pid: i32,
    /// The process itself, which an id that is reused cannot be mistaken for.
    pub pidfd: OwnedFd,
}

/// Makes a copy of this process in new namespaces of the given kinds.
///
/// Kinds other than [`UnshareFlags`] `NEW*` are refused.
///
/// # Errors
///
/// `EINVAL` if this process has more than one thread: only the calling one would be in the
/// copy, and a lock that another holds would stay locked there forever. Else what `clone` says.
pub fn clone_process(namespaces: UnshareFlags) -> io::Result<Cloned> {
    clone_with(namespaces, 0)
}

/// Clones like [`clone_process`], but the new process is a child of the caller's parent. The caller
/// gets a pidfd all the same; only the parent can wait for it.
///
/// # Errors
///
/// As [`clone_process`].
pub fn clone_sibling(namespaces: UnshareFlags) -> io::Result<Cloned> {
    clone_with(namespaces, libc::CLONE_PARENT)
}

fn clone_with(namespaces: UnshareFlags, relation: libc::c_int) -> io::Result<Cloned> {
    let kinds = UnshareFlags::NEWUSER
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP
        | UnshareFlags::NEWNET;
    if !kinds.contains(namespaces) {
        return Err(rustix::io::Errno::INVAL.into());
    }
    require_one_thread()?;
    let mut pidfd: libc::c_int = -1;
    let flags = libc::c_long::from(libc::CLONE_PIDFD)
        | libc::c_long::from(libc::SIGCHLD)
        | libc::c_long::from(relation)
        | libc::c_long::from(namespaces.bits());
    // SAFETY: without CLONE_VM the new process has its own copy of our memory, so a null
    // stack (go on where the caller is) is right; this process has one thread, as checked
    // above, so no lock is held by a thread that is missing in the copy; the kernel writes
    // the pidfd to the third argument, which is a valid place for a C int.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_clone,
            flags,
            std::ptr::null_mut::<libc::c_void>(),
            &raw mut pidfd,
            std::ptr::null_mut::<libc::c_void>(),
            0,
        )
    };
    match answer {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Cloned::Child),
        pid => {
            // SAFETY: the kernel has just made this descriptor for us; nobody else knows it.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            let pid = i32::try_from(pid).map_err(io::Error::other)?;
            Ok(Cloned::Parent(Child { pid, pidfd }))
        }
    }
}

/// Leaves the given namespaces for new ones. Moves only this thread: call it where there is
/// no other.
///
/// # Errors
///
/// `EINVAL` if this process has more than one thread; else what `unshare` says.
pub fn leave_namespaces(namespaces: UnshareFlags) -> io::Result<()> {
    if namespaces.contains(UnshareFlags::FILES) {
        return Err(rustix::io::Errno::INVAL.into());
    }
    require_one_thread()?;
    // SAFETY: the requirement is about unsharing the descriptor table, which is refused above.
    unsafe { rustix::thread::unshare_unsafe(namespaces) }?;
    Ok(())
}

/// Gives the calling thread, and the threads it makes from now on, a root, a working directory
/// and mounts of their own. What they mount, or which root they choose, no other thread sees.
///
/// # Errors
///
/// The error of `unshare`.
pub fn leave_shared_view() -> io::Result<()> {
    let flags = UnshareFlags::FS | UnshareFlags::NEWNS;
    // SAFETY: the requirement is about unsharing the descriptor table, which stays shared.
    unsafe { rustix::thread::unshare_unsafe(flags) }?;
    Ok(())
}

/// Ends this process at once: no destructor runs, no buffer is flushed.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` takes no pointer and does not return.
    unsafe { libc::_exit(code) }
}

/// The kernel unshares `CLONE_THREAD`, which changes nothing, only where there is one thread.
fn require_one_thread() -> io::Result<()> {
    // SAFETY: `unshare` takes no pointer; with this flag it either fails or does nothing.
    let answer = unsafe { libc::unshare(libc::CLONE_THREAD) };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_not_cloned() {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || held.recv().ok());
        let error = clone_process(UnshareFlags::empty()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        let error = leave_namespaces(UnshareFlags::NEWNS).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        drop(hold);
        thread.join().unwrap();
    }

    #[test]
    fn a_thread_with_a_view_of_its_own_leaves_that_of_others_alone() {
        let before = std::env::current_dir().unwrap();
        let namespace = || std::fs::read_link("/proc/thread-self/ns/mnt").unwrap();
        let inside = std::thread::spawn(move || {
            leave_shared_view().unwrap();
            std::env::set_current_dir("/proc").unwrap();
            namespace()
        });
        assert_ne!(inside.join().unwrap(), namespace());
        assert_eq!(std::env::current_dir().unwrap(), before);
    }
}
