//! The client of the fork server.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::channel::Channel;
use crate::command::Command;
use crate::report::Report;
use crate::spawn::send_plan;
use crate::worker::{Acceptance, Reaped, ReportReader};
use crate::{LaunchPlan, Launcher, SpawnError, Started};

/// Time limit for the fork server to begin with a plan. It takes less than a millisecond; one
/// that takes this long is stuck, and is replaced.
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(2);

/// A fork server and its client: a launcher that is started once and forks for every plan.
///
/// It never reads a plan itself. What it forks reads the plan, carries it out and is gone, so
/// nothing of one plan is there when the next one comes. It ends when this value does, also if
/// that is because the server is killed.
#[derive(Debug)]
pub struct ForkServer {
    launcher: Launcher,
    /// The process that accepts plans now. Held only for a look-up or a change.
    current: Mutex<Option<Arc<ServerProcess>>>,
}

/// The kind of launcher that has carried a plan out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaunchedBy {
    /// A fork of the fork server.
    Fork,
    /// A launcher that was started for the plan, because the fork server did not accept it. That
    /// one was replaced.
    OwnLauncher {
        /// Failure of the fork server.
        reason: String,
    },
}

#[derive(Debug)]
struct ServerProcess {
    socket: Channel,
    process: Mutex<Reaped>,
}

/// Outcome of asking the fork server.
enum Forked {
    Started(Started),
    /// No process has begun with the plan, nor ever will.
    Refused {
        reason: String,
    },
}

impl ForkServer {
    /// A fork server that is started as `launcher` is.
    ///
    /// Starts it at once, so that the first plan does not wait. Where that fails, each plan
    /// tries again, and a launch says what is wrong.
    pub fn new(launcher: Launcher) -> Self {
        let current = ServerProcess::start(&launcher).ok().map(Arc::new);
        Self {
            launcher,
            current: Mutex::new(current),
        }
    }

    /// Carries out `plan` and returns when the program has been executed.
    ///
    /// As [`Launcher::launch`], by a fork of the fork server. If that is gone or does not accept
    /// the plan, it is replaced, and the plan is carried out by a launcher of its own.
    ///
    /// # Errors
    ///
    /// As [`Launcher::launch`].
    pub fn launch(
        &self,
        plan: LaunchPlan,
        deadline: Duration,
    ) -> Result<(Started, LaunchedBy), SpawnError> {
        let reports = ReportReader::until(deadline);
        match self.launch_by_fork(&plan, reports)? {
            Forked::Started(started) => Ok((started, LaunchedBy::Fork)),
            Forked::Refused { reason } => {
                let started = self.launcher.launch(plan, reports.left())?;
                Ok((started, LaunchedBy::OwnLauncher { reason }))
            }
        }
    }

    /// The process that accepts plans now, if there is one.
    #[doc(hidden)]
    pub fn pid(&self) -> Option<u32> {
        let current = self.current.lock().clone()?;
        let process = current.process.lock();
        Some(process.0.id())
    }

    fn launch_by_fork(
        &self,
        plan: &LaunchPlan,
        reports: ReportReader,
    ) -> Result<Forked, SpawnError> {
        let current = self.current.lock().clone();
        let Some(current) = current else {
            self.replace(None);
            let reason = "it could not be started".into();
            return Ok(Forked::Refused { reason });
        };
        let (ours, theirs) = Channel::pair().map_err(SpawnError::Send)?;
        let sent = send_plan(&current.socket, Some(&theirs), plan);
        // The fork alone holds that end now, so that its death is seen here as the end of the
        // channel.
        drop(theirs);
        let wrong = match sent.and_then(|()| reports.acceptance(&ours, ACCEPT_TIMEOUT)) {
            Ok(Acceptance::Accepted(worker)) => {
                let started = reports.outcome(ours, worker, plan.lifetime)?;
                return Ok(Forked::Started(started));
            }
            Ok(Acceptance::Closed) => "it closed the channel of a plan".to_owned(),
            Ok(Acceptance::Late) => {
                format!("it accepted no plan within {} s", ACCEPT_TIMEOUT.as_secs())
            }
            Err(error) => format!("it cannot be spoken to: {error}"),
        };
        self.replace(Some(&current));
        current.end();
        // It may have forked in its last moment. If not, nobody has the other end.
        match (reports.acceptance(&ours, ACCEPT_TIMEOUT)).map_err(SpawnError::Receive)? {
            Acceptance::Accepted(worker) => {
                let started = reports.outcome(ours, worker, plan.lifetime)?;
                Ok(Forked::Started(started))
            }
            Acceptance::Closed => Ok(Forked::Refused {
                reason: current.last_report().unwrap_or(wrong),
            }),
            Acceptance::Late => Err(reports.silent()),
        }
    }

    /// Starts another one in place of `former`, unless somebody else has.
    fn replace(&self, former: Option<&Arc<ServerProcess>>) {
        let mut current = self.current.lock();
        let is_former = match (&*current, former) {
            (Some(current), Some(former)) => Arc::ptr_eq(current, former),
            (None, _) => true,
            (Some(_), None) => false,
        };
        if is_former {
            // Where it cannot be started, the next plan tries again.
            *current = ServerProcess::start(&self.launcher).ok().map(Arc::new);
        }
    }
}

impl ServerProcess {
    fn start(launcher: &Launcher) -> Result<Self, SpawnError> {
        let (socket, process) = launcher.start()?;
        socket
            .try_send(&Command::ServeForks, &[])
            .map_err(SpawnError::Send)?;
        Ok(Self {
            socket,
            process: Mutex::new(process),
        })
    }

    fn end(&self) {
        self.process.lock().end();
    }

    /// Reason that it gave before it ended, if it did. Called when it is gone: waits for nothing.
    fn last_report(&self) -> Option<String> {
        match self.socket.receive::<Report>().ok()?? {
            (Report::GaveUp { errno, operation }, _) => {
                let error = io::Error::from_raw_os_error(errno);
                let operation = operation.as_deref().unwrap_or("serving");
                Some(format!("it gave up while {operation}: {error}"))
            }
            (
                Report::Accepted
                | Report::Started { .. }
                | Report::Stage { .. }
                | Report::Dumped
                | Report::Failed { .. }
                | Report::Ended(_),
                _,
            ) => None,
        }
    }
}
