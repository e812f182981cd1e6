//! The server's side of a launch: starts the launcher and reads its reports.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use skep_linux::sealed_file;

use crate::channel::Channel;
use crate::command::Command;
use crate::report::Report;
use crate::worker::{Reaped, ReportReader, Worker, readable};
use crate::{Ended, LaunchPlan, Step};

/// The launcher program: how to start it.
#[derive(Debug, Clone)]
pub struct Launcher {
    executable: PathBuf,
    arguments: Vec<OsString>,
}

/// A process that a launcher has started.
#[derive(Debug)]
pub struct Started {
    /// Process id on the host.
    pub pid: i32,
    /// The process itself: readable when it has ended.
    pub pidfd: OwnedFd,
    /// Duration of each step, in microseconds.
    pub timings: Vec<(Step, u32)>,
    /// The launcher of a detached process, if it was forked for it: readable when it is gone.
    /// Until then the process is its child and nobody else's.
    pub exiting: Option<OwnedFd>,
    /// The launcher of a tied process, which stays until the process ends.
    pub(crate) tied: Option<Tied>,
}

#[derive(Debug)]
pub(crate) struct Tied {
    pub(crate) channel: Channel,
    pub(crate) launcher: Worker,
}

/// Errors of launching a process.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The launcher itself could not be started.
    #[error("cannot start the launcher `{}`", executable.display())]
    Start {
        /// The program that was to be the launcher.
        executable: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
    /// The launcher could not be told what to do.
    #[error("cannot send the launch plan")]
    Send(#[source] io::Error),
    /// Its answer could not be read.
    #[error("cannot read the launcher's report")]
    Receive(#[source] io::Error),
    /// It gave up and said where. Nothing of the process is left.
    #[error("launcher failed while {step}{}", thing.as_ref().map(|thing| format!(" `{thing}`")).unwrap_or_default())]
    Step {
        /// Step that failed.
        step: Step,
        /// Object of the failed step, where the step alone does not name it.
        thing: Option<String>,
        /// Error of the system call.
        source: io::Error,
    },
    /// It ended without a word, which is a bug or a kill from outside.
    #[error("launcher ended without a report{}", .0.map(|status| format!(" ({status})")).unwrap_or_default())]
    Died(Option<ExitStatus>),
    /// It did not answer in time and was killed.
    #[error("launcher did not answer within {} s", .0.as_secs_f32())]
    Silent(Duration),
}

impl Launcher {
    /// A launcher that is started as `executable` with `arguments`, and then calls
    /// [`crate::run`] before it starts any thread.
    pub fn new<A: Into<OsString>>(
        executable: impl Into<PathBuf>,
        arguments: impl IntoIterator<Item = A>,
    ) -> Self {
        Self {
            executable: executable.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
        }
    }

    /// Carries out `plan` and returns when the program has been executed.
    ///
    /// Blocks up to `deadline`: call it where blocking is allowed.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]. The launcher is gone then, and so is the process, unless the launcher
    /// was killed at the very moment it was handing the process over: whoever plans a
    /// detached process puts it into a cgroup and empties that.
    pub fn launch(&self, plan: LaunchPlan, deadline: Duration) -> Result<Started, SpawnError> {
        let reports = ReportReader::until(deadline);
        let (channel, launcher) = self.start()?;
        send_plan(&channel, None, &plan).map_err(SpawnError::Send)?;
        let lifetime = plan.lifetime;
        // With its descriptors: the launcher has its own copies by now.
        drop(plan);
        reports.outcome(channel, Worker::Own(launcher), lifetime)
    }

    /// Starts the program, which then waits for an order.
    pub(crate) fn start(&self) -> Result<(Channel, Reaped), SpawnError> {
        let (channel, theirs) = Channel::pair().map_err(SpawnError::Send)?;
        // The socket is the launcher's standard input: that is inherited without any code of
        // ours between fork and exec. In a group of its own, it does not end when somebody at
        // a terminal ends the server.
        let launcher = process::Command::new(&self.executable)
            .args(&self.arguments)
            .stdin(Stdio::from(theirs.into_descriptor()))
            .stdout(Stdio::null())
            .env_clear()
            .process_group(0)
            .spawn()
            .map_err(|source| SpawnError::Start {
                executable: self.executable.clone(),
                source,
            })?;
        Ok((channel, Reaped(launcher)))
    }
}

impl Started {
    /// Waits until a tied process has ended and says how. `None` when `deadline` has passed
    /// before; ask again.
    ///
    /// Dropping a tied [`Started`] kills the process.
    ///
    /// # Errors
    ///
    /// If the launcher was killed from outside; the process is dead then, too. If the launch
    /// was not tied.
    pub fn wait(&mut self, deadline: Option<Duration>) -> Result<Option<Ended>, SpawnError> {
        let Some(tied) = &mut self.tied else {
            return Err(SpawnError::Receive(rustix::io::Errno::CHILD.into()));
        };
        let end = deadline.map(|deadline| Instant::now() + deadline);
        if !readable(tied.channel.as_fd(), end).map_err(SpawnError::Receive)? {
            return Ok(None);
        }
        let report = tied.channel.receive::<Report>();
        match report.map_err(SpawnError::Receive)? {
            Some((Report::Ended(ended), _)) => Ok(Some(ended)),
            Some((
                Report::Accepted
                | Report::Started { .. }
                | Report::Stage { .. }
                | Report::Dumped
                | Report::Failed { .. }
                | Report::GaveUp { .. },
                _,
            ))
            | None => Err(SpawnError::Died(
                tied.launcher.wait().map_err(SpawnError::Receive)?,
            )),
        }
    }

    /// Waits until what a tied process has left behind has ended, too, after [`Self::wait`] has
    /// said how the process itself did. The launcher reaps it; it would otherwise be left to
    /// whoever is the next child subreaper. False when `deadline` has passed before.
    ///
    /// # Errors
    ///
    /// If the launch was not tied.
    pub fn wait_for_orphans(&mut self, deadline: Duration) -> Result<bool, SpawnError> {
        let Some(tied) = &self.tied else {
            return Err(SpawnError::Receive(rustix::io::Errno::CHILD.into()));
        };
        // The launcher has said its last word, so what comes is its end.
        readable(tied.channel.as_fd(), Some(Instant::now() + deadline)).map_err(SpawnError::Receive)
    }
}

/// Sends the plan in a sealed file, because a packet is too small for a long environment.
pub(crate) fn send_plan(
    channel: &Channel,
    report: Option<&Channel>,
    plan: &LaunchPlan,
) -> io::Result<()> {
    let file = sealed_file("launch-plan", &serde_json::to_vec(plan)?)?;
    let report = report.map(AsFd::as_fd);
    let all: Vec<_> = report
        .into_iter()
        .chain([file.as_fd()])
        .chain(plan.descriptors.iter())
        .collect();
    channel.try_send(&Command::to_launch(plan), &all)
}
