//! Processes by descriptor.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::process::{WaitId, WaitIdOptions};

/// Exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Termination {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
    /// It is gone, it was nobody's child here, and this kernel does not tell.
    Unknown,
}

/// Takes the exit status of a process that has ended, if it is our child; else asks the
/// kernel. `None` while the process lives.
///
/// # Errors
///
/// The error of `waitid`, except that the process is not a child.
pub fn termination(pidfd: BorrowedFd<'_>) -> io::Result<Option<Termination>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    match rustix::process::waitid(WaitId::PidFd(pidfd), options) {
        Ok(None) => Ok(None),
        Ok(Some(status)) => Ok(Some(
            match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Termination::Code(code),
                (None, Some(signal)) => Termination::Signal(signal),
                (None, None) => Termination::Unknown,
            },
        )),
        Err(rustix::io::Errno::CHILD) => Ok(Some(told_by_the_kernel(pidfd))),
        Err(error) => Err(error.into()),
    }
}

/// `struct pidfd_info` of the kernel, as of the version that tells exit codes.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    cgroup: u64,
    pid: u32,
    thread_group: u32,
    parent: u32,
    users_and_groups: [u32; 8],
    exit_code: i32,
}

const PIDFD_INFO_EXIT: u64 = 1 << 3;
/// `_IOWR(0xFF, 11, struct pidfd_info)` for a structure of 64 bytes, which is what every
/// kernel with this request accepts.
const PIDFD_GET_INFO: libc::Ioctl = 0xC040_FF0B;

fn told_by_the_kernel(pidfd: BorrowedFd<'_>) -> Termination {
    let mut info = PidfdInfo {
        mask: PIDFD_INFO_EXIT,
        ..PidfdInfo::default()
    };
    // SAFETY: the request reads and writes as many bytes as its number encodes, 64, and
    // `info` is that large and outlives the call.
    let answer = unsafe { libc::ioctl(pidfd.as_raw_fd(), PIDFD_GET_INFO, &raw mut info) };
    if answer == -1 || info.mask & PIDFD_INFO_EXIT == 0 {
        return Termination::Unknown;
    }
    if libc::WIFSIGNALED(info.exit_code) {
        Termination::Signal(libc::WTERMSIG(info.exit_code))
    } else {
        Termination::Code(libc::WEXITSTATUS(info.exit_code))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    use super::*;

    #[test]
    fn the_structure_has_the_size_its_request_number_says() {
        assert_eq!(size_of::<PidfdInfo>(), 64);
    }

    #[test]
    fn a_child_tells_its_code_once_and_lives_until_then() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).unwrap();
        assert_eq!(termination(pidfd.as_fd()).unwrap(), None);
        drop(child.stdin.take());
        let ended = skep_testkit::wait_for(std::time::Duration::from_secs(5), || {
            termination(pidfd.as_fd()).unwrap().ok_or("still lives")
        });
        assert_eq!(ended, Termination::Code(0));
        let taken = child.wait().unwrap_err();
        assert_eq!(taken.raw_os_error(), Some(libc::ECHILD), "it was taken");
    }
}
