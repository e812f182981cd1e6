//! Pausing and resuming sandboxes, and changing what they may reach.

use std::sync::Arc;
use std::time::Duration;

use skep_types::{Capabilities, Egress, ImageKind, Phase, SandboxId, ShownState, TransitionError};

use crate::registry::Entry;
use crate::{Blocked, Caller, Control, QuotaReached, Sandbox, SandboxNotFound};

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
    /// A resumed sandbox would be one more than the team may have.
    #[error(transparent)]
    QuotaReached(#[from] QuotaReached),
    /// Its host cannot do that, or did not.
    #[error("cannot change the sandbox")]
    Node(#[source] TransitionError),
}

impl Control {
    /// Pauses a sandbox of the caller's team. It no longer counts for the team's quota.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; [`ChangeError::Conflict`] also if it is paused already.
    pub async fn pause(
        &self,
        caller: &Caller,
        id: &SandboxId,
        kind: ImageKind,
    ) -> Result<Sandbox, ChangeError> {
        let (entry, phase) = self.changeable_entry(caller, id).await?;
        match phase {
            // The driver answers both who ask while it pauses.
            Phase::Running | Phase::Snapshotting | Phase::Pausing | Phase::Resuming => {}
            Phase::Paused | Phase::Starting | Phase::Stopping | Phase::Stuck | Phase::Gone => {
                return Err(conflict(id, phase));
            }
        }
        let pausing = self.inner.nodes.pause(id.clone(), kind);
        let paused = pausing.await.map_err(|error| refused(id, error));
        self.published(&entry).await;
        Ok(Sandbox {
            order: Arc::clone(&entry.order),
            status: paused?,
        })
    }

    /// Lets a paused sandbox of the caller's team go on, for `lifetime` from now.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; [`ChangeError::Conflict`] also if it runs already.
    pub async fn resume(
        &self,
        caller: &Caller,
        id: &SandboxId,
        lifetime: Duration,
    ) -> Result<Sandbox, ChangeError> {
        let (entry, phase) = self.changeable_entry(caller, id).await?;
        if phase.shown() != Some(ShownState::Paused) {
            return Err(conflict(id, phase));
        }
        if !entry.is_counted() {
            entry.set_quota(Some(self.reserve(caller).await?));
        }
        let resuming = self.inner.nodes.resume(id.clone(), lifetime);
        let resumed = resuming.await.map_err(|error| refused(id, error));
        self.published(&entry).await;
        Ok(Sandbox {
            order: Arc::clone(&entry.order),
            status: resumed?,
        })
    }

    /// Abilities of the host of a sandbox.
    pub async fn capabilities(&self, sandbox: &Sandbox) -> Capabilities {
        self.inner.nodes.capabilities(&sandbox.order.node).await
    }

    /// Changes what a sandbox of the caller's team may reach.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; the old rule holds.
    pub async fn set_egress(
        &self,
        caller: &Caller,
        id: &SandboxId,
        egress: Egress,
    ) -> Result<(), ChangeError> {
        self.changeable_entry(caller, id).await?;
        let changing = self.inner.nodes.set_egress(id.clone(), egress);
        changing.await.map_err(|error| refused(id, error))
    }

    /// A sandbox of the caller's team that the caller sees and may change.
    pub(crate) async fn changeable_entry(
        &self,
        caller: &Caller,
        id: &SandboxId,
    ) -> Result<(Arc<Entry>, Phase), ChangeError> {
        caller.may_change()?;
        let not_found = || SandboxNotFound(id.clone());
        let found = self.inner.registry.find(&caller.team.id, id);
        let entry = found.ok_or_else(not_found)?;
        let status = self.published(&entry).await.ok_or_else(not_found)?;
        match status.phase.shown() {
            Some(_) => Ok((entry, status.phase)),
            None => Err(not_found().into()),
        }
    }
}

fn conflict(id: &SandboxId, phase: Phase) -> ChangeError {
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
        | TransitionError::Failed(_)) => ChangeError::Node(error),
    }
}
