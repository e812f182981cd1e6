//! The process of a kernel.

use std::io;
use std::sync::Arc;

use rustix::process::Signal;
use tokio::sync::oneshot;

use crate::kernel::Exit;
use crate::oom_score::OomFirst;
use crate::process::{Processes, Started};

/// A process that is killed, with what it started, when this is dropped.
pub(super) struct Process {
    pub(super) processes: Arc<dyn Processes>,
    pub(super) pid: u32,
    exit: oneshot::Receiver<Exit>,
    pub(super) ended: Option<Exit>,
    /// Set as long as it is a spare.
    oom_first: Option<OomFirst>,
}

impl Process {
    pub(super) fn new(processes: Arc<dyn Processes>, started: Started) -> Self {
        Self {
            processes,
            pid: started.pid,
            exit: started.exit,
            ended: None,
            oom_first: None,
        }
    }

    /// Makes it a spare.
    pub(super) fn mark(&mut self) -> io::Result<()> {
        self.oom_first = Some(OomFirst::mark(self.pid)?);
        Ok(())
    }

    /// Makes a spare a process like any other.
    pub(super) fn keep(&mut self) -> io::Result<()> {
        match self.oom_first.take() {
            Some(oom_first) => oom_first.spare(),
            None => Ok(()),
        }
    }

    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        self.processes.signal(self.pid, signal)
    }

    pub(super) fn kill(&self) {
        if let Err(error) = self.signal(Signal::KILL) {
            tracing::debug!(%error, "kernel has ended already");
        }
    }

    /// Waits for its end.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when this is dropped.
    pub(super) async fn end(&mut self) -> Exit {
        if let Some(exit) = self.ended {
            return exit;
        }
        let exit = (&mut self.exit).await.unwrap_or(Exit::Unknown);
        self.ended = Some(exit);
        exit
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
        }
    }
}
