//! The process of a kernel.

use std::io;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use rustix::process::Signal;

use crate::kernel::Exit;
use crate::meter::Meter;
use crate::oom_score::OomFirst;
use crate::process::{Processes, Started};

/// A process that is killed, with what it started, when this is dropped.
pub(crate) struct KernelProcess {
    pub(crate) processes: Arc<dyn Processes>,
    pub(crate) pid: u32,
    pub(crate) meter: Arc<dyn Meter>,
    exit: BoxFuture<'static, Exit>,
    pub(crate) ended: Option<Exit>,
    /// Set as long as it is a spare.
    oom_first: Option<OomFirst>,
    /// Count of the OOM killer from which on a kill can explain the end of this process.
    kills_before: Option<u64>,
}

impl KernelProcess {
    /// Takes over a process that was started when the OOM killer had taken `kills_before`.
    pub(crate) fn new(
        processes: Arc<dyn Processes>,
        started: Started,
        kills_before: Option<u64>,
    ) -> Self {
        Self {
            processes,
            pid: started.pid,
            meter: started.meter,
            exit: started.exit,
            ended: None,
            oom_first: None,
            kills_before,
        }
    }

    /// Makes it a spare.
    pub(crate) fn mark(&mut self) -> io::Result<()> {
        self.oom_first = Some(OomFirst::mark(self.pid)?);
        Ok(())
    }

    /// Makes a spare a process like any other.
    pub(crate) fn keep(&mut self) -> io::Result<()> {
        match self.oom_first.take() {
            Some(oom_first) => oom_first.spare(),
            None => Ok(()),
        }
    }

    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        self.processes.signal(self.pid, signal)
    }

    pub(crate) fn kill(&self) {
        if let Err(error) = self.signal(Signal::KILL) {
            tracing::debug!(%error, "kernel has ended already");
        }
    }

    /// Waits for its end.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when this is dropped.
    pub(crate) async fn end(&mut self) -> Exit {
        if let Some(exit) = self.ended {
            return exit;
        }
        let exit = (&mut self.exit).await;
        self.ended = Some(exit);
        exit
    }

    /// Lets only kills from now on explain its end: they may be of its next request's making.
    pub(crate) fn forget_kills(&mut self) {
        self.kills_before = self.processes.out_of_memory_kills();
    }

    /// Corrects `exit` by the count of the OOM killer.
    pub(crate) fn explained(&self, exit: Exit) -> Exit {
        const SIGKILL: i32 = 9;
        let kills = self.processes.out_of_memory_kills();
        if exit == Exit::Signal(SIGKILL) && kills > self.kills_before {
            Exit::OutOfMemory
        } else {
            exit
        }
    }
}

impl Drop for KernelProcess {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
        }
    }
}
