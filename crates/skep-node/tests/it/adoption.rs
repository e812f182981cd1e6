//! What the next server finds.

use std::time::Duration;

use skep_node::{Adoption, Living, WhenStopped};
use skep_types::{EndReason, Phase, SandboxId};

use crate::{Machine, spec};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_living_sandbox_is_adopted_with_its_token_and_deadline() {
    let machine = Machine::default();
    let first = machine.node();
    let spec = spec(HOUR);
    let token = spec.access_token.clone().unwrap();
    let status = first.create(spec).await.unwrap();
    first.shut_down(WhenStopped::Leave).await;

    let second = machine.node();
    let adoption = second.adopt(machine.journal.living()).await;

    assert_eq!(
        adoption,
        Adoption {
            adopted: vec![status.id.clone()],
            lost: Vec::new()
        }
    );
    assert_eq!(second.status(&status.id).unwrap(), status);
    assert_eq!(second.status(&status.id).unwrap().phase, Phase::Running);
    assert_eq!(
        second.find_route(|own| *own == token).unwrap().id,
        status.id
    );
    second.kill(&status.id, EndReason::Killed).await.unwrap();
    assert!(machine.isolation.living().is_empty());
}

#[tokio::test]
async fn a_sandbox_that_died_in_between_is_recorded_as_crashed() {
    let machine = Machine::default();
    let first = machine.node();
    let status = first.create(spec(HOUR)).await.unwrap();
    first.shut_down(WhenStopped::Leave).await;
    machine.isolation.crash(&status.id);

    let adoption = machine.node().adopt(machine.journal.living()).await;

    assert_eq!(adoption.lost, [(status.id.clone(), EndReason::Crashed)]);
    assert_eq!(
        machine.journal.ending(&status.id).unwrap().reason,
        EndReason::Crashed
    );
    assert!(
        machine.isolation.living().is_empty(),
        "the sweep removed what it left"
    );
}

#[tokio::test]
async fn a_sandbox_whose_launch_was_cut_short_never_started() {
    let machine = Machine::default();
    let id = SandboxId::random();
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    let living = Living {
        id: id.clone(),
        record: None,
        started_at: now,
        ends_at: now,
    };

    let adoption = machine.node().adopt(vec![living]).await;

    assert_eq!(adoption.lost, [(id, EndReason::StartFailed)]);
}
