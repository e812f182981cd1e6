//! Control through its public face, with fake hosts and a real record.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod broken_hosts;
mod builds;
mod pauses;
mod starting;
mod tenants;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use skep_control::{
    Caller, Control, CreateRequest, FakeBuilds, FakeNodes, FakeTemplates, FakeUploads, FakeVolumes,
    Lifetime, Living, Nodes, Parts, Reports, TeamLimits,
};
use skep_seal::KeySource;
use skep_store::Store;
use skep_types::{Egress, Ingress, OnTimeout, Redacted, Secrets};

async fn control(store: &Store, nodes: Arc<dyn Nodes>) -> Control {
    control_with(store, nodes, FakeBuilds::default()).await
}

async fn control_with(store: &Store, nodes: Arc<dyn Nodes>, builds: FakeBuilds) -> Control {
    let parts = Parts {
        store: store.clone(),
        nodes,
        templates: Arc::new(FakeTemplates::named(&["base", "code-interpreter"])),
        builds: Arc::new(builds),
        uploads: Arc::new(FakeUploads::default()),
        volumes: Arc::new(FakeVolumes::default()),
        vault: KeySource::OwnFile(store.path().with_extension("key")),
        limits: TeamLimits {
            sandboxes: 2,
            ..TeamLimits::default()
        },
        living: living(store).await,
    };
    Control::open(parts).await.unwrap()
}

/// The sandboxes that the database knows to live, as a server finds them when it starts.
async fn living(store: &Store) -> Living {
    let reports = Reports::new(store.clone(), skep_types::NodeId::local());
    reports.living().await.unwrap()
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
        is_open: false,
        ingress: Ingress::default(),
        template: "base".parse().unwrap(),
        lifetime: Lifetime::new(300, Duration::from_secs(300)).unwrap(),
        on_timeout: OnTimeout::Kill,
        mounts: Vec::new(),
        auto_resume: false,
        egress: Egress::default(),
        identity: skep_types::IdentityTokens::default(),
        metadata: BTreeMap::new(),
        env: Redacted::new(Vec::new()),
        secrets: Secrets::default(),
        idempotency: None,
    }
}
