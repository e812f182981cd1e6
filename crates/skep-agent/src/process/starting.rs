//! A child between fork and exec.
//!
//! It is a process of the sandbox already: root inside can stop it before it executes anything.
//! So its report is waited for without a thread and not for ever, and a child that nobody waits
//! for any more is killed.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use skep_linux::spawn_as::{REPORT_LENGTH, Spawning, outcome};

use super::launch::StartError;
use crate::process::pipe_end::PipeEnd;
use crate::process::reaper::Reaper;

/// A child that is killed unless it is seen to run.
#[derive(Debug)]
pub(crate) struct Starting {
    pub(super) pid: Pid,
    command: String,
    report: PipeEnd,
    reaper: Arc<Reaper>,
    timeout: Duration,
    is_running: bool,
}

impl Starting {
    /// Takes charge of a child of this reaper. Must be called within the runtime.
    pub(super) fn new(
        spawning: Spawning,
        command: &str,
        reaper: &Arc<Reaper>,
        timeout: Duration,
    ) -> Result<Self, StartError> {
        let report = PipeEnd::new(spawning.report)
            .inspect_err(|_| kill(reaper, spawning.pid))
            .map_err(StartError::Stdio)?;
        Ok(Self {
            pid: spawning.pid,
            command: command.to_owned(),
            report,
            reaper: Arc::clone(reaper),
            timeout,
            is_running: false,
        })
    }

    /// Waits until the program runs; answers its number.
    ///
    /// # Cancel safety
    ///
    /// Dropping this kills the child.
    pub(crate) async fn run(mut self) -> Result<Pid, StartError> {
        let report = tokio::time::timeout(self.timeout, self.read())
            .await
            .map_err(|_elapsed| StartError::Stuck {
                command: self.command.clone(),
                timeout: self.timeout,
            })?
            .map_err(StartError::Stdio)?;
        outcome(&report).map_err(|source| StartError::Spawn {
            command: self.command.clone(),
            source,
        })?;
        self.is_running = true;
        Ok(self.pid)
    }

    async fn read(&self) -> io::Result<Vec<u8>> {
        let mut report = Vec::with_capacity(REPORT_LENGTH);
        while report.len() < REPORT_LENGTH {
            match self.report.read(REPORT_LENGTH - report.len()).await? {
                Some(piece) => report.extend_from_slice(&piece),
                None => break,
            }
        }
        Ok(report)
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if !self.is_running {
            kill(&self.reaper, self.pid);
        }
    }
}

fn kill(reaper: &Reaper, child: Pid) {
    match reaper.signal(child, Signal::KILL) {
        Ok(()) => tracing::debug!("a child that did not start was killed"),
        // A child that failed has ended by itself.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, "cannot kill a child that did not start"),
    }
}
