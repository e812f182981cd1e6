//! The node through its boundary, over a fake backend and an in-memory journal.

mod adoption;
mod copies;
mod host;
mod images;
mod life;
mod pause;
mod spares;
mod start_command;

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_agent_protocol::AgentConfig;
use skep_isolation::FakeIsolation;
use skep_node::{
    Agents, ConfigureError, Journal, Layers, MemoryJournal, Node, NodeOptions, PausePolicy,
    StartCommandError,
};
use skep_types::{
    AccessToken, AdmissionPolicy, Egress, LayerKey, OnTimeout, Redacted, Resources, SandboxId,
    SandboxSpec, Secrets, Sharing, TeamId, TemplateId, TemplateImage, TemplateStart, TenantId,
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
    /// Sandboxes in which something was started, and what.
    started: Arc<Mutex<Vec<(String, String)>>>,
    /// Control tokens of agents that were told to trust an authority, and which.
    trusted: Arc<Mutex<Vec<(String, String)>>>,
    refuse: Arc<AtomicBool>,
    silent: Arc<AtomicBool>,
}

impl FakeAgents {
    fn silence(&self, silent: bool) {
        self.silent.store(silent, Ordering::SeqCst);
    }
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

    fn trust<'a>(
        &'a self,
        address: IpAddr,
        control_token: &'a str,
        authority: &'a str,
    ) -> BoxFuture<'a, Result<(), ConfigureError>> {
        async move {
            if self.refuse.load(Ordering::SeqCst) {
                let source = "refused".into();
                return Err(ConfigureError { address, source });
            }
            let trusted = (control_token.to_owned(), authority.to_owned());
            self.trusted.lock().push(trusted);
            Ok(())
        }
        .boxed()
    }

    fn start<'a>(
        &'a self,
        _address: IpAddr,
        config: &'a AgentConfig,
        start: &'a TemplateStart,
    ) -> BoxFuture<'a, Result<(), StartCommandError>> {
        let command = start.command.clone().unwrap_or_default();
        self.started
            .lock()
            .push((config.sandbox_id.clone(), command));
        let started = if self.refuse.load(Ordering::SeqCst) {
            Err(StartCommandError("refused".into()))
        } else {
            Ok(())
        };
        std::future::ready(started).boxed()
    }

    fn answers(&self, _address: IpAddr) -> BoxFuture<'_, bool> {
        let answers = !self.silent.load(Ordering::SeqCst);
        std::future::ready(answers).boxed()
    }
}

impl TestHost {
    fn node(&self) -> Node {
        self.node_with_spares(0)
    }

    fn node_with_spares(&self, spares: usize) -> Node {
        Node::new(NodeOptions {
            spares,
            ..self.options()
        })
    }

    fn node_with_journal(&self, journal: Arc<dyn Journal>) -> Node {
        Node::new(NodeOptions {
            journal,
            ..self.options()
        })
    }

    fn options(&self) -> NodeOptions {
        NodeOptions {
            isolation: Arc::new(self.isolation.clone()),
            layers: Arc::new(NoLayers),
            journal: Arc::new(self.journal.clone()),
            agents: Arc::new(self.agents.clone()),
            authority: Some("an authority".into()),
            spares: 0,
            admission: AdmissionPolicy::default(),
            pauses: PausePolicy::default(),
        }
    }
}

/// The layers of templates that have none.
#[derive(Debug)]
struct NoLayers;

impl Layers for NoLayers {
    fn path(&self, key: LayerKey) -> PathBuf {
        unreachable!("no template has the layer {key}")
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
            start: None,
        },
        tenant: TenantId::new(&TeamId::random(), Sharing::WithinTeam),
        env: Redacted::default(),
        secrets: Secrets::default(),
        access_token: Some(AccessToken::random()),
        is_open: false,
        ingress: Arc::default(),
        egress: Egress::default(),
        mounts: Vec::new(),
        checkpoint: None,
        lifetime,
        on_timeout: OnTimeout::Kill,
        auto_resume: false,
    }
}
