//! The node through its boundary, over a fake backend and an in-memory journal.

mod adoption;
mod life;

use std::sync::Arc;
use std::time::Duration;

use skep_isolation::FakeIsolation;
use skep_node::{MemoryJournal, Node, NodeOptions};
use skep_types::{
    AccessToken, Egress, Redacted, Resources, SandboxId, SandboxSpec, TemplateId, TemplateImage,
};

/// A machine that outlives its server: new nodes find the sandboxes of the last one.
#[derive(Default)]
struct Machine {
    isolation: FakeIsolation,
    journal: MemoryJournal,
}

impl Machine {
    fn node(&self) -> Node {
        Node::new(NodeOptions {
            isolation: Arc::new(self.isolation.clone()),
            journal: Arc::new(self.journal.clone()),
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
        },
        env: Redacted::default(),
        access_token: Some(AccessToken::random()),
        egress: Egress::Internet,
        lifetime,
    }
}
