//! Templates that start something in their sandboxes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use skep_node::CreateError;
use skep_testkit::wait_until;
use skep_types::{Redacted, SandboxSpec, TemplateStart};

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

#[tokio::test]
async fn a_start_command_knows_the_variables_of_whoever_asked() {
    let host = TestHost::default();
    let node = host.node_with_spares(1);
    let mut spec = spec_with_start();
    node.warm(spec.kind());
    wait_until(Duration::from_secs(10), async || {
        match node.spares().ready {
            1 => Ok(()),
            ready => Err(format!("{ready} are ready")),
        }
    })
    .await;
    let variable = ("WHO".to_owned(), "me".to_owned());
    spec.env = Redacted::new(vec![variable]);
    spec.id = node.id_for(&spec.kind());
    let id = spec.id.to_string();
    node.create(spec).await.unwrap();
    let started = host.agents.started.lock().clone();
    let mine = started.iter().filter(|(sandbox, _)| *sandbox == id);
    assert_eq!(
        mine.count(),
        2,
        "in the spare, and with the variables: {started:?}"
    );
}
