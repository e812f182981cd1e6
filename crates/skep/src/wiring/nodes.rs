//! Control's hosts: this one.

use std::future::ready;
use std::io;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_control::{Admitted, InvalidMounts, NodeCreateError, Nodes};
use skep_isolation::LaunchError;
use skep_node::{CreateError, NoRoom, Node, StartCommandError};
use skep_types::{
    Capabilities, Checkpoint, DeadlineMode, Egress, EndReason, HostResource, ImageKind,
    ImagePurpose, KillError, LogEntry, LoggedRequest, NodeId, NotHere, PauseRequest, Placement,
    Resources, ResumeRequest, Resumed, RollBackRequest, SandboxId, SandboxKind, SandboxSpec,
    SandboxStatus, TransitionError, Usage,
};

/// The node of this very process.
#[derive(Debug, Clone)]
pub(crate) struct LocalNodes(pub(crate) Node);

impl Nodes for LocalNodes {
    fn place<'a>(&'a self, kind: &'a SandboxKind) -> BoxFuture<'a, Placement> {
        let placement = Placement {
            node: NodeId::local(),
            id: self.0.id_for(kind),
        };
        ready(placement).boxed()
    }

    fn warm(&self, kind: SandboxKind) {
        self.0.warm(kind);
    }

    fn warm_built(&self, kind: SandboxKind) {
        self.0.warm_built(kind);
    }

    fn capabilities<'a>(&'a self, _node: &'a NodeId) -> BoxFuture<'a, Capabilities> {
        ready(self.0.capabilities()).boxed()
    }

    fn admit<'a>(
        &'a self,
        id: &'a SandboxId,
        resources: Resources,
    ) -> BoxFuture<'a, Result<Admitted, NodeCreateError>> {
        async move {
            let admitted = self
                .0
                .admit(id, resources)
                .await
                .map(|reservation| Box::new(reservation) as Admitted);
            admitted.map_err(|NoRoom(resource)| NodeCreateError::NoRoom(resource))
        }
        .boxed()
    }

    fn create(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxStatus, NodeCreateError>> {
        async move { self.0.create(spec).await.map_err(create_error) }.boxed()
    }

    fn kill(&self, id: SandboxId) -> BoxFuture<'_, Result<(), KillError>> {
        async move { self.0.kill(&id, EndReason::Killed).await }.boxed()
    }

    fn set_lifetime(
        &self,
        id: SandboxId,
        lifetime: Duration,
        mode: DeadlineMode,
    ) -> BoxFuture<'_, Result<SandboxStatus, NotHere>> {
        async move { self.0.set_lifetime(&id, lifetime, mode).await }.boxed()
    }

    fn status<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<SandboxStatus>> {
        ready(self.0.status(id)).boxed()
    }

    fn pause(
        &self,
        id: SandboxId,
        request: PauseRequest,
    ) -> BoxFuture<'_, Result<SandboxStatus, TransitionError>> {
        async move { self.0.pause(&id, request).await }.boxed()
    }

    fn resume(
        &self,
        id: SandboxId,
        request: ResumeRequest,
    ) -> BoxFuture<'_, Result<Resumed, TransitionError>> {
        async move { self.0.resume(&id, request).await }.boxed()
    }

    fn roll_back(
        &self,
        id: SandboxId,
        request: RollBackRequest,
    ) -> BoxFuture<'_, Result<SandboxStatus, TransitionError>> {
        async move { self.0.roll_back(&id, request).await }.boxed()
    }

    fn snapshot(
        &self,
        id: SandboxId,
        kind: ImageKind,
        purpose: ImagePurpose,
    ) -> BoxFuture<'_, Result<Checkpoint, TransitionError>> {
        async move { self.0.snapshot(&id, kind, purpose).await }.boxed()
    }

    fn forget_checkpoint(&self, _node: NodeId, checkpoint: Checkpoint) -> BoxFuture<'_, ()> {
        async move { self.0.forget_checkpoint(checkpoint).await }.boxed()
    }

    fn set_egress(
        &self,
        id: SandboxId,
        egress: Egress,
    ) -> BoxFuture<'_, Result<(), TransitionError>> {
        async move { self.0.set_egress(&id, egress).await }.boxed()
    }

    fn usage(&self, id: SandboxId) -> BoxFuture<'_, Result<Usage, NotHere>> {
        async move { self.0.usage(&id).await }.boxed()
    }

    fn kept_logs(&self) -> BoxFuture<'_, io::Result<Vec<(SandboxId, u64)>>> {
        async move { self.0.kept_logs().await }.boxed()
    }

    fn forget_log(&self, id: SandboxId) -> BoxFuture<'_, ()> {
        async move { self.0.forget_log(&id).await }.boxed()
    }

    fn requests(&self, id: SandboxId) -> BoxFuture<'_, Vec<LoggedRequest>> {
        async move { self.0.requests(&id).await }.boxed()
    }

    fn logs(&self, id: SandboxId) -> BoxFuture<'_, Vec<LogEntry>> {
        async move { self.0.logs(&id).await }.boxed()
    }
}

fn create_error(error: CreateError) -> NodeCreateError {
    if let CreateError::Launch(LaunchError::Host { source, .. }) = &error
        && let Some(StartCommandError(reason)) = source.downcast_ref()
    {
        return NodeCreateError::StartCommand(reason.to_string());
    }
    match error {
        CreateError::Stopping => NodeCreateError::Stopping,
        CreateError::Launch(LaunchError::NoRoom(_)) => NodeCreateError::NoRoom(HostResource::Slots),
        CreateError::Launch(place @ LaunchError::VolumePlace { .. }) => {
            InvalidMounts(vec![place.to_string()]).into()
        }
        CreateError::Launch(launch) if launch.is_transient() => {
            NodeCreateError::Failed(Box::new(launch))
        }
        CreateError::Launch(launch) => NodeCreateError::Refused(Box::new(launch)),
        CreateError::Exists(_) | CreateError::Killed => NodeCreateError::Failed(Box::new(error)),
    }
}
