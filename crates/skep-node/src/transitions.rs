//! Requests that change the phase of a sandbox, or what it may reach.

use skep_types::{
    Checkpoint, Egress, ImageKind, ImagePurpose, NotHere, PauseRequest, ResumeRequest, Resumed,
    RollBackRequest, SandboxId, SandboxStatus, TransitionError,
};

use crate::driver::{Request, Transition};
use crate::node::{AskError, Node};

impl Node {
    /// Pauses a sandbox that runs: nobody can reach it from then on, and it has no deadline. One
    /// that is paused stays so.
    ///
    /// # Errors
    ///
    /// [`TransitionError`]; it runs on.
    pub async fn pause(
        &self,
        id: &SandboxId,
        request: PauseRequest,
    ) -> Result<SandboxStatus, TransitionError> {
        self.transition(id, |answer| Request::Pause { request, answer })
            .await
    }

    /// Lets a paused sandbox go on and returns when its agent is reachable. It is another execution
    /// then. One that runs lives at least as long as was asked for.
    ///
    /// # Errors
    ///
    /// [`TransitionError`]; it is paused as it was.
    pub async fn resume(
        &self,
        id: &SandboxId,
        request: ResumeRequest,
    ) -> Result<Resumed, TransitionError> {
        self.transition(id, |answer| Request::Resume { request, answer })
            .await
    }

    /// Puts a sandbox back to a checkpoint, as another execution.
    ///
    /// # Errors
    ///
    /// [`TransitionError`]; it is as it was, or paused as it was.
    pub async fn roll_back(
        &self,
        id: &SandboxId,
        request: RollBackRequest,
    ) -> Result<SandboxStatus, TransitionError> {
        self.transition(id, |answer| Request::RollBack { request, answer })
            .await
    }

    /// Takes a checkpoint of a sandbox, which goes on or is paused as it was. [`Node::create`] makes copies of it until
    /// [`Node::forget_checkpoint`].
    ///
    /// # Errors
    ///
    /// [`TransitionError`]; there is no image.
    pub async fn snapshot(
        &self,
        id: &SandboxId,
        kind: ImageKind,
        purpose: ImagePurpose,
    ) -> Result<Checkpoint, TransitionError> {
        let request = |answer| Request::Snapshot {
            kind,
            purpose,
            answer,
        };
        self.transition(id, request).await
    }

    /// Changes what a sandbox may reach.
    ///
    /// # Errors
    ///
    /// [`TransitionError`]; the old rule holds.
    pub async fn set_egress(&self, id: &SandboxId, egress: Egress) -> Result<(), TransitionError> {
        self.transition(id, |answer| Request::Egress { egress, answer })
            .await
    }

    /// Deletes the image of a checkpoint. A failure goes to the server's own log.
    pub async fn forget_checkpoint(&self, checkpoint: Checkpoint) {
        if let Err(error) = self.inner.isolation.forget_checkpoint(checkpoint).await {
            tracing::warn!(%error, "cannot delete the image of a checkpoint");
        }
    }

    /// Deletes every image on this host but these. Call it once, after [`Node::adopt`] and before the
    /// first request.
    pub async fn retain_checkpoints(&self, kept: Vec<Checkpoint>) {
        if let Err(error) = self.inner.isolation.retain_checkpoints(kept).await {
            tracing::warn!(%error, "cannot remove orphaned images");
        }
    }

    async fn transition<T>(
        &self,
        id: &SandboxId,
        request: impl FnOnce(Transition<T>) -> Request,
    ) -> Result<T, TransitionError> {
        match self.ask(id, request).await {
            Ok(answer) => answer,
            Err(AskError::NotHere) => Err(NotHere.into()),
            // It is there, and nobody knows what becomes of the change.
            Err(error @ AskError::Late) => Err(TransitionError::Failed(error.into())),
        }
    }
}
