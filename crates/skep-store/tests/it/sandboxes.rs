//! Sandboxes from order to end.

use std::time::Duration;

use skep_store::{Idempotency, IdempotentRequest, Order, SandboxFilter, StoreError};
use skep_types::{Egress, EndReason, Ending, ExecutionId, Phase, SandboxId, Usage};

use crate::{Record, at, order_for, run, team};

fn ending(reason: EndReason, second: i64) -> Ending {
    Ending {
        reason,
        usage: Usage {
            cpu_time: Duration::from_micros(1_234_567),
            memory_bytes: 1,
            cache_bytes: 2,
            memory_peak_bytes: 3,
            disk_bytes: 4,
            received_bytes: 7,
            sent_bytes: 8,
            pids: 5,
            out_of_memory_kills: 6,
            memory_average_bytes: 9,
            disk_read_bytes: 10,
            disk_written_bytes: 11,
        },
        at: at(second),
    }
}

#[tokio::test]
async fn a_sandbox_is_kept_from_its_order_to_its_end() {
    let record = Record::new().await;
    let sandboxes = record.store.sandboxes();
    let ordered = record.sandbox();
    let id = ordered.id.clone();
    sandboxes
        .insert(ordered.clone(), None)
        .recorded()
        .await
        .unwrap();
    let found = sandboxes.find(id.clone()).await.unwrap().unwrap();
    assert_eq!(found.phase(), Phase::Starting);
    assert_eq!(found.order.egress(), Egress::closed());
    assert_eq!(found.order.metadata, ordered.metadata);
    assert_eq!(found.order.access_token, ordered.access_token);
    assert_eq!(found.order.lifetime, ordered.lifetime);
    assert_eq!(found.order.created_at, ordered.created_at);

    let execution = ExecutionId::random();
    let launch = "an opaque launch record";
    let starting = sandboxes.started(id.clone(), run(execution, launch, 1001, 1301));
    starting.recorded().await.unwrap();
    let moved = "the same with another deadline";
    sandboxes
        .changed(id.clone(), run(execution, moved, 1001, 1400))
        .recorded()
        .await
        .unwrap();
    let found = sandboxes.find(id.clone()).await.unwrap().unwrap();
    assert_eq!(found.run, Some(run(execution, moved, 1001, 1400)));
    assert_eq!(
        sandboxes
            .living(skep_types::NodeId::local())
            .await
            .unwrap()
            .len(),
        1
    );

    let end = ending(EndReason::OutOfMemory, 1200);
    assert!(
        sandboxes
            .ended(id.clone(), end.clone())
            .recorded()
            .await
            .unwrap()
    );
    let found = sandboxes.find(id).await.unwrap().unwrap();
    assert_eq!((found.phase(), found.ending), (Phase::Gone, Some(end)));
    assert_eq!(
        sandboxes.living(skep_types::NodeId::local()).await.unwrap(),
        []
    );
}

#[tokio::test]
async fn an_id_never_returns() {
    let record = Record::new().await;
    let sandboxes = record.store.sandboxes();
    let first = record.sandbox();
    sandboxes
        .insert(first.clone(), None)
        .recorded()
        .await
        .unwrap();
    let end = ending(EndReason::Killed, 1);
    sandboxes
        .ended(first.id.clone(), end)
        .recorded()
        .await
        .unwrap();
    let error = sandboxes.insert(first, None).recorded().await.unwrap_err();
    assert!(matches!(error, StoreError::Taken { .. }), "{error:?}");
}

#[tokio::test]
async fn the_oldest_ended_are_forgotten_and_the_living_never() {
    let record = Record::new().await;
    let sandboxes = record.store.sandboxes();
    let mut ids = Vec::new();
    for second in 0..6 {
        let order = record.sandbox();
        ids.push(order.id.clone());
        let request = Idempotency {
            key: format!("key {second}"),
            request: "the same".to_owned(),
        };
        let inserted = sandboxes.insert(order.clone(), Some(request));
        inserted.recorded().await.unwrap();
        if second > 0 {
            let end = ending(EndReason::Killed, second);
            sandboxes.ended(order.id, end).recorded().await.unwrap();
        }
    }
    let pruned = sandboxes.prune(at(3), 100, 1).recorded().await.unwrap();
    assert_eq!(pruned, ids[1..2], "one at a time, the oldest first");
    let pruned = sandboxes.prune(at(3), 100, 9).recorded().await.unwrap();
    assert_eq!(pruned, ids[2..3], "by age");
    let pruned = sandboxes.prune(at(0), 1, 9).recorded().await.unwrap();
    assert_eq!(pruned, ids[3..5], "by number");
    let pruned = sandboxes.prune(at(0), 1, 9).recorded().await.unwrap();
    assert_eq!(pruned, []);
    for (id, there) in ids.iter().zip([true, false, false, false, false, true]) {
        let found = sandboxes.find(id.clone()).await.unwrap();
        assert_eq!(found.is_some(), there, "{id}");
    }
}

#[tokio::test]
async fn the_first_ending_is_kept() {
    let record = Record::new().await;
    let sandboxes = record.store.sandboxes();
    let sandbox = record.sandbox();
    let id = sandbox.id.clone();
    sandboxes.insert(sandbox, None).recorded().await.unwrap();
    let mut kept = Vec::new();
    for reason in [EndReason::Timeout, EndReason::Killed] {
        let ended = sandboxes.ended(id.clone(), ending(reason, 9));
        kept.push(ended.recorded().await.unwrap());
    }
    assert_eq!(kept, [true, false]);
    let found = sandboxes.find(id).await.unwrap().unwrap();
    assert_eq!(found.ending.unwrap().reason, EndReason::Timeout);
}

#[tokio::test]
async fn late_news_of_another_run_changes_nothing() {
    let record = Record::new().await;
    let sandboxes = record.store.sandboxes();
    let sandbox = record.sandbox();
    let id = sandbox.id.clone();
    let execution = ExecutionId(7);
    sandboxes.insert(sandbox, None).recorded().await.unwrap();
    let starting = sandboxes.started(id.clone(), run(execution, "", 1, 2));
    starting.recorded().await.unwrap();

    let missing = |error: StoreError| matches!(error, StoreError::Missing { .. });
    let stale = sandboxes.changed(id.clone(), run(ExecutionId(8), "", 1, 99));
    assert!(missing(stale.recorded().await.unwrap_err()));
    let end = ending(EndReason::Timeout, 2);
    sandboxes
        .ended(id.clone(), end.clone())
        .recorded()
        .await
        .unwrap();
    let late = sandboxes.changed(id.clone(), run(execution, "", 1, 99));
    assert!(missing(late.recorded().await.unwrap_err()));
    let late = sandboxes.started(id.clone(), run(execution, "", 3, 4));
    assert!(missing(late.recorded().await.unwrap_err()));
    let unknown = sandboxes.ended(SandboxId::random(), end);
    assert!(missing(unknown.recorded().await.unwrap_err()));

    let run = sandboxes.find(id).await.unwrap().unwrap().run.unwrap();
    assert_eq!(run.ends_at, at(2));
}

#[tokio::test]
async fn a_list_is_read_page_by_page_from_the_newest() {
    let record = Record::new().await;
    let sandboxes = record.store.sandboxes();
    let mut expected = Vec::new();
    // Three share a moment, so that the order has to come from the ids.
    for second in [1, 2, 2, 2, 3] {
        let mut sandbox = record.sandbox();
        sandbox.created_at = at(second);
        expected.push((second, sandbox.id.clone()));
        sandboxes.insert(sandbox, None).recorded().await.unwrap();
    }
    expected.sort_by(|left, right| right.0.cmp(&left.0).then(left.1.cmp(&right.1)));
    let ended = expected[1].1.clone();
    sandboxes
        .ended(ended.clone(), ending(EndReason::Killed, 4))
        .recorded()
        .await
        .unwrap();

    for team in [Some(record.team.clone()), None] {
        let mut filter = SandboxFilter {
            team,
            ended: true,
            after: None,
            limit: 2,
        };
        let mut seen = Vec::new();
        loop {
            let page = sandboxes.list(filter.clone()).await.unwrap();
            let Some(last) = page.last() else { break };
            filter.after = Some(last.position());
            seen.extend(page.into_iter().map(|record| record.order.id));
        }
        let all: Vec<_> = expected.iter().map(|(_, id)| id.clone()).collect();
        assert_eq!(seen, all);
    }
    let living = SandboxFilter {
        team: Some(record.team.clone()),
        ended: false,
        after: None,
        limit: 100,
    };
    let living = sandboxes.list(living).await.unwrap();
    assert_eq!(living.len(), 4);
    assert!(living.iter().all(|record| record.order.id != ended));
}

#[tokio::test]
async fn the_sandboxes_of_each_template_are_counted() {
    let record = Record::new().await;
    let sandboxes = record.store.sandboxes();
    let first = record.sandbox();
    let mut second = record.sandbox();
    second.template = first.template.clone();
    second.created_at = at(2_000);
    for sandbox in [first.clone(), second, record.sandbox()] {
        sandboxes.insert(sandbox, None).recorded().await.unwrap();
    }
    let spawns = sandboxes.spawns(record.team.clone()).await.unwrap();
    let of_first = spawns
        .iter()
        .find(|spawns| spawns.template == first.template)
        .unwrap();
    assert_eq!((of_first.count, of_first.last), (2, at(2_000)));
    assert_eq!(spawns.len(), 2);
}

#[tokio::test]
async fn a_request_is_remembered_until_forgotten_or_a_day_old() {
    let record = Record::new().await;
    let sandboxes = record.store.sandboxes();
    let idempotency = |key: &str| {
        Some(Idempotency {
            key: key.to_owned(),
            request: "hash".to_owned(),
        })
    };
    let ordered_at = |second| Order {
        created_at: at(second),
        ..record.sandbox()
    };
    let find = async |key: &str| {
        let found = sandboxes.remembered(record.team.clone(), key.to_owned());
        found.await.unwrap()
    };
    let first = ordered_at(0);
    sandboxes
        .insert(first.clone(), idempotency("a"))
        .recorded()
        .await
        .unwrap();
    let expected = IdempotentRequest {
        request: "hash".to_owned(),
        sandbox: first.id,
    };
    assert_eq!(find("a").await, Some(expected));

    // The key is taken, and the sandbox is not recorded either.
    let twin = ordered_at(1);
    let error = sandboxes
        .insert(twin.clone(), idempotency("a"))
        .recorded()
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Taken { .. }), "{error:?}");
    assert_eq!(sandboxes.find(twin.id).await.unwrap(), None);

    sandboxes
        .insert(ordered_at(10), idempotency("b"))
        .recorded()
        .await
        .unwrap();
    sandboxes
        .forget(record.team.clone(), "b".to_owned())
        .recorded()
        .await
        .unwrap();
    assert_eq!(find("b").await, None);
    sandboxes
        .insert(ordered_at(24 * 3600 + 1), idempotency("c"))
        .recorded()
        .await
        .unwrap();
    assert_eq!(find("a").await, None);
}

#[tokio::test]
async fn runs_are_found_by_the_time_they_touch() {
    let record = Record::new().await;
    let sandboxes = record.store.sandboxes();
    for (started, ended) in [(10, Some(20)), (15, None), (40, Some(50))] {
        let order = record.sandbox();
        let id = order.id.clone();
        sandboxes.insert(order, None).recorded().await.unwrap();
        let execution = ExecutionId::random();
        let starting = sandboxes.started(id.clone(), run(execution, "", started, 99));
        starting.recorded().await.unwrap();
        if let Some(ended) = ended {
            let ended = sandboxes.ended(id, ending(EndReason::Killed, ended));
            ended.recorded().await.unwrap();
        }
    }
    // One that was ordered and never started has no run.
    let never = sandboxes.insert(record.sandbox(), None);
    never.recorded().await.unwrap();
    let starts = async |from, until| {
        let spans = sandboxes.spans(record.team.clone(), at(from), at(until));
        let mut starts: Vec<_> = spans
            .await
            .unwrap()
            .iter()
            .map(|span| span.started_at)
            .collect();
        starts.sort();
        starts
    };
    assert_eq!(starts(0, 9).await, []);
    assert_eq!(starts(20, 30).await, [at(10), at(15)]);
    assert_eq!(starts(21, 30).await, [at(15)]);
    assert_eq!(starts(0, 100).await, [at(10), at(15), at(40)]);
}

#[tokio::test]
async fn a_team_that_ends_many_loses_its_own_records_and_nobody_elses() {
    let record = Record::new().await;
    let sandboxes = record.store.sandboxes();
    let busy = team("busy", false);
    record
        .store
        .teams()
        .insert(busy.clone())
        .recorded()
        .await
        .unwrap();
    let mut ids = Vec::new();
    // The quiet team's are the oldest.
    for (second, team) in (0..).zip([&record.team, &record.team, &busy.id, &busy.id, &busy.id]) {
        let order = order_for(team);
        ids.push(order.id.clone());
        sandboxes
            .insert(order.clone(), None)
            .recorded()
            .await
            .unwrap();
        let end = ending(EndReason::Killed, second);
        sandboxes.ended(order.id, end).recorded().await.unwrap();
    }
    let owners = sandboxes.ended_by_age().await.unwrap();
    assert_eq!(owners[1], (ids[1].clone(), record.team.clone()));
    let pruned = sandboxes.prune(at(0), 4, 9).recorded().await.unwrap();
    assert_eq!(pruned, ids[2..3]);
    let pruned = sandboxes.prune(at(0), 2, 9).recorded().await.unwrap();
    assert_eq!(pruned.len(), 2, "one of each, as both have as many");
    assert!(
        pruned.contains(&ids[0]) && pruned.contains(&ids[3]),
        "{pruned:?}"
    );
}
