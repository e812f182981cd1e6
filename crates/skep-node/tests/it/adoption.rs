//! State that the next server finds.

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{self, BoxFuture};
use skep_node::{Adoption, Journal, MemoryJournal, Node, NodeOptions, Noted, PausePolicy};
use skep_types::{
    Egress, EndReason, Ending, HttpsPorts, Ingress, KillError, LivingSandbox, Phase, SandboxId,
    SandboxRun, Usage, WhenStopped,
};

use crate::{TestHost, spec};

const HOUR: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_living_sandbox_is_adopted_with_its_token_and_deadline() {
    let host = TestHost::default();
    let first = host.node();
    let spec = spec(HOUR);
    let token = spec.access_token.clone().unwrap();
    let status = first.create(spec).await.unwrap();
    first.shut_down(WhenStopped::Leave).await;

    let second = host.node();
    let adoption = second.adopt(host.journal.living()).await;

    assert_eq!(
        adoption,
        Adoption {
            adopted: vec![status.id.clone()],
            ..Adoption::default()
        }
    );
    assert_eq!(second.status(&status.id).unwrap(), status);
    assert_eq!(second.status(&status.id).unwrap().phase, Phase::Running);
    assert_eq!(
        second.find_route(|own| *own == token).unwrap().id,
        status.id
    );
    second.kill(&status.id, EndReason::Killed).await.unwrap();
    assert!(host.isolation.living().is_empty());
}

#[tokio::test]
async fn the_rules_for_requests_outlive_the_server() {
    let host = TestHost::default();
    let first = host.node();
    let mut opened = spec(HOUR);
    opened.is_open = true;
    opened.ingress = Arc::new(Ingress {
        is_private: true,
        host_mask: Some("localhost:${PORT}".parse().unwrap()),
        https_ports: HttpsPorts::from_record([8443]),
    });
    let ingress = Arc::clone(&opened.ingress);
    let opened = first.create(opened).await.unwrap();
    let closed = first.create(spec(HOUR)).await.unwrap();
    first.shut_down(WhenStopped::Leave).await;

    let second = host.node();
    second.adopt(host.journal.living()).await;
    for (status, is_open, ingress) in [(opened, true, ingress), (closed, false, Arc::default())] {
        let route = second.route(&status.id).unwrap();
        assert_eq!((route.is_open, &route.ingress), (is_open, &ingress));
    }
}

#[tokio::test]
async fn a_sandbox_that_died_in_between_is_recorded_as_crashed() {
    let host = TestHost::default();
    let first = host.node();
    let status = first.create(spec(HOUR)).await.unwrap();
    first.shut_down(WhenStopped::Leave).await;
    host.isolation.crash(&status.id);

    let adoption = host.node().adopt(host.journal.living()).await;

    assert_eq!(adoption.lost, [(status.id.clone(), EndReason::Crashed)]);
    assert_eq!(
        host.journal.ending(&status.id).unwrap().reason,
        EndReason::Crashed
    );
    assert!(
        host.isolation.living().is_empty(),
        "the sweep removed what it left"
    );
}

#[tokio::test]
async fn a_sandbox_that_starved_without_a_server_is_recorded_so_with_its_bill() {
    let host = TestHost::default();
    let first = host.node();
    let status = first.create(spec(HOUR)).await.unwrap();
    first.shut_down(WhenStopped::Leave).await;
    let usage = Usage {
        out_of_memory_kills: 1,
        memory_peak_bytes: 7,
        ..Usage::default()
    };
    host.isolation.set_usage(&status.id, usage);
    host.isolation.crash(&status.id);

    let adoption = host.node().adopt(host.journal.living()).await;

    assert_eq!(adoption.lost, [(status.id.clone(), EndReason::OutOfMemory)]);
    let ending = host.journal.ending(&status.id).unwrap();
    assert_eq!(
        (ending.reason, ending.usage),
        (EndReason::OutOfMemory, usage)
    );
}

#[tokio::test]
async fn the_bill_has_the_memory_on_average() {
    let host = TestHost::default();
    let node = host.node();
    let status = node.create(spec(HOUR)).await.unwrap();
    let memory_bytes = 1 << 20;
    let usage = Usage {
        memory_bytes,
        ..Usage::default()
    };
    host.isolation.set_usage(&status.id, usage);
    let average = node.usage(&status.id).await.unwrap().memory_average_bytes;
    assert!((1..=memory_bytes).contains(&average), "{average}");
    node.kill(&status.id, EndReason::Killed).await.unwrap();
    let bill = host.journal.ending(&status.id).unwrap().usage;
    let range = average..=memory_bytes;
    assert!(range.contains(&bill.memory_average_bytes), "{bill:?}");
}

/// The journal of a server that is killed before it has written down any end.
#[derive(Debug)]
struct CutShort(MemoryJournal);

impl Journal for CutShort {
    fn started(&self, id: &SandboxId, run: SandboxRun) -> Noted {
        self.0.started(id, run)
    }

    fn changed(&self, id: &SandboxId, run: SandboxRun) -> Noted {
        self.0.changed(id, run)
    }

    fn ended(&self, _id: &SandboxId, _ending: &Ending) -> Noted {
        future::ready(()).boxed()
    }

    fn synced(&self) -> BoxFuture<'static, bool> {
        future::ready(true).boxed()
    }
}

#[tokio::test]
async fn a_sandbox_that_was_being_killed_with_its_server_was_killed_and_did_not_crash() {
    let host = TestHost::default();
    let first = Node::new(NodeOptions {
        authority: None,
        isolation: std::sync::Arc::new(host.isolation.clone()),
        journal: std::sync::Arc::new(CutShort(host.journal.clone())),
        layers: std::sync::Arc::new(crate::NoLayers),
        agents: std::sync::Arc::new(host.agents.clone()),
        spares: 0,
        admission: skep_types::AdmissionPolicy::default(),
        pauses: PausePolicy::default(),
    });
    let status = first.create(spec(HOUR)).await.unwrap();
    first.kill(&status.id, EndReason::Killed).await.unwrap();

    let adoption = host.node().adopt(host.journal.living()).await;

    assert_eq!(adoption.lost, [(status.id.clone(), EndReason::Killed)]);
    let ending = host.journal.ending(&status.id).unwrap();
    assert_eq!(ending.reason, EndReason::Killed);
}

#[tokio::test]
async fn a_sandbox_that_does_not_die_is_the_next_servers_too() {
    let host = TestHost::default();
    let first = host.node();
    let status = first.create(spec(HOUR)).await.unwrap();
    host.isolation.stick(&status.id);
    let stuck = Err(KillError::Stuck);
    assert_eq!(first.kill(&status.id, EndReason::Killed).await, stuck);
    first.shut_down(WhenStopped::Leave).await;
    assert_eq!(host.journal.ending(&status.id), None);

    let second = host.node();
    let adoption = second.adopt(host.journal.living()).await;

    let expected = Adoption {
        stuck: vec![status.id.clone()],
        ..Adoption::default()
    };
    assert_eq!(adoption, expected);
    assert_eq!(second.status(&status.id).unwrap().phase, Phase::Stuck);
    assert!(second.route(&status.id).is_none());
    host.isolation.unstick(&status.id);
    assert_eq!(second.kill(&status.id, EndReason::Killed).await, Ok(()));
    let ending = host.journal.ending(&status.id).unwrap();
    assert_eq!(ending.reason, EndReason::Killed);
}

/// A journal that never takes a note, as on a disk that is full or broken.
#[derive(Debug)]
struct Hanging;

impl Journal for Hanging {
    fn started(&self, _id: &SandboxId, _run: SandboxRun) -> Noted {
        future::ready(()).boxed()
    }

    fn changed(&self, _id: &SandboxId, _run: SandboxRun) -> Noted {
        future::pending().boxed()
    }

    fn ended(&self, _id: &SandboxId, _ending: &Ending) -> Noted {
        future::ready(()).boxed()
    }

    fn synced(&self) -> BoxFuture<'static, bool> {
        future::ready(true).boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_hangs_keeps_nobody_alive() {
    let host = TestHost::default();
    let node = Node::new(NodeOptions {
        authority: None,
        isolation: std::sync::Arc::new(host.isolation.clone()),
        journal: std::sync::Arc::new(Hanging),
        layers: std::sync::Arc::new(crate::NoLayers),
        agents: std::sync::Arc::new(host.agents.clone()),
        spares: 0,
        admission: skep_types::AdmissionPolicy::default(),
        pauses: PausePolicy::default(),
    });
    let status = node.create(spec(HOUR)).await.unwrap();
    let killed = node.kill(&status.id, EndReason::Killed);
    let killed = tokio::time::timeout(Duration::from_secs(5), killed).await;
    assert_eq!(killed, Ok(Ok(())));
    assert!(host.isolation.living().is_empty());
}

#[tokio::test]
async fn a_sandbox_whose_launch_was_cut_short_never_started() {
    let host = TestHost::default();
    let id = SandboxId::random();
    let living = LivingSandbox {
        id: id.clone(),
        resources: skep_types::Resources::default(),
        egress: Egress::default(),
        run: None,
    };

    let adoption = host.node().adopt(vec![living]).await;

    assert_eq!(adoption.lost, [(id, EndReason::StartFailed)]);
}
