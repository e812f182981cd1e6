//! A process that is looked at in `/proc`, where it goes by its number.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};

/// A process by its number and by a descriptor, which tells whether the number is still its own.
#[derive(Debug)]
pub(crate) struct ProcessHandle {
    pid: i32,
    pidfd: OwnedFd,
}

impl ProcessHandle {
    /// Both of one process: whoever made it has said so.
    pub(crate) fn new(pid: i32, pidfd: OwnedFd) -> Self {
        Self { pid, pidfd }
    }

    /// Opens the process that has this pid now.
    pub(crate) fn open(pid: Pid) -> io::Result<Self> {
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty())?;
        Ok(Self::new(pid.as_raw_nonzero().get(), pidfd))
    }

    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    pub(crate) fn pidfd(&self) -> &OwnedFd {
        &self.pidfd
    }

    /// Calls `look` with the pid, and returns its result if the process has not ended meanwhile. A
    /// process keeps its pid until somebody has waited for its end, so what was found is its own.
    ///
    /// # Errors
    ///
    /// Those of `look`; `NotFound` if the process has ended.
    pub(crate) fn look<T>(&self, look: impl FnOnce(i32) -> io::Result<T>) -> io::Result<T> {
        let found = look(self.pid)?;
        if self.has_ended()? {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(found)
    }

    /// Opens a namespace of the process, by its name in `/proc`.
    pub(crate) fn namespace(&self, name: &str) -> io::Result<File> {
        self.look(|pid| File::open(format!("/proc/{pid}/ns/{name}")))
    }

    /// Returns true if it has ended, waited for or not.
    pub(crate) fn has_ended(&self) -> io::Result<bool> {
        let mut ended = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let at_once = Timespec::default();
        let count = rustix::io::retry_on_intr(|| rustix::event::poll(&mut ended, Some(&at_once)))?;
        Ok(count > 0)
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_namespace_is_not_opened_by_a_number_that_somebody_else_has_by_now() {
        let mut child = Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        let pidfd = ProcessHandle::open(pid).unwrap().pidfd;
        child.wait().unwrap();
        // Its number has gone round, and is ours.
        let number = std::process::id().cast_signed();
        let process = ProcessHandle::new(number, pidfd);
        let opened = process.namespace("user");
        assert_eq!(opened.unwrap_err().kind(), io::ErrorKind::NotFound);
        // The control: by the number alone another's is found.
        File::open(format!("/proc/{number}/ns/user")).unwrap();
    }

    #[test]
    fn a_namespace_of_a_living_process_is_opened() {
        let process = ProcessHandle::open(rustix::process::getpid()).unwrap();
        process.namespace("user").unwrap();
        assert!(!process.has_ended().unwrap());
    }
}
