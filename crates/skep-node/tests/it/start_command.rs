//! Templates that start something in their sandboxes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use skep_node::CreateError;
use skep_testkit::wait_until;
use skep_types::{Egress, Redacted, SandboxSpec, TemplateStart};

use crate::{TestHost, spec};

fn spec_with_start() -> SandboxSpec {
    let mut spec = spec(Duration::from_secs(60));
    spec.template.start = Some(Box::new(TemplateStart {
        command: Some("serve".to_owned()),
        ready: None,
        user: "user".to_owned(),
        workdir: None,
        env: Vec::new(),
    }));
    spec
}

#[tokio::test]
async fn a_sandbox_is_given_away_when_its_start_command_has_made_it_ready() {
    let host = TestHost::default();
    let spec = spec_with_start();
    let id = spec.id.to_string();
    host.node().create(spec).await.unwrap();
    assert_eq!(*host.agents.started.lock(), [(id, "serve".to_owned())]);
}

#[tokio::test]
async fn a_sandbox_that_does_not_become_ready_is_none() {
    let host = TestHost::default();
    host.agents.refuse.store(true, Ordering::SeqCst);
    let refused = host.node().create(spec_with_start()).await;
    assert!(
        matches!(refused, Err(CreateError::Launch(_))),
        "{refused:?}"
    );
    assert_eq!(host.isolation.living(), []);
}

/// Waits until a spare of the sandbox is ready and takes its name.
async fn claim_spare(node: &skep_node::Node, spec: &mut SandboxSpec) -> String {
    node.warm(spec.kind());
    wait_until(Duration::from_secs(10), async || {
        match node.spares().ready {
            1 => Ok(()),
            ready => Err(format!("{ready} are ready")),
        }
    })
    .await;
    spec.id = node.id_for(&spec.kind());
    spec.id.to_string()
}

/// The command of a spare runs before anybody has said what it may reach.
#[tokio::test]
async fn a_start_command_runs_under_the_rules_of_the_owner_alone() {
    let host = TestHost::default();
    let node = host.node_with_spares(1);
    let mut spec = spec_with_start();
    let id = claim_spare(&node, &mut spec).await;
    spec.egress = Egress::closed();
    node.create(spec).await.unwrap();
    let starts = || host.agents.started.lock().clone().into_iter();
    let mine = starts().filter(|(sandbox, _)| *sandbox == id);
    assert_eq!(
        mine.count(),
        2,
        "in the spare that went, and in the sandbox"
    );
    assert_eq!(host.isolation.living().len(), 1);
}

#[tokio::test]
async fn a_start_command_knows_the_variables_of_whoever_asked() {
    let host = TestHost::default();
    let node = host.node_with_spares(1);
    let mut spec = spec_with_start();
    let id = claim_spare(&node, &mut spec).await;
    let variable = ("WHO".to_owned(), "me".to_owned());
    spec.env = Redacted::new(vec![variable]);
    node.create(spec).await.unwrap();
    let started = host.agents.started.lock().clone();
    let mine = started.iter().filter(|(sandbox, _)| *sandbox == id);
    assert_eq!(
        mine.count(),
        2,
        "in the spare, and with the variables: {started:?}"
    );
}
