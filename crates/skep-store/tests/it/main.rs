//! The database through its public face, on real files.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod builds;
mod durability;
mod full_disk;
mod keys;
mod killed;
mod pauses;
mod sandboxes;
mod webhooks;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use skep_store::{Order, Standing, Store, Team};
use skep_types::{
    AccessToken, ExecutionId, HttpsPorts, IdentityTokens, Ingress, NodeId, OnTimeout, Resources,
    SandboxId, SandboxRun, TeamId, TemplateId,
};
use tempfile::TempDir;

/// A database in a directory of its own, with one team in it.
struct Record {
    directory: TempDir,
    store: Store,
    team: TeamId,
}

impl Record {
    async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let store = Store::open(&directory.path().join("skep.db")).unwrap();
        let team = team("home", true);
        store.teams().insert(team.clone()).recorded().await.unwrap();
        Self {
            directory,
            store,
            team: team.id,
        }
    }

    fn sandbox(&self) -> Order {
        order_for(&self.team)
    }
}

fn order_for(team: &TeamId) -> Order {
    Order {
        id: SandboxId::random(),
        team: team.clone(),
        node: NodeId::local(),
        template: TemplateId::random(),
        template_name: "base".to_owned(),
        base: "base".to_owned(),
        metadata: [("user".to_owned(), "ada".to_owned())].into(),
        access_token: Some(AccessToken::random()),
        ingress: Arc::new(Ingress {
            is_private: true,
            host_mask: Some("localhost:${PORT}".parse().unwrap()),
            https_ports: HttpsPorts::from_record([443, 8443]),
        }),
        internet: Some(false),
        resources: Resources::default(),
        lifetime: Duration::from_secs(300),
        on_timeout: OnTimeout::Kill,
        auto_resume: false,
        mounts: Vec::new(),
        identity: IdentityTokens::from_record([("aws".to_owned(), "sts".to_owned())].into()),
        created_at: at(1_000),
    }
}

fn team(slug: &str, is_default: bool) -> Team {
    Team {
        id: TeamId::random(),
        slug: slug.to_owned(),
        name: slug.to_uppercase(),
        is_default,
        max_sandboxes: Some(7),
        max_lifetime: Some(Duration::from_secs(3600)),
        standing: Standing::Good,
        created_at: at(1),
    }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_microsecond(second * 1_000_000 + 123_456).unwrap()
}

fn run(execution: ExecutionId, driver_record: &str, started: i64, ends: i64) -> SandboxRun {
    SandboxRun {
        execution,
        driver_record: driver_record.to_owned(),
        started_at: at(started),
        ends_at: at(ends),
        paused: None,
    }
}
