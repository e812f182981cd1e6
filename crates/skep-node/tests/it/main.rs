//! The node through its boundary, over a fake backend and an in-memory journal.

mod adoption;
mod host;
mod life;
mod pause;
mod spares;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_agent_protocol::AgentConfig;
use skep_isolation::FakeIsolation;
use skep_node::{Agents, ConfigureError, MemoryJournal, Node, NodeOptions};
use skep_types::{
    AccessToken, AdmissionPolicy, Egress, Redacted, Resources, SandboxId, SandboxSpec, Secrets,
    Sharing, TeamId, TemplateId, TemplateImage, TenantId,
};

/// A host that outlives its server: new nodes find the sandboxes of the last one.
#[derive(Default)]
struct TestHost {
    isolation: FakeIsolation,
    journal: MemoryJournal,
    agents: FakeAgents,
}

/// Agents that take what they are told, unless they are told to refuse.
#[derive(Debug, Clone, Default)]
struct FakeAgents {
    told: Arc<Mutex<Vec<AgentConfig>>>,
    refuse: Arc<AtomicBool>,
}

impl Agents for FakeAgents {
    fn configure<'a>(
        &'a self,
        address: IpAddr,
        config: &'a AgentConfig,
    ) -> BoxFuture<'a, Result<(), ConfigureError>> {
        async move {
            if self.refuse.load(Ordering::SeqCst) {
                let source = "refused".into();
                return Err(ConfigureError { address, source });
            }
            self.told.lock().push(config.clone());
            Ok(())
        }
        .boxed()
    }
}

impl TestHost {
    fn node(&self) -> Node {
        self.node_with_spares(0)
    }

    fn node_with_spares(&self, spares: usize) -> Node {
        Node::new(NodeOptions {
            isolation: Arc::new(self.isolation.clone()),
            journal: Arc::new(self.journal.clone()),
            agents: Arc::new(self.agents.clone()),
            spares,
            admission: AdmissionPolicy::default(),
        })
    }
}

fn spec(lifetime: Duration) -> SandboxSpec {
    SandboxSpec {
        id: SandboxId::random(),
        template: TemplateImage {
            id: TemplateId::random(),
            name: "base".to_owned(),
            layers: Vec::new(),
            env: Vec::new(),
            user: "user".to_owned(),
            workdir: None,
            resources: Resources::default(),
            sharing: Sharing::default(),
        },
        tenant: TenantId::new(&TeamId::random(), Sharing::WithinTeam),
        env: Redacted::default(),
        secrets: Secrets::default(),
        access_token: Some(AccessToken::random()),
        egress: Egress::Internet,
        mounts: Vec::new(),
        checkpoint: None,
        lifetime,
    }
}
