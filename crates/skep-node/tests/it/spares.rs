//! Sandboxes that are ready before anybody asks.

use std::sync::atomic::Ordering;
use std::time::Duration;

use skep_isolation::LaunchError;
use skep_node::Node;
use skep_testkit::wait_until;
use skep_types::{Egress, EndReason, SandboxSpec, SandboxStatus, WhenStopped};

use super::{TestHost, spec};

const HOUR: Duration = Duration::from_hours(1);
const WAIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Creates a sandbox of this kind, as control does.
async fn create(node: &Node, kind: &SandboxSpec) -> SandboxStatus {
    let mut spec = kind.clone();
    spec.id = node.id_for(&spec.kind());
    node.create(spec).await.expect("the backend is well")
}

/// Waits until so many are ready.
async fn ready(node: &Node, count: usize) {
    wait_until(WAIT_TIMEOUT, async || match node.spares().ready {
        ready if ready == count => Ok(()),
        ready => Err(format!("{ready} are ready")),
    })
    .await;
}

#[tokio::test]
async fn the_second_of_a_kind_is_ready_and_learns_whose_it_is() {
    let host = TestHost::default();
    let node = host.node_with_spares(2);
    let mut kind = spec(HOUR);
    create(&node, &kind).await;
    ready(&node, 2).await;
    assert_eq!(node.list().len(), 1, "spares are nobody's business");

    let variable = ("WHO".to_owned(), "me".to_owned());
    kind.env = skep_types::Redacted::new(vec![variable.clone()]);
    let status = create(&node, &kind).await;

    let told = host.agents.told.lock().pop().unwrap();
    assert_eq!(told.sandbox_id, status.id.to_string());
    assert_eq!(told.env.into_iter().collect::<Vec<_>>(), [variable]);
    let route = node.route(&status.id).unwrap();
    assert_eq!(route.access_token, kind.access_token);
    assert_eq!(told.control_token, *route.control_token.reveal());
    let counts = node.spares();
    assert_eq!((counts.given, counts.missing), (1, 1));
    node.kill(&status.id, EndReason::Killed).await.unwrap();
}

#[tokio::test]
async fn a_spare_learns_whom_it_trusts_if_its_owner_has_rules_for_requests() {
    let host = TestHost::default();
    let node = host.node_with_spares(2);
    let mut kind = spec(HOUR);
    create(&node, &kind).await;
    ready(&node, 2).await;
    create(&node, &kind).await;
    let told = host.agents.told.lock().pop().unwrap();
    assert_eq!(told.authority, None);
    ready(&node, 2).await;
    kind.egress = super::pause::looking_inside();
    create(&node, &kind).await;
    let told = host.agents.told.lock().pop().unwrap();
    assert_eq!(told.authority.as_deref(), Some("an authority"));
}

#[tokio::test]
async fn of_a_kind_that_was_warmed_the_first_is_ready() {
    let host = TestHost::default();
    let node = host.node_with_spares(2);
    let kind = spec(HOUR);
    node.warm(kind.kind());
    ready(&node, 2).await;
    create(&node, &kind).await;
    let counts = node.spares();
    assert_eq!((counts.given, counts.missing), (1, 0));
}

#[tokio::test]
async fn another_kind_is_never_given_in_its_place() {
    let host = TestHost::default();
    let node = host.node_with_spares(1);
    let kind = spec(HOUR);
    create(&node, &kind).await;
    ready(&node, 1).await;
    let mut larger = kind.clone();
    larger.template.resources.memory_mib *= 2;
    create(&node, &larger).await;
    assert_eq!(node.spares().given, 0);
}

#[tokio::test]
async fn a_spare_has_the_policy_of_whoever_gets_it() {
    let host = TestHost::default();
    let node = host.node_with_spares(1);
    let mut kind = spec(HOUR);
    node.warm(kind.kind());
    for (egress, given) in [(Egress::closed(), 1), (Egress::default(), 2)] {
        ready(&node, 1).await;
        kind.egress = egress.clone();
        let status = create(&node, &kind).await;
        assert_eq!(node.spares().given, given);
        assert_eq!(host.isolation.egress(&status.id), Some(egress.clone()));
        assert_eq!(status.egress, egress);
    }
}

#[tokio::test]
async fn a_spare_demands_a_token_if_whoever_gets_it_wants_that() {
    let host = TestHost::default();
    let node = host.node_with_spares(1);
    let mut kind = spec(HOUR);
    node.warm(kind.kind());
    for (is_open, given) in [(true, 1), (false, 2)] {
        ready(&node, 1).await;
        kind.is_open = is_open;
        let status = create(&node, &kind).await;
        assert_eq!(node.spares().given, given);
        assert_eq!(node.route(&status.id).unwrap().is_open, is_open);
    }
}

#[tokio::test]
async fn a_spare_of_one_tenant_is_never_given_to_another() {
    let host = TestHost::default();
    let node = host.node_with_spares(1);
    let (mine, theirs) = (spec(HOUR), spec(HOUR));
    let theirs = SandboxSpec {
        template: mine.template.clone(),
        ..theirs
    };
    node.warm(mine.kind());
    ready(&node, 1).await;
    let first = create(&node, &theirs).await;
    assert_eq!(node.spares().given, 0);
    assert_eq!(
        host.isolation.tenant(&first.id).as_ref(),
        Some(&theirs.tenant)
    );
    // From now on both have their own.
    ready(&node, 2).await;
    for (kind, given) in [(&theirs, 1), (&mine, 2)] {
        let status = create(&node, kind).await;
        assert_eq!(node.spares().given, given);
        let tenant = host.isolation.tenant(&status.id);
        assert_eq!(tenant.as_ref(), Some(&kind.tenant));
    }
}

#[tokio::test]
async fn a_spare_that_died_or_does_not_listen_is_replaced_without_a_word() {
    let host = TestHost::default();
    let node = host.node_with_spares(2);
    let kind = spec(HOUR);
    let first = create(&node, &kind).await;
    ready(&node, 2).await;
    for spare in host.isolation.living() {
        if spare != first.id {
            host.isolation.crash(&spare);
        }
    }
    create(&node, &kind).await;

    create(&node, &kind).await;
    ready(&node, 2).await;
    host.agents.refuse.store(true, Ordering::SeqCst);
    let status = create(&node, &kind).await;
    assert!(node.route(&status.id).is_some());
    assert_eq!(node.list().len(), 4);
}

#[tokio::test]
async fn whoever_asks_goes_before_whoever_might() {
    let host = TestHost::default();
    let node = host.node_with_spares(2);
    create(&node, &spec(HOUR)).await;
    ready(&node, 2).await;
    host.isolation.fail_next_launch(LaunchError::NoRoom("slot"));
    create(&node, &spec(HOUR)).await;
    assert_eq!(node.list().len(), 2);
}

#[tokio::test]
async fn a_failed_spare_is_not_tried_again_and_again() {
    let host = TestHost::default();
    let node = host.node_with_spares(2);
    let kind = spec(HOUR);
    create(&node, &kind).await;
    ready(&node, 2).await;
    host.isolation.fail_next_launch(LaunchError::NoRoom("slot"));
    create(&node, &kind).await;
    wait_until(WAIT_TIMEOUT, async || {
        let failures = node.metrics().launch_failures();
        (!failures.is_empty()).then_some(()).ok_or("no failure")
    })
    .await;
    assert_eq!(node.spares().ready, 1);
    create(&node, &kind).await;
    ready(&node, 2).await;
}

#[tokio::test]
async fn a_server_that_stops_leaves_its_sandboxes_but_no_spare() {
    let host = TestHost::default();
    let node = host.node_with_spares(3);
    let owned = create(&node, &spec(HOUR)).await;
    ready(&node, 3).await;
    node.shut_down(WhenStopped::Leave).await;
    assert_eq!(host.isolation.living(), [owned.id]);
}
