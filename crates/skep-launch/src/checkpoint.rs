//! The server's side of dumps and restores.
//!
//! Both are carried out by a launcher of their own: CRIU takes a hundred times as long as the start
//! of one.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use skep_linux::sealed_file;

use crate::channel::Channel;
use crate::command::Command;
use crate::report::{Permission, Report, Stage};
use crate::spawn::send_plan;
use crate::worker::{Reaped, ReportReader, Worker, readable, started};
use crate::{DumpPlan, LaunchPlan, Launcher, SpawnError, Started};

/// Work of the server at a stage, with the first process; false gives the whole up.
type AtStage<'a> = &'a mut dyn FnMut(Stage, i32) -> bool;

impl Launcher {
    /// Writes a tree of processes to an image. `at_stage` is called when the memory is written and
    /// everything still stands.
    ///
    /// Blocks up to `deadline`: call it where blocking is allowed.
    ///
    /// # Errors
    ///
    /// [`SpawnError`]. With [`SpawnError::Step`] the processes go on as if nothing had happened.
    /// Otherwise CRIU was killed, and what it had hold of is not what it was.
    pub fn dump(
        &self,
        plan: &DumpPlan,
        deadline: Duration,
        at_stage: &mut dyn FnMut(Stage, i32) -> bool,
    ) -> Result<(), SpawnError> {
        let reports = ReportReader::until(deadline);
        let (channel, launcher) = self.start()?;
        let sent = (|| {
            let file = sealed_file("dump-plan", &serde_json::to_vec(plan)?)?;
            let all: Vec<_> = [file.as_fd()]
                .into_iter()
                .chain(plan.descriptors.iter())
                .collect();
            channel.try_send(&Command::Dump, &all)
        })();
        sent.map_err(SpawnError::Send)?;
        let report = converse(&channel, &reports, at_stage)?;
        finish(report.map(|(report, _)| report), launcher)
    }

    /// Restores the processes of a plan. `at_stage` is called when they are there with all their
    /// limits and have not run yet.
    ///
    /// Blocks up to `deadline`: call it where blocking is allowed.
    ///
    /// # Errors
    ///
    /// As [`Launcher::launch`]; whoever plans it empties its cgroups.
    pub fn restore(
        &self,
        plan: LaunchPlan,
        deadline: Duration,
        at_stage: &mut dyn FnMut(Stage, i32) -> bool,
    ) -> Result<Started, SpawnError> {
        let reports = ReportReader::until(deadline);
        let (channel, launcher) = self.start()?;
        send_plan(&channel, None, &plan).map_err(SpawnError::Send)?;
        let lifetime = plan.lifetime;
        drop(plan);
        let report = converse(&channel, &reports, at_stage)?;
        started(report, channel, Worker::Own(launcher), lifetime)
    }
}

/// Error of a step in which CRIU was ended by a signal.
pub(crate) const KILLED: Errno = Errno::OWNERDEAD;

impl SpawnError {
    /// Returns true if a dump that failed so may have left code of CRIU's in the processes.
    pub fn damages_processes(&self) -> bool {
        match self {
            Self::Step { source, .. } => source.raw_os_error() == Some(KILLED.raw_os_error()),
            Self::Start { .. } | Self::Send(_) => false,
            Self::Receive(_) | Self::Died(_) | Self::Silent(_) => true,
        }
    }
}

/// Answers questions until something else is reported, or nothing more will be.
fn converse(
    channel: &Channel,
    reports: &ReportReader,
    at_stage: AtStage<'_>,
) -> Result<Option<(Report, Vec<OwnedFd>)>, SpawnError> {
    // The time that the caller takes is not CRIU's: who waits for a slow disk must not kill it.
    let mut asked = Duration::ZERO;
    loop {
        let end = reports.end() + asked;
        if !readable(channel.as_fd(), Some(end)).map_err(SpawnError::Receive)? {
            return Err(reports.silent());
        }
        let report = channel.receive::<Report>().map_err(SpawnError::Receive)?;
        let Some((Report::Stage { stage, pid }, _)) = report else {
            return Ok(report);
        };
        let question = Instant::now();
        let goes_on = at_stage(stage, pid);
        asked += question.elapsed();
        let permission = if goes_on {
            Permission::Go
        } else {
            Permission::Stop
        };
        channel.send(&permission, &[]).map_err(SpawnError::Send)?;
    }
}

fn finish(report: Option<Report>, mut launcher: Reaped) -> Result<(), SpawnError> {
    match report {
        Some(Report::Dumped) => Ok(()),
        Some(Report::Failed { step, errno, thing }) => Err(SpawnError::Step {
            step,
            thing,
            source: std::io::Error::from_raw_os_error(errno),
        }),
        Some(
            Report::Accepted
            | Report::Started { .. }
            | Report::Stage { .. }
            | Report::Ended(_)
            | Report::GaveUp { .. },
        ) => Err(SpawnError::Receive(rustix::io::Errno::PROTO.into())),
        None => Err(SpawnError::Died(
            launcher.0.wait().map(Some).map_err(SpawnError::Receive)?,
        )),
    }
}
