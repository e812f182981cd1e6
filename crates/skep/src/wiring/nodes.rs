//! Control's machines: this one.

use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_control::{
    Admitted, DeadlineMode, KillError, LogEntry, LogLevel, NodeCreateError, Nodes, NotHere,
};
use skep_isolation::LaunchError;
use skep_node::{CreateError, ExtendMode, NoRoom, Node};
use skep_types::{
    Egress, EndReason, HostResource, Resources, SandboxId, SandboxSpec, SandboxStatus,
    TemplateImage, TenantId, Usage,
};
use skep_wire::rest;

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
        let mode = match mode {
            DeadlineMode::Set => ExtendMode::Set,
            DeadlineMode::Extend => ExtendMode::OnlyExtend,
        };
        async move {
            self.0
                .set_lifetime(&id, lifetime, mode)
                .await
                .map_err(|skep_node::NotHere| NotHere)
        }
        .boxed()
    }

    fn status(&self, id: &SandboxId) -> Option<SandboxStatus> {
        self.0.status(id)
    }

    fn usage(&self, id: SandboxId) -> BoxFuture<'_, Result<Usage, NotHere>> {
        async move {
            self.0
                .usage(&id)
                .await
                .map_err(|skep_node::NotHere| NotHere)
        }
        .boxed()
    }

    fn logs(&self, id: SandboxId) -> BoxFuture<'_, Vec<LogEntry>> {
        async move { entries(&self.0.log(&id).await) }.boxed()
    }
}

/// The entries in what a sandbox said, in the order of time. The sandbox wrote it, so a line
/// may be anything; one that is no entry is left out.
fn entries(text: &[u8]) -> Vec<LogEntry> {
    let lines = text.split(|byte| *byte == b'\n');
    let mut entries: Vec<_> = lines
        .filter_map(|line| serde_json::from_slice::<rest::LogEntry>(line).ok())
        .map(|entry| LogEntry {
            at: entry.timestamp,
            level: level(entry.level),
            message: entry.message,
            fields: entry.fields,
        })
        .collect();
    entries.sort_by_key(|entry| entry.at);
    entries
}

fn level(level: rest::LogLevel) -> LogLevel {
    match level {
        rest::LogLevel::Debug => LogLevel::Debug,
        rest::LogLevel::Info => LogLevel::Info,
        rest::LogLevel::Warn => LogLevel::Warn,
        rest::LogLevel::Error => LogLevel::Error,
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
