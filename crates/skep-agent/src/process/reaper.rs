//! The one place that waits for children.
//!
//! As the first process of a sandbox the agent inherits every orphan and must reap it. It must
//! also learn how its own children ended. Both come from the same queue of the kernel, so one
//! owner asks for all and hands out what was asked for. A child is registered under the lock
//! under which others are reaped, so it cannot end unseen; and a signal is sent under it too,
//! so that it cannot reach another process that got the id of a child that is gone.

use std::collections::HashMap;
use std::io;

use parking_lot::Mutex;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, kill_process, kill_process_group, test_kill_process,
    wait, waitpid,
};
use skep_linux::spawn_as::{SpawnAs, SpawnError, Spawning, fork_as};
use tokio::signal::unix::SignalKind;
use tokio::sync::oneshot;

/// Policy for children that are not the agent's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orphans {
    /// Reaps all of them: the agent is the first process of its pid namespace.
    Reap,
    /// Waits for its own children alone: it shares a process with others, as in tests.
    Leave,
}

#[derive(Debug)]
pub(crate) struct Reaper {
    orphans: Orphans,
    /// The children that have not been reaped, and who wants to know.
    children: Mutex<HashMap<Pid, oneshot::Sender<WaitStatus>>>,
}

impl Reaper {
    pub(crate) fn new(orphans: Orphans) -> Self {
        Self {
            orphans,
            children: Mutex::default(),
        }
    }

    /// Forks a child whose end will be told to the receiver.
    pub(crate) fn fork(
        &self,
        plan: &SpawnAs<'_>,
    ) -> Result<(Spawning, oneshot::Receiver<WaitStatus>), SpawnError> {
        let (sender, receiver) = oneshot::channel();
        // Before the fork: a child that ends at once must not be reaped before it is known.
        let mut children = self.children.lock();
        let spawning = fork_as(plan)?;
        children.insert(spawning.pid, sender);
        Ok((spawning, receiver))
    }

    /// Takes charge of an orphan that is not known yet; its end will be told to the receiver.
    ///
    /// # Errors
    ///
    /// If it has ended already, or is a child that somebody has.
    pub(crate) fn adopt(&self, pid: Pid) -> io::Result<oneshot::Receiver<WaitStatus>> {
        let (sender, receiver) = oneshot::channel();
        let mut children = self.children.lock();
        // Whoever has it would never hear of its end, and two would signal it.
        if children.contains_key(&pid) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        // Nobody is reaped while the lock is held: if it is there now, its end will be seen.
        test_kill_process(pid)?;
        children.insert(pid, sender);
        Ok(receiver)
    }

    /// Signals a child that has not been reaped yet.
    pub(crate) fn signal(&self, pid: Pid, signal: Signal) -> io::Result<()> {
        let children = self.children.lock();
        if !children.contains_key(&pid) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(kill_process(pid, signal)?)
    }

    /// Signals a child that leads a process group, and all others in that group.
    pub(crate) fn signal_group(&self, leader: Pid, signal: Signal) -> io::Result<()> {
        let children = self.children.lock();
        if !children.contains_key(&leader) {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(kill_process_group(leader, signal)?)
    }

    /// Reaps whenever a child has ended, for as long as the agent lives.
    ///
    /// # Errors
    ///
    /// If no signal handler can be installed.
    pub(crate) async fn run(&self) -> io::Result<()> {
        let mut ended = tokio::signal::unix::signal(SignalKind::child())?;
        loop {
            // The look comes before the wait: a child may have ended before the handler stood.
            self.reap();
            if ended.recv().await.is_none() {
                return Ok(());
            }
        }
    }

    fn reap(&self) {
        let mut children = self.children.lock();
        match self.orphans {
            Orphans::Reap => {
                // Not `waitpid(None, …)`, which knows only children of our own process group.
                while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
                    tell(&mut children, pid, status);
                }
            }
            Orphans::Leave => {
                let own: Vec<Pid> = children.keys().copied().collect();
                for pid in own {
                    if let Ok(Some((pid, status))) = waitpid(Some(pid), WaitOptions::NOHANG) {
                        tell(&mut children, pid, status);
                    }
                }
            }
        }
    }
}

fn tell(children: &mut HashMap<Pid, oneshot::Sender<WaitStatus>>, pid: Pid, status: WaitStatus) {
    if let Some(sender) = children.remove(&pid)
        && sender.send(status).is_err()
    {
        tracing::debug!(pid = pid.as_raw_nonzero(), "nobody asks how a child ended");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_somebody_has_is_not_adopted() {
        let reaper = Reaper::new(Orphans::Leave);
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        let _end = reaper.adopt(pid).unwrap();
        let refused = reaper.adopt(pid).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
