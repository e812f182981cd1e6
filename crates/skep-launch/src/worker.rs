//! The process that carries a plan out, and the reader of its reports.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Signal, WaitId, WaitIdOptions};

use crate::channel::Channel;
use crate::report::Report;
use crate::spawn::Tied;
use crate::{Lifetime, SpawnError, Started};

/// The process that carries a plan out.
#[derive(Debug)]
pub(crate) enum Worker {
    /// It was started for the plan.
    Own(Reaped),
    /// It was forked for the plan by the fork server.
    Forked(Forked),
}

/// A child that is killed and reaped when it is let go, so that it never outlives its owner.
#[derive(Debug)]
pub(crate) struct Reaped(pub(crate) Child);

/// A process of somebody else, killed when it is let go. Who made it reaps it.
#[derive(Debug)]
pub(crate) struct Forked {
    /// Missing when it was released.
    pidfd: Option<OwnedFd>,
}

impl Worker {
    /// Waits until it is gone, and says how it ended if that can be known.
    pub(crate) fn wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Self::Own(child) => child.0.wait().map(Some),
            Self::Forked(forked) => {
                if let Some(pidfd) = &forked.pidfd {
                    wait_until_gone(pidfd.as_fd())?;
                }
                Ok(None)
            }
        }
    }

    /// Lets go of a launcher that has done its work. Returns the pidfd to wait for, if it is not a
    /// child of this process.
    fn release(mut self) -> io::Result<Option<OwnedFd>> {
        match &mut self {
            Self::Own(child) => {
                child.0.wait()?;
                Ok(None)
            }
            Self::Forked(forked) => Ok(forked.pidfd.take()),
        }
    }
}

impl Reaped {
    /// Kills and reaps it, if that has not been done.
    pub(crate) fn end(&mut self) {
        // Both fail only when the child has been reaped already, which is what is wanted.
        if self.0.kill().is_ok() {
            self.0.wait().ok();
        }
    }
}

impl Drop for Reaped {
    fn drop(&mut self) {
        self.end();
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        if let Some(pidfd) = &self.pidfd {
            // Both fail only when it is gone already.
            rustix::process::pidfd_send_signal(pidfd, Signal::KILL).ok();
            wait_until_gone(pidfd.as_fd()).ok();
        }
    }
}

/// Waits until a process has ended. It may have become our child when its parent died, and is
/// reaped then.
fn wait_until_gone(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    readable(pidfd, None)?;
    match rustix::process::waitid(WaitId::PidFd(pidfd), WaitIdOptions::EXITED) {
        Ok(_) | Err(rustix::io::Errno::CHILD) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Answer of the fork server to a plan.
#[derive(Debug)]
pub(crate) enum Acceptance {
    /// A fork has it.
    Accepted(Worker),
    /// The other end was closed, so no process has it, nor ever will.
    Closed,
    /// No process has begun with the plan within the given time.
    Late,
}

/// Reader of the reports of the process that carries a plan out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReportReader {
    deadline: Duration,
    end: Instant,
}

impl ReportReader {
    pub(crate) fn until(deadline: Duration) -> Self {
        Self {
            deadline,
            end: Instant::now() + deadline,
        }
    }

    /// Returns the deadline.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// Returns the time left until the deadline.
    pub(crate) fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }

    /// Waits until a process begins with the plan. Called again if it was late.
    pub(crate) fn acceptance(&self, channel: &Channel, time: Duration) -> io::Result<Acceptance> {
        let end = self.end.min(Instant::now() + time);
        if !readable(channel.as_fd(), Some(end))? {
            return Ok(Acceptance::Late);
        }
        match channel.receive::<Report>()? {
            Some((Report::Accepted, mut sent)) => {
                let pidfd = Some(sent.pop().ok_or_else(out_of_turn)?);
                Ok(Acceptance::Accepted(Worker::Forked(Forked { pidfd })))
            }
            Some(_) => Err(out_of_turn()),
            None => Ok(Acceptance::Closed),
        }
    }

    /// Waits until the plan is carried out.
    pub(crate) fn outcome(
        &self,
        channel: Channel,
        launcher: Worker,
        lifetime: Lifetime,
    ) -> Result<Started, SpawnError> {
        if !readable(channel.as_fd(), Some(self.end)).map_err(SpawnError::Receive)? {
            return Err(self.silent());
        }
        let report = channel.receive::<Report>().map_err(SpawnError::Receive)?;
        started(report, channel, launcher, lifetime)
    }

    pub(crate) fn silent(&self) -> SpawnError {
        SpawnError::Silent(self.deadline)
    }
}

/// The process that a launcher has reported, or the reason for which there is none.
pub(crate) fn started(
    report: Option<(Report, Vec<OwnedFd>)>,
    channel: Channel,
    mut launcher: Worker,
    lifetime: Lifetime,
) -> Result<Started, SpawnError> {
    match report {
        Some((Report::Started { pid, timings }, mut sent)) => {
            let pidfd = sent
                .pop()
                .ok_or_else(out_of_turn)
                .map_err(SpawnError::Receive)?;
            let (tied, exiting) = match lifetime {
                Lifetime::Tied => (Some(Tied { channel, launcher }), None),
                Lifetime::Detached => (None, launcher.release().map_err(SpawnError::Receive)?),
            };
            Ok(Started {
                pid,
                pidfd,
                timings,
                exiting,
                tied,
            })
        }
        Some((Report::Failed { step, errno, thing }, _)) => Err(SpawnError::Step {
            step,
            thing,
            source: io::Error::from_raw_os_error(errno),
        }),
        Some((
            Report::Accepted
            | Report::Stage { .. }
            | Report::Dumped
            | Report::Ended(_)
            | Report::GaveUp { .. },
            _,
        )) => Err(SpawnError::Receive(out_of_turn())),
        None => Err(SpawnError::Died(
            launcher.wait().map_err(SpawnError::Receive)?,
        )),
    }
}

fn out_of_turn() -> io::Error {
    rustix::io::Errno::PROTO.into()
}

/// Waits until there is something to read, or the end of it. False when the time is over.
pub(crate) fn readable(descriptor: BorrowedFd<'_>, end: Option<Instant>) -> io::Result<bool> {
    loop {
        let left = end
            .map(|end| end.saturating_duration_since(Instant::now()))
            .map(Timespec::try_from)
            .transpose()
            .map_err(io::Error::other)?;
        let mut descriptors = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        match rustix::event::poll(&mut descriptors, left.as_ref()) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
