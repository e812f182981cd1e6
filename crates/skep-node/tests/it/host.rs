//! A host that runs out of things.

use std::time::Duration;

use skep_node::NoRoom;
use skep_testkit::wait_until;
use skep_types::{Capacity, EndReason, HostCapacity, HostResource, Resources, SandboxId};

use super::{TestHost, spec};

const HOUR: Duration = Duration::from_hours(1);
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);
const MIB: u64 = 1 << 20;

fn memory(available: u64) -> HostCapacity {
    HostCapacity {
        memory: Capacity {
            total: 1000 * MIB,
            available,
        },
        ..HostCapacity::default()
    }
}

fn full_disk() -> HostCapacity {
    HostCapacity {
        disk: Capacity {
            total: 1000 * MIB,
            available: 0,
        },
        ..HostCapacity::default()
    }
}

#[tokio::test]
async fn a_sandbox_that_the_machine_cannot_hold_is_refused_and_counted() {
    let host = TestHost::default();
    host.isolation.set_capacity(memory(10 * MIB));
    let node = host.node();
    let (id, resources) = (SandboxId::random(), Resources::default());
    let refused = node.admit(&id, resources).await.unwrap_err();
    assert_eq!(refused, NoRoom(HostResource::Memory));
    let host = node.host();
    assert!(
        host.refusals.contains(&(HostResource::Memory, 1)),
        "{host:?}"
    );
    assert_eq!(host.promised.memory, 0, "nothing is promised");
    assert_eq!(host.exhausted, [HostResource::Memory]);
}

#[tokio::test]
async fn what_is_kept_ready_gives_way_before_a_caller_is_refused() {
    let host = TestHost::default();
    let node = host.node_with_spares(2);
    let kind = spec(HOUR);
    host.isolation.set_capacity(memory(1000 * MIB));
    node.warm(kind.kind());
    wait_until(WAIT_TIMEOUT, async || match node.spares().ready {
        2 => Ok(()),
        ready => Err(format!("{ready} are ready")),
    })
    .await;
    host.isolation.set_capacity(memory(10 * MIB));
    node.watch_host();
    wait_until(WAIT_TIMEOUT, async || match host.isolation.living().len() {
        0 => Ok(()),
        left => Err(format!("{left} are left")),
    })
    .await;
    assert_eq!(node.host().promised.memory, 0);
    // And none is made while it is so.
    let mut refused = spec(HOUR);
    refused.id = node.id_for(&kind.kind());
    node.admit(&refused.id, Resources::default())
        .await
        .unwrap_err();
    assert_eq!(node.spares().ready, 0);
}

#[tokio::test]
async fn a_spare_is_given_away_even_when_there_is_no_room_for_another() {
    let host = TestHost::default();
    let node = host.node_with_spares(1);
    let kind = spec(HOUR);
    host.isolation.set_capacity(memory(1000 * MIB));
    node.warm(kind.kind());
    wait_until(WAIT_TIMEOUT, async || match node.spares().ready {
        1 => Ok(()),
        ready => Err(format!("{ready} are ready")),
    })
    .await;
    host.isolation.set_capacity(memory(10 * MIB));
    let mut wanted = spec(HOUR);
    wanted.id = node.id_for(&kind.kind());
    let room = node.admit(&wanted.id, Resources::default()).await.unwrap();
    assert!(room.is_none(), "it takes nothing that is not taken");
    let status = node.create(wanted).await.unwrap();
    node.kill(&status.id, EndReason::Killed).await.unwrap();
}

#[tokio::test]
async fn a_sandbox_that_lost_data_to_a_full_disk_ends_for_that_reason_and_others_live_on() {
    let host = TestHost::default();
    let node = host.node();
    let hurt = node.create(spec(HOUR)).await.unwrap();
    let whole = node.create(spec(HOUR)).await.unwrap();
    host.isolation.damage(&hurt.id);
    node.watch_host();
    // A disk with room damages nobody: whatever the counters say has another cause.
    wait_until(WAIT_TIMEOUT, async || {
        node.host().capacity.map(drop).ok_or("nobody has looked")
    })
    .await;
    assert_eq!(node.list().len(), 2);
    host.isolation.set_capacity(full_disk());
    wait_until(WAIT_TIMEOUT, async || {
        host.journal.ending(&hurt.id).ok_or("it lives")
    })
    .await;
    let ending = host.journal.ending(&hurt.id).unwrap();
    assert_eq!(ending.reason, EndReason::DiskFull);
    assert!(node.status(&whole.id).is_some());
}

#[tokio::test]
async fn a_sandbox_that_holds_what_its_limits_do_not_count_is_out_of_memory_and_others_live_on() {
    let host = TestHost::default();
    let node = host.node();
    let greedy = node.create(spec(HOUR)).await.unwrap();
    let modest = node.create(spec(HOUR)).await.unwrap();
    node.watch_host();
    host.isolation.hoard(&greedy.id);
    wait_until(WAIT_TIMEOUT, async || {
        host.journal.ending(&greedy.id).ok_or("it lives")
    })
    .await;
    let ending = host.journal.ending(&greedy.id).unwrap();
    assert_eq!(ending.reason, EndReason::OutOfMemory);
    assert!(node.status(&modest.id).is_some());
}

#[tokio::test]
async fn the_limits_of_all_that_live_are_promised_and_given_back() {
    let host = TestHost::default();
    let node = host.node();
    let sandbox = spec(HOUR);
    let room = node
        .admit(&sandbox.id, sandbox.template.resources)
        .await
        .unwrap();
    let status = node.create(sandbox).await.unwrap();
    drop(room);
    assert_eq!(node.host().promised.memory, 1024 * MIB);
    node.kill(&status.id, EndReason::Killed).await.unwrap();
    wait_until(WAIT_TIMEOUT, async || match node.host().promised.memory {
        0 => Ok(()),
        left => Err(format!("{left} bytes are promised")),
    })
    .await;
}
