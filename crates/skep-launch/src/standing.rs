//! The server's side of a launcher that stays.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::carrier::{Beginning, Hearing, Reaped};
use crate::channel::Channel;
use crate::order::Order;
use crate::spawn::send_plan;
use crate::{Descriptors, LaunchPlan, Launcher, SpawnError, Started};

/// Time limit for a launcher that stays to begin with a plan. It takes less than a millisecond; one
/// that takes this long is stuck, and is replaced.
const BEGIN: Duration = Duration::from_secs(2);

/// A launcher that stays: started once, it forks for every plan.
///
/// It never reads a plan itself. What it forks reads the plan, carries it out and is gone, so
/// nothing of one plan is there when the next one comes. It ends when this value does, also if
/// that is because the server is killed.
#[derive(Debug)]
pub struct StandingLauncher {
    launcher: Launcher,
    /// The one that takes plans now. Held only for a look-up or a change.
    standing: Mutex<Option<Arc<Standing>>>,
}

/// The kind of launcher that has carried a plan out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CarriedOutBy {
    /// A fork of the launcher that stays.
    Fork,
    /// A launcher that was started for it, because the one that stays did not take it.
    OwnLauncher,
}

#[derive(Debug)]
struct Standing {
    socket: Channel,
    process: Mutex<Reaped>,
}

impl StandingLauncher {
    /// A launcher that is started as `launcher` is.
    ///
    /// Starts it at once, so that the first plan does not wait. Where that fails, each plan
    /// tries again, and a launch says what is wrong.
    pub fn new(launcher: Launcher) -> Self {
        let standing = Standing::start(&launcher).ok().map(Arc::new);
        Self {
            launcher,
            standing: Mutex::new(standing),
        }
    }

    /// Carries out `plan` and returns when the program has been executed.
    ///
    /// As [`Launcher::launch`], by a fork of the launcher that stays. If that is gone or does
    /// not take the plan, it is replaced, and the plan is carried out by a launcher of its own.
    ///
    /// # Errors
    ///
    /// As [`Launcher::launch`].
    pub fn launch(
        &self,
        plan: &LaunchPlan,
        descriptors: Descriptors,
        deadline: Duration,
    ) -> Result<(Started, CarriedOutBy), SpawnError> {
        let hearing = Hearing::until(deadline);
        if let Some(started) = self.launch_by_fork(plan, &descriptors, hearing)? {
            return Ok((started, CarriedOutBy::Fork));
        }
        let started = self.launcher.launch(plan, descriptors, hearing.left())?;
        Ok((started, CarriedOutBy::OwnLauncher))
    }

    /// The process that takes plans now, if there is one.
    #[doc(hidden)]
    pub fn pid(&self) -> Option<u32> {
        let standing = self.standing().clone()?;
        let process = standing.process.lock().expect("no holder panics");
        Some(process.0.id())
    }

    /// `None` if nobody has begun with the plan, nor ever will.
    fn launch_by_fork(
        &self,
        plan: &LaunchPlan,
        descriptors: &Descriptors,
        hearing: Hearing,
    ) -> Result<Option<Started>, SpawnError> {
        let Some(standing) = self.standing().clone() else {
            self.replace(None);
            return Ok(None);
        };
        let (ours, theirs) = Channel::pair().map_err(SpawnError::Send)?;
        let order = send_plan(&standing.socket, Some(&theirs), plan, descriptors);
        // The fork alone holds that end now, so that its death is seen here as the end of the
        // channel.
        drop(theirs);
        let beginning = match order {
            Ok(()) => hearing.beginning(&ours, BEGIN),
            Err(error) => Err(error),
        };
        let beginning = match beginning {
            Ok(Beginning::Taken(carrier)) => {
                return hearing.outcome(ours, carrier, plan.lifetime).map(Some);
            }
            Ok(Beginning::Nobody | Beginning::Late) | Err(_) => {
                self.replace(Some(&standing));
                standing.end();
                // It may have forked in its last moment. If not, nobody has the other end.
                hearing.beginning(&ours, BEGIN)
            }
        };
        match beginning.map_err(SpawnError::Receive)? {
            Beginning::Taken(carrier) => hearing.outcome(ours, carrier, plan.lifetime).map(Some),
            Beginning::Nobody => Ok(None),
            Beginning::Late => Err(hearing.silent()),
        }
    }

    /// Starts another one in place of `former`, unless somebody else has.
    fn replace(&self, former: Option<&Arc<Standing>>) {
        let mut standing = self.standing();
        let is_former = match (&*standing, former) {
            (Some(standing), Some(former)) => Arc::ptr_eq(standing, former),
            (None, _) => true,
            (Some(_), None) => false,
        };
        if is_former {
            // Where it cannot be started, the next plan tries again.
            *standing = Standing::start(&self.launcher).ok().map(Arc::new);
        }
    }

    fn standing(&self) -> MutexGuard<'_, Option<Arc<Standing>>> {
        self.standing.lock().expect("no holder panics")
    }
}

impl Standing {
    fn start(launcher: &Launcher) -> Result<Self, SpawnError> {
        let (socket, process) = launcher.start()?;
        socket
            .try_send(&Order::Stay, &[])
            .map_err(SpawnError::Send)?;
        Ok(Self {
            socket,
            process: Mutex::new(process),
        })
    }

    fn end(&self) {
        self.process.lock().expect("no holder panics").end();
    }
}
