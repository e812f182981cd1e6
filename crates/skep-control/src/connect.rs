//! Connecting to sandboxes, and letting paused ones go on.

use std::sync::Arc;
use std::time::Duration;

use skep_telemetry::Chain;
use skep_types::{
    ImageKind, NotHere, OnTimeout, Phase, Restart, ResumeRequest, ResumeStart, Resumed, SandboxId,
    SandboxStatus, TransitionError,
};

use crate::pause::{conflict, refused};
use crate::registry::Entry;
use crate::{Caller, ChangeError, Control, QuotaReached, Sandbox, SandboxNotFound};

/// Time limit for a sandbox to settle into one that runs: callers give up then.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(55);

/// Time to live of a running sandbox whose caller does not say for how long, and the shortest of one
/// that is resumed so.
const SHORTEST_LIFETIME: Duration = Duration::from_secs(300);

/// A caller's request for a sandbox that runs.
#[derive(Debug, Clone, Copy)]
pub struct ConnectOrder {
    /// Time to live from now, at least; `None` is five minutes, or for a paused sandbox what it was
    /// created with if that is more.
    pub lifetime: Option<Duration>,
    /// The parts of a paused sandbox that are used.
    pub start: ResumeStart,
    /// Another fate for a sandbox that is resumed; `None` leaves it as it is.
    pub on_timeout: Option<OnTimeout>,
    /// The answer for a sandbox that runs already.
    pub if_running: IfRunning,
}

/// Answers for a sandbox that runs when somebody asks for it to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfRunning {
    /// It lives at least as long as was asked for.
    Extend,
    /// It is a conflict.
    Refuse,
}

/// A sandbox that runs.
#[derive(Debug, Clone)]
pub struct Connected {
    /// The sandbox.
    pub sandbox: Sandbox,
    /// True if it was paused, and this request or one that it joined has resumed it.
    pub was_resumed: bool,
}

impl Control {
    /// Returns a sandbox of the caller's team when it runs, and resumes it if it is paused. Waits
    /// for whatever is under way with it.
    ///
    /// # Cancel safety
    ///
    /// A dropped call changes nothing: the sandbox is resumed, or stays paused.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; [`ChangeError::Conflict`] if it is being killed.
    pub async fn connect(
        &self,
        caller: &Caller,
        id: &SandboxId,
        order: ConnectOrder,
    ) -> Result<Connected, ChangeError> {
        caller.may_change()?;
        let (control, caller, id) = (self.clone(), caller.clone(), id.clone());
        let connecting = self.detached("connect to sandbox", async move {
            let settling = control.settle(&caller, &id, order);
            let settled = tokio::time::timeout(SETTLE_TIMEOUT, settling).await;
            settled.unwrap_or_else(|_elapsed| Err(ChangeError::Unsettled(id)))
        });
        connecting.await.unwrap_or(Err(ChangeError::BrokeOff))
    }

    /// Resumes a paused sandbox because of a request to it, which has shown what it needs to be let
    /// in. One that runs is left alone.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; it is paused as it was.
    pub async fn auto_resume(&self, id: &SandboxId) -> Result<(), ChangeError> {
        let not_found = || SandboxNotFound(id.clone());
        let found = self.inner.registry.find_anywhere(id);
        let entry = found.ok_or_else(not_found)?;
        let caller = self.owner(&entry.order.team).await.ok_or_else(not_found)?;
        let order = ConnectOrder {
            lifetime: None,
            start: ResumeStart::AsPaused,
            on_timeout: None,
            if_running: IfRunning::Extend,
        };
        self.connect(&caller, id, order).await.map(drop)
    }

    /// Follows a sandbox through its phases until it runs.
    async fn settle(
        &self,
        caller: &Caller,
        id: &SandboxId,
        order: ConnectOrder,
    ) -> Result<Connected, ChangeError> {
        let mut was_resumed = false;
        loop {
            let (entry, status) = self.connectable(caller, id).await?;
            match status.phase {
                Phase::Running | Phase::Snapshotting => {
                    if order.if_running == IfRunning::Refuse && !was_resumed {
                        return Err(conflict(id, status.phase));
                    }
                    if let Some(sandbox) = self.extend(caller, &entry, status, order).await {
                        return Ok(Connected {
                            sandbox,
                            was_resumed,
                        });
                    }
                    // It has just been paused or killed, and says so when others have had a turn.
                    tokio::task::yield_now().await;
                }
                Phase::Pausing | Phase::Paused | Phase::Resuming => {
                    let keeps_memory = order.start == ResumeStart::AsPaused
                        && status.paused == Some(ImageKind::Memory);
                    let resumed = self.resume(caller, &entry, order, keeps_memory).await?;
                    if let Some(sandbox) = resumed {
                        return Ok(Connected {
                            sandbox,
                            was_resumed: true,
                        });
                    }
                    // Somebody else did, or a pause was undone.
                    was_resumed = status.phase != Phase::Pausing;
                }
                Phase::Starting | Phase::Stopping | Phase::Stuck | Phase::Gone => {
                    return Err(conflict(id, status.phase));
                }
            }
        }
    }

    /// A sandbox that runs, is paused, or is between these. One that is being killed is a conflict:
    /// it may seem to be there still.
    pub(crate) async fn connectable(
        &self,
        caller: &Caller,
        id: &SandboxId,
    ) -> Result<(Arc<Entry>, SandboxStatus), ChangeError> {
        let not_found = || SandboxNotFound(id.clone());
        let found = self.inner.registry.find(&caller.team.id, id);
        let entry = found.ok_or_else(not_found)?;
        let status = self.published(&entry).await.ok_or_else(not_found)?;
        match status.phase {
            Phase::Starting => Err(not_found().into()),
            Phase::Running
            | Phase::Snapshotting
            | Phase::Pausing
            | Phase::Paused
            | Phase::Resuming
            | Phase::Stopping
            | Phase::Stuck
            | Phase::Gone => Ok((entry, status)),
        }
    }

    /// Lets a running sandbox live at least as long as was asked for; `None` if it does not run any
    /// more.
    async fn extend(
        &self,
        caller: &Caller,
        entry: &Entry,
        status: SandboxStatus,
        order: ConnectOrder,
    ) -> Option<Sandbox> {
        let asked = order.lifetime.unwrap_or(SHORTEST_LIFETIME);
        let lifetime = crate::deadline::bounded(asked, status.started_at, caller);
        let sandbox = |status| Sandbox {
            order: Arc::clone(&entry.order),
            status,
        };
        let Some(lifetime) = lifetime.filter(|lifetime| !lifetime.is_zero()) else {
            return Some(sandbox(status));
        };
        let id = entry.order.id.clone();
        let mode = skep_types::DeadlineMode::Extend;
        match self.inner.nodes.set_lifetime(id, lifetime, mode).await {
            Ok(status) => Some(sandbox(status)),
            Err(NotHere) => None,
        }
    }

    /// Resumes a sandbox, unless somebody else does; then waits for that and returns `None`.
    async fn resume(
        &self,
        caller: &Caller,
        entry: &Arc<Entry>,
        order: ConnectOrder,
        keeps_memory: bool,
    ) -> Result<Option<Sandbox>, ChangeError> {
        let id = &entry.order.id;
        let turn = match entry.resuming.try_lock() {
            Ok(turn) => turn,
            // Joined, it would be started in another way than was asked for.
            Err(_) if order.start == ResumeStart::Reboot => {
                return Err(ChangeError::StartInFlight(id.clone()));
            }
            Err(_) => {
                drop(entry.resuming.lock().await);
                return Ok(None);
            }
        };
        let quota = self.part_for_resume(caller, entry).await?;
        let asked = order.lifetime.filter(|lifetime| !lifetime.is_zero());
        let lifetime = asked.unwrap_or_else(|| usual_lifetime(caller, entry));
        // With its memory goes on what was started, too.
        let restart = if keeps_memory {
            None
        } else {
            self.restart(caller, &entry.base(), entry).await
        };
        let request = ResumeRequest {
            lifetime,
            start: order.start,
            on_timeout: order.on_timeout,
            restart,
        };
        let resuming = self.inner.nodes.resume(id.clone(), request);
        let resumed = match resuming.await {
            Ok(resumed) => Ok(resumed),
            Err(error) => Err(self.not_resumed(entry, error).await),
        };
        if let (Ok(_), Some(quota)) = (&resumed, quota) {
            entry.set_quota(quota);
        }
        self.published(entry).await;
        drop(turn);
        let Resumed {
            status,
            was_running,
        } = resumed?;
        let sandbox = Sandbox {
            order: Arc::clone(&entry.order),
            status,
        };
        Ok((!was_running).then_some(sandbox))
    }

    /// Says why a sandbox was not resumed: for want of a volume, if that is so.
    ///
    /// Asked afterwards: one that sleeps with its processes has its volumes mounted, and goes on with
    /// them whatever became of their files' names.
    async fn not_resumed(&self, entry: &Entry, error: TransitionError) -> ChangeError {
        let order = &entry.order;
        if matches!(error, TransitionError::Failed(_)) {
            let volumes = self.lost_volumes(&order.mounts).await;
            if !volumes.is_empty() {
                let id = order.id.clone();
                return ChangeError::LostVolumes { id, volumes };
            }
        }
        refused(&order.id, error)
    }

    /// Finds the start command of the template that a sandbox's files are made of. One that cannot be found starts nothing: its sandbox is
    /// resumed all the same.
    pub(crate) async fn restart(
        &self,
        caller: &Caller,
        base: &str,
        entry: &Entry,
    ) -> Option<Box<Restart>> {
        let template = match self.base_of(caller, base).await {
            Ok(template) => template,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "the template of a resumed sandbox is not found");
                return None;
            }
        };
        Some(Box::new(Restart {
            start: *template.start?,
            env: template.env,
            access_token: entry.order.access_token.clone(),
        }))
    }

    /// The part of the quota that a resumed sandbox takes; `None` if it has one, because its pause
    /// is not over or was undone.
    pub(crate) async fn part_for_resume(
        &self,
        caller: &Caller,
        entry: &Entry,
    ) -> Result<Option<crate::quota::QuotaGuard>, QuotaReached> {
        if entry.is_counted() {
            return Ok(None);
        }
        self.reserve(caller).await.map(Some)
    }
}

/// Time to live of a sandbox that is resumed by somebody who does not say for how long: what it was
/// created with, and five minutes at least.
fn usual_lifetime(caller: &Caller, entry: &Entry) -> Duration {
    let created_with = entry.order.lifetime;
    created_with
        .max(SHORTEST_LIFETIME)
        .min(caller.limits.lifetime)
}
