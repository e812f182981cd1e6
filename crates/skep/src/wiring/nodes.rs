//! Control's hosts: this one.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_control::{Admitted, KillError, NodeCreateError, Nodes};
use skep_isolation::LaunchError;
use skep_node::{CreateError, NoRoom, Node};
use skep_types::{
    DeadlineMode, Egress, EndReason, HostResource, LogEntry, NotHere, Resources, SandboxId,
    SandboxSpec, SandboxStatus, TemplateImage, TenantId, Usage,
};

/// The node of this very process.
#[derive(Debug, Clone)]
pub(crate) struct LocalNodes(pub(crate) Node);

impl Nodes for LocalNodes {
    fn name_for(&self, template: &TemplateImage, egress: Egress, tenant: &TenantId) -> SandboxId {
        self.0.name_for(template, egress, tenant)
    }

    fn warm(&self, template: TemplateImage, egress: Egress, tenant: TenantId) {
        self.0.warm(template, egress, tenant);
    }

    fn admit<'a>(
        &'a self,
        id: &'a SandboxId,
        resources: Resources,
    ) -> BoxFuture<'a, Result<Admitted, NodeCreateError>> {
        async move {
            let admitted = self.0.admit(id, resources).await;
            let admitted = admitted.map(|reservation| Box::new(reservation) as Admitted);
            admitted.map_err(|NoRoom(resource)| NodeCreateError::NoRoom(resource))
        }
        .boxed()
    }

    fn create(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxStatus, NodeCreateError>> {
        async move { self.0.create(spec).await.map_err(create_error) }.boxed()
    }

    fn kill(&self, id: SandboxId) -> BoxFuture<'_, Result<(), KillError>> {
        async move {
            let killed = self.0.kill(&id, EndReason::Killed).await;
            killed.map_err(|error| match error {
                skep_node::KillError::NotHere(_) => KillError::NotHere,
                skep_node::KillError::Stuck => KillError::Failed(Box::new(error)),
            })
        }
        .boxed()
    }

    fn set_lifetime(
        &self,
        id: SandboxId,
        lifetime: Duration,
        mode: DeadlineMode,
    ) -> BoxFuture<'_, Result<SandboxStatus, NotHere>> {
        async move { self.0.set_lifetime(&id, lifetime, mode).await }.boxed()
    }

    fn status(&self, id: &SandboxId) -> Option<SandboxStatus> {
        self.0.status(id)
    }

    fn usage(&self, id: SandboxId) -> BoxFuture<'_, Result<Usage, NotHere>> {
        async move { self.0.usage(&id).await }.boxed()
    }

    fn logs(&self, id: SandboxId) -> BoxFuture<'_, Vec<LogEntry>> {
        async move { self.0.logs(&id).await }.boxed()
    }
}

fn create_error(error: CreateError) -> NodeCreateError {
    match error {
        CreateError::Stopping => NodeCreateError::Stopping,
        CreateError::Launch(launch) => match &launch {
            LaunchError::NoRoom(_) => NodeCreateError::NoRoom(HostResource::Slots),
            LaunchError::AgentSilent(_) => NodeCreateError::Failed(Box::new(launch)),
            LaunchError::Host { .. } | LaunchError::Step { .. } | LaunchError::AgentEnded(_) => {
                NodeCreateError::Refused(Box::new(launch))
            }
        },
        CreateError::Exists(_) | CreateError::Killed => NodeCreateError::Failed(Box::new(error)),
    }
}
