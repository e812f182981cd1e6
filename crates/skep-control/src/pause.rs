//! Pausing sandboxes, and changing what they may reach.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use skep_types::{
    Capabilities, Egress, ImageKind, PauseRequest, Phase, SandboxId, SandboxStatus,
    TransitionError, UnknownToken, VolumeName,
};

use crate::control::now;
use crate::registry::Entry;
use crate::{Blocked, Caller, Control, QuotaReached, Sandbox, SandboxNotFound};

/// A caller's request for a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PauseOrder {
    /// The parts of the sandbox that are kept.
    pub kind: ImageKind,
    /// True if a sandbox whose agent does not answer is to be left alone.
    pub needs_agent: bool,
    /// Earliest moment at which the caller can have asked, if that is known.
    pub asked_after: Option<Timestamp>,
}

impl PauseOrder {
    /// Decides whether a caller who finds a sandbox that was paused at `paused_at` has asked at the
    /// same time as whoever paused it. A pause takes milliseconds, and callers who ask side by side
    /// do not arrive within them.
    fn is_of_pause(&self, paused_at: Timestamp, now: Timestamp) -> bool {
        let may_be_older = self.asked_after.is_some_and(|after| after <= paused_at);
        may_be_older && now.duration_since(paused_at) <= SAME_TIME
    }
}

/// Time after a pause within which callers arrive who have asked side by side with its caller.
const SAME_TIME: SignedDuration = SignedDuration::from_millis(500);

/// Failure to change a sandbox, which is as it was.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The team may not change anything.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// The team has no such sandbox, or no longer.
    #[error(transparent)]
    NotFound(#[from] SandboxNotFound),
    /// It is in a phase in which that is not possible, or is so already.
    #[error("sandbox `{id}` is {phase:?}")]
    Conflict {
        /// Id of the sandbox.
        id: SandboxId,
        /// Its phase at that moment.
        phase: Phase,
    },
    /// It is being resumed in another way than was asked for.
    #[error("sandbox `{0}` is being resumed by somebody else")]
    StartInFlight(SandboxId),
    /// It did not settle within the time that callers wait.
    #[error("sandbox `{0}` is still in transition")]
    Unsettled(SandboxId),
    /// The task that changed it died. It has been logged.
    #[error("the change broke off")]
    BrokeOff,
    /// A resumed sandbox would be one more than the team may have.
    #[error(transparent)]
    QuotaReached(#[from] QuotaReached),
    /// Volumes of it have lost their files, so it cannot be what it was. It is paused.
    #[error("sandbox `{id}` has volumes without files")]
    LostVolumes {
        /// Id of the sandbox.
        id: SandboxId,
        /// Names of the volumes.
        volumes: Vec<VolumeName>,
    },
    /// Rules name an identity token that it does not have.
    #[error(transparent)]
    UnknownToken(#[from] UnknownToken),
    /// Its host cannot do that, or did not.
    #[error("cannot change the sandbox")]
    Node(#[source] TransitionError),
}

impl Control {
    /// Pauses a sandbox of the caller's team. It no longer counts for the team's quota.
    ///
    /// # Cancel safety
    ///
    /// A dropped call changes nothing: the sandbox is paused, or runs on.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; [`ChangeError::Conflict`] also if it is paused already, unless the caller may
    /// have asked before it was.
    pub async fn pause(
        &self,
        caller: &Caller,
        id: &SandboxId,
        asked: PauseOrder,
    ) -> Result<Sandbox, ChangeError> {
        let (entry, status) = self.changeable_entry(caller, id).await?;
        let execution = match status.phase {
            // Whoever asks while it pauses has asked for that pause, and not for one of the run
            // that somebody else's resume makes of it.
            Phase::Running | Phase::Snapshotting | Phase::Pausing => Some(status.execution),
            Phase::Resuming => None,
            Phase::Paused if asked.is_of_pause(status.ends_at, now()) => {
                let order = Arc::clone(&entry.order);
                return Ok(Sandbox { order, status });
            }
            Phase::Paused | Phase::Starting | Phase::Stopping | Phase::Stuck | Phase::Gone => {
                return Err(conflict(id, status.phase));
            }
        };
        let request = PauseRequest {
            kind: asked.kind,
            needs_agent: asked.needs_agent,
            execution,
        };
        let pausing = self.inner.nodes.pause(id.clone(), request);
        let paused = pausing.await.map_err(|error| refused(id, error));
        self.published(&entry).await;
        Ok(Sandbox {
            order: Arc::clone(&entry.order),
            status: paused?,
        })
    }

    /// Abilities of the host of a sandbox.
    pub async fn capabilities(&self, sandbox: &Sandbox) -> Capabilities {
        self.inner.nodes.capabilities(&sandbox.order.node).await
    }

    /// Changes what a running sandbox of the caller's team may reach.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; the old policy holds. One that is paused is not found, and one that is being
    /// killed is a conflict.
    pub async fn set_egress(
        &self,
        caller: &Caller,
        id: &SandboxId,
        egress: Egress,
    ) -> Result<(), ChangeError> {
        caller.may_change()?;
        let (entry, status) = self.connectable(caller, id).await?;
        entry.order.identity.check(egress.request_rules())?;
        match status.phase {
            Phase::Running => {}
            Phase::Paused => return Err(SandboxNotFound(id.clone()).into()),
            Phase::Starting
            | Phase::Snapshotting
            | Phase::Pausing
            | Phase::Resuming
            | Phase::Stopping
            | Phase::Stuck
            | Phase::Gone => return Err(conflict(id, status.phase)),
        }
        let changing = self.inner.nodes.set_egress(id.clone(), egress.clone());
        changing.await.map_err(|error| refused(id, error))?;
        self.note_network(id, &egress);
        Ok(())
    }

    /// A sandbox of the caller's team that the caller sees and may change.
    pub(crate) async fn changeable_entry(
        &self,
        caller: &Caller,
        id: &SandboxId,
    ) -> Result<(Arc<Entry>, SandboxStatus), ChangeError> {
        caller.may_change()?;
        let not_found = || SandboxNotFound(id.clone());
        let found = self.inner.registry.find(&caller.team.id, id);
        let entry = found.ok_or_else(not_found)?;
        let status = self.published(&entry).await.ok_or_else(not_found)?;
        match status.phase.shown() {
            Some(_) => Ok((entry, status)),
            None => Err(not_found().into()),
        }
    }
}

pub(crate) fn conflict(id: &SandboxId, phase: Phase) -> ChangeError {
    let id = id.clone();
    ChangeError::Conflict { id, phase }
}

/// The failure of a change that its host refused.
pub(crate) fn refused(id: &SandboxId, error: TransitionError) -> ChangeError {
    match error {
        TransitionError::NotHere(_) => SandboxNotFound(id.clone()).into(),
        TransitionError::Refused(refused) => conflict(id, refused.phase),
        error @ (TransitionError::Unsupported(_)
        | TransitionError::NoRoom(_)
        | TransitionError::AgentSilent
        | TransitionError::AgentWasSilent
        | TransitionError::Unwritable(_)
        | TransitionError::Failed(_)) => ChangeError::Node(error),
    }
}
