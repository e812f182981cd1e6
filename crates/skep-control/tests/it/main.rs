//! Control through its public face, with fake hosts and a real record.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod broken_hosts;
mod pauses;
mod starting;
mod tenants;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use skep_control::{
    Caller, Control, CreateRequest, FakeNodes, FakeTemplates, Lifetime, Nodes, Parts, TeamLimits,
};
use skep_store::Store;
use skep_types::{Redacted, Secrets};

async fn control(store: &Store, nodes: Arc<dyn Nodes>) -> Control {
    let parts = Parts {
        store: store.clone(),
        nodes,
        templates: Arc::new(FakeTemplates::named(&["base"])),
        limits: TeamLimits {
            sandboxes: 2,
            ..TeamLimits::default()
        },
        node: skep_types::NodeId::local(),
    };
    Control::open(parts).await.unwrap()
}

fn store(directory: &Path) -> Store {
    Store::open(&directory.join("skep.db")).unwrap()
}

fn fake(store: &Store) -> Arc<FakeNodes> {
    Arc::new(FakeNodes::new(store.clone()))
}

async fn anybody(control: &Control) -> Caller {
    control.trusted_caller().await.unwrap()
}

fn request() -> CreateRequest {
    CreateRequest {
        template: "base".parse().unwrap(),
        lifetime: Lifetime::new(300, Duration::from_secs(300)).unwrap(),
        internet: None,
        metadata: BTreeMap::new(),
        env: Redacted::new(Vec::new()),
        secrets: Secrets::default(),
        idempotency: None,
    }
}
