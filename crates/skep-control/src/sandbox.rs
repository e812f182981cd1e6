//! Finding and ending sandboxes.

use std::sync::Arc;

use skep_store::{Order, StoreError};
use skep_types::{AccessToken, Departure, KillError, Phase, SandboxId, SandboxStatus, TeamId};

use crate::{Caller, Control};

/// A sandbox that its team may see.
#[derive(Debug, Clone)]
pub struct Sandbox {
    /// The sandbox as it was ordered.
    pub order: Arc<Order>,
    /// Phase, deadline and execution, as its node publishes them.
    pub status: SandboxStatus,
}

/// The team has no sandbox of that name, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no sandbox `{0}`")]
pub struct SandboxNotFound(pub SandboxId);

/// Failure to end a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum StopError {
    /// The team has none of that name, or no longer.
    #[error(transparent)]
    NotFound(#[from] SandboxNotFound),
    /// Something of it is left.
    #[error("cannot end the sandbox")]
    Node(#[source] KillError),
}

impl Control {
    /// A running or paused sandbox of the caller's team.
    ///
    /// # Errors
    ///
    /// [`SandboxNotFound`], also while it is being ended.
    pub async fn find(&self, caller: &Caller, id: &SandboxId) -> Result<Sandbox, SandboxNotFound> {
        let known = self.known(caller, id).await;
        known
            .filter(|sandbox| sandbox.status.phase.shown().is_some())
            .ok_or_else(|| SandboxNotFound(id.clone()))
    }

    /// Ends a sandbox of the caller's team and returns when nothing of it is left.
    ///
    /// # Errors
    ///
    /// [`StopError::NotFound`] also if somebody else ends it, but not before it is gone.
    /// [`StopError::Node`] if something of it is left: it keeps its place in the team's quota.
    pub async fn kill(&self, caller: &Caller, id: &SandboxId) -> Result<(), StopError> {
        let known = self
            .known(caller, id)
            .await
            .ok_or_else(|| SandboxNotFound(id.clone()))?;
        match known.status.phase {
            Phase::Running
            | Phase::Snapshotting
            | Phase::Pausing
            | Phase::Paused
            | Phase::Resuming
            | Phase::Stopping
            | Phase::Stuck => {}
            // Nobody has been told of it yet, or nothing is left of it.
            Phase::Starting | Phase::Gone => return Err(SandboxNotFound(id.clone()).into()),
        }
        match self.inner.nodes.kill(id.clone()).await {
            Ok(()) => {}
            Err(KillError::NotHere(_)) => return Err(SandboxNotFound(id.clone()).into()),
            Err(error @ KillError::Stuck) => return Err(StopError::Node(error)),
        }
        self.inner.registry.remove(&caller.team.id, id);
        Ok(())
    }

    /// Returns true if `accepts` says yes to the token that opens this sandbox of any team.
    pub fn is_opened(&self, id: &SandboxId, accepts: impl Fn(&AccessToken) -> bool) -> bool {
        let entry = self.inner.registry.find_anywhere(id);
        entry.is_some_and(|entry| entry.order.access_token.as_ref().is_some_and(accepts))
    }

    /// The end of a sandbox of this team, if it has ended and is remembered.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn departure(
        &self,
        team: &TeamId,
        id: &SandboxId,
    ) -> Result<Option<Departure>, StoreError> {
        let record = self.inner.store.sandboxes().find(id.clone()).await?;
        let own = record.filter(|record| record.order.team == *team);
        Ok(own.and_then(|record| {
            let ending = record.ending?;
            Some(Departure {
                reason: ending.reason,
                at: ending.at,
                memory_mib: record.order.resources.memory_mib,
            })
        }))
    }

    /// A sandbox of the caller's team in whatever phase.
    pub(crate) async fn known(&self, caller: &Caller, id: &SandboxId) -> Option<Sandbox> {
        let entry = self.inner.registry.find(&caller.team.id, id)?;
        let status = self.published(&entry).await?;
        Some(Sandbox {
            order: Arc::clone(&entry.order),
            status,
        })
    }

    /// Every sandbox of the caller's team, in whatever phase and no order.
    pub(crate) async fn all(&self, caller: &Caller) -> Vec<Sandbox> {
        let entries = self.inner.registry.of(&caller.team.id);
        let mut all = Vec::with_capacity(entries.len());
        for entry in entries {
            let status = self.published(&entry).await;
            all.extend(status.map(|status| Sandbox {
                order: Arc::clone(&entry.order),
                status,
            }));
        }
        all
    }
}
