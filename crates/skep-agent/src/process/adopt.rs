//! Processes that a kernel has forked of itself, taken over as if they had been started here.
//!
//! User code can do whatever a kernel does, so a process is looked at before anything is done to
//! it, and what is seen under a number counts only if the process has lived all the while.

use std::io;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, pidfd_open};
use skep_agent_protocol::AgentConfig;

use super::cgroups::Cgroup;
use super::launch::StartError;
use super::reaper::Reaper;
use super::spawner::{Child, Spawner};
use crate::rootfs;

/// Fields of `/proc/<pid>/status` that say whose process it is.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    parent: i32,
    /// Real, effective, saved and file user.
    users: [u32; 4],
    /// Process group, as it is seen here.
    group: i32,
    /// Session. Whoever leads one cannot leave its group, by which it is ended.
    session: i32,
}

impl Spawner {
    /// Takes over an orphan of the sandbox's default user that leads its session, and gives it a
    /// cgroup of its own. Blocks.
    pub(crate) fn adopt(
        &self,
        reaper: &Reaper,
        config: &AgentConfig,
        pid: Pid,
    ) -> Result<Child, StartError> {
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
        let uid = self.user(None, config)?.uid;
        let seen = Identity::of(pid).map_err(failed)?;
        let expected = Identity {
            parent: getpid().as_raw_nonzero().get(),
            users: [uid; 4],
            group: pid.as_raw_nonzero().get(),
            session: pid.as_raw_nonzero().get(),
        };
        if seen != expected {
            tracing::warn!(
                ?seen,
                ?expected,
                "a copy of a kernel is not what it should be"
            );
            return Err(failed(io::ErrorKind::PermissionDenied.into()));
        }
        // Before anything is done to it: a kernel that offers itself, or another that somebody has,
        // must not get out of the cgroup in which it is counted.
        let exit = reaper.adopt(pid).map_err(failed)?;
        let cgroup = self
            .own_cgroup(pid, uid)
            .inspect_err(|_| end(reaper, pid))?;
        let mut ends = [PollFd::new(&pidfd, PollFlags::IN)];
        match rustix::event::poll(&mut ends, Some(&Timespec::default())) {
            Ok(0) => Ok(Child { pid, exit, cgroup }),
            // It has ended, and the number may have been another's: an orphan of this user's like
            // it, which is counted in another cgroup now, and to which nothing else happens.
            Ok(_) => Err(failed(io::ErrorKind::NotFound.into())),
            Err(error) => Err(failed(error.into())),
        }
    }
}

impl Spawner {
    /// Gives a process of this user a cgroup of its own, if there are such.
    fn own_cgroup(&self, pid: Pid, uid: u32) -> Result<Option<Cgroup>, StartError> {
        let cgroup = self.take_cgroup()?;
        if let Some(cgroup) = &cgroup {
            cgroup.admit(pid, uid).map_err(StartError::Cgroup)?;
        }
        Ok(cgroup)
    }
}

/// Ends a process that was taken over and has no owner.
fn end(reaper: &Reaper, pid: Pid) {
    if let Err(error) = reaper.signal(pid, Signal::KILL) {
        tracing::debug!(%error, "a copy of a kernel has ended already");
    }
}

impl Identity {
    fn of(pid: Pid) -> io::Result<Self> {
        let path = format!("/proc/{}/status", pid.as_raw_nonzero());
        Self::parse(&rootfs::kernel_file(&path)?).ok_or(io::ErrorKind::InvalidData.into())
    }

    fn parse(status: &str) -> Option<Self> {
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let users: Vec<u32> = field("Uid:")?
            .split_whitespace()
            .map(|user| user.parse().ok())
            .collect::<Option<_>>()?;
        // One number for each pid namespace, ours first.
        let ours = |name: &str| field(name)?.split_whitespace().next()?.parse().ok();
        Some(Self {
            parent: field("PPid:")?.trim().parse().ok()?,
            users: users.try_into().ok()?,
            group: ours("NSpgid:")?,
            session: ours("NSsid:")?,
        })
    }
}

fn failed(error: io::Error) -> StartError {
    StartError::Fork(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_of_the_host_says_is_read() {
        let status = "Name:\tUid:\t7\nPPid:\t1\nUid:\t1000\t1000\t1000\t1000\nNSpgid:\t42\t3\nNSsid:\t41\t2\n";
        let identity = Identity {
            parent: 1,
            users: [1000; 4],
            group: 42,
            session: 41,
        };
        assert_eq!(Identity::parse(status), Some(identity));
        let one_user = "PPid:\t1\nUid:\t1000\nNSpgid:\t42\nNSsid:\t42\n";
        assert_eq!(Identity::parse(one_user), None);
        let own = Identity::of(getpid()).unwrap();
        assert_eq!(
            own.parent,
            rustix::process::getppid().unwrap().as_raw_nonzero().get()
        );
    }
}
