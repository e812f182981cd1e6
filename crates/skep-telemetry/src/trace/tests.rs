use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::DefaultGuard;
use tracing::{Instrument as _, Span, Subscriber as _, debug_span};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt as _;

use super::*;

/// Exports to `exporter` until the guard is dropped.
fn export(exporter: Exporter) -> DefaultGuard {
    let exporter = Box::leak(Box::new(OnceLock::from(Arc::new(exporter))));
    tracing::subscriber::set_default(Registry::default().with(layer::layer_to(exporter)))
}

fn recorded(sample: f64) -> (DefaultGuard, mpsc::Receiver<Ended>, Arc<TraceMetrics>) {
    let (queue, ended) = mpsc::channel(16);
    let metrics = Arc::new(TraceMetrics::default());
    let guard = export(Exporter {
        queue,
        sampled_below: threshold(sample),
        metrics: Arc::clone(&metrics),
    });
    (guard, ended, metrics)
}

fn request(name: &str) -> Span {
    debug_span!("request", otel.kind = "server", otel.name = name)
}

fn drain(ended: &mut mpsc::Receiver<Ended>) -> Vec<Ended> {
    std::iter::from_fn(|| ended.try_recv().ok()).collect()
}

#[tokio::test]
#[expect(
    clippy::async_yields_async,
    reason = "the task is to outlive what started it"
)]
async fn children_know_their_parent_across_tasks_and_a_task_that_lives_on_holds_nothing_open() {
    let (_guard, mut ended, _) = recorded(1.0);
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    let span = debug_span!("request", otel.kind = "server", status = Empty, port = 80);
    let request = EndOnDrop(span.clone());
    span.record("status", 200_u16);
    let spawned = async {
        crate::spawn("child", async {
            drop(debug_span!("first"));
            wait.await.expect("the test says go");
            drop(debug_span!("late"));
        })
    }
    .instrument(span)
    .await;
    drop(request);
    skep_testkit::wait_until(Duration::from_secs(5), async || match ended.len() {
        2 => Ok(()),
        count => Err(format!("{count} spans")),
    })
    .await;
    go.send(()).unwrap();
    spawned.await.unwrap().unwrap();

    let spans = drain(&mut ended);
    let find = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let request = find("request");
    assert_eq!(request.position.parent, None);
    assert_eq!(request.kind, Kind::Server);
    assert_eq!(
        request.attributes,
        [("port", Value::Number(80)), ("status", Value::Number(200))]
    );
    for name in ["first", "late"] {
        let child = find(name);
        assert_eq!(child.position.parent, Some(request.position.id), "{name}");
        assert_eq!(child.position.trace, request.position.trace, "{name}");
        assert!(child.start >= request.start && child.end >= child.start);
    }
}

#[tokio::test]
async fn a_step_fails_with_its_work_and_goes_on_in_a_blocking_thread() {
    let (_guard, mut ended, _) = recorded(1.0);
    let result: Result<(), &str> = async {
        let current = Span::current();
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let blocking = tokio::task::spawn_blocking(move || {
            tracing::dispatcher::with_default(&dispatch, || {
                current.in_scope(|| debug_span!("blocking").in_scope(|| ()));
            });
        });
        blocking.await.unwrap();
        step(debug_span!("failing"), async { Err("no") }).await
    }
    .instrument(request("request"))
    .await;
    assert_eq!(result, Err("no"));
    let spans = drain(&mut ended);
    let told: Vec<_> = (spans.iter())
        .map(|span| (span.name.as_str(), span.failed))
        .collect();
    assert_eq!(
        told,
        [("blocking", false), ("failing", true), ("request", false)]
    );
    let parents: Vec<_> = spans.iter().map(|span| span.position.parent).collect();
    let root = Some(spans[2].position.id);
    assert_eq!(parents, [root, root, None]);
}

#[test]
fn a_caller_decides_whether_its_trace_is_recorded() {
    let (_guard, mut ended, _) = recorded(0.0);
    let request = |name: &str, flags: Option<&str>| {
        let header = flags.map(|flags| format!("00-{:032x}-{:016x}-{flags}", 7, 9));
        debug_span!(
            "request",
            otel.kind = "server",
            otel.name = name,
            traceparent = header,
        )
        .in_scope(|| drop(debug_span!("child")));
    };
    request("wanted", Some("01"));
    request("unwanted", Some("00"));
    request("nobody asked", None);
    let spans = drain(&mut ended);
    let told: Vec<_> = (spans.iter())
        .map(|span| (span.name.as_str(), span.position.trace))
        .collect();
    assert_eq!(told, [("child", 7), ("wanted", 7)]);
    assert_eq!(spans[1].position.parent, Some(9));
}

#[test]
fn a_span_outside_of_requests_or_for_log_lines_is_not_recorded() {
    let (_guard, mut ended, _) = recorded(1.0);
    tracing::info_span!("sandbox", otel.kind = "server").in_scope(|| drop(debug_span!("child")));
    assert!(drain(&mut ended).is_empty());
}

#[test]
fn nobody_wants_spans_before_the_start() {
    let nothing = Box::leak(Box::new(OnceLock::new()));
    let subscriber = Registry::default().with(layer::layer_to(nothing));
    // A span that nobody wants does not even tell what it is.
    let (_guard, _ended, _) = recorded(1.0);
    let metadata = debug_span!("request").metadata().unwrap();
    assert!(subscriber.register_callsite(metadata).is_never());
    assert_eq!(subscriber.max_level_hint(), Some(LevelFilter::OFF));
}

#[test]
fn a_part_of_all_traces_is_that_part() {
    assert_eq!(threshold(1.0), u128::MAX);
    assert_eq!(threshold(0.5), 1 << 127);
    assert_eq!(threshold(0.0), 0);
    assert_eq!(threshold(f64::NAN), 0);
}

#[test]
fn nobody_waits_for_a_full_queue() {
    let (_guard, ended, metrics) = recorded(1.0);
    for _ in 0..20 {
        drop(request("request"));
    }
    assert_eq!(ended.len(), 16);
    assert_eq!(metrics.overflowed.get(), 4);
}

#[tokio::test(start_paused = true)]
async fn batches_are_delivered_lost_when_refused_and_the_last_one_goes_at_the_end() {
    let (exporter, outbox) = Exporter::new(&TraceOptions {
        service: "skep".into(),
        version: "1".into(),
        sample: 1.0,
    });
    let metrics = Arc::clone(&exporter.metrics);
    let _guard = export(exporter);
    let stop = CancellationToken::new();
    let (sender, mut batches) = mpsc::channel(16);
    let running = crate::spawn(
        "outbox",
        outbox.run(stop.clone(), move |bytes| {
            let sender = sender.clone();
            async move {
                let refused = std::io::Error::other("refused");
                let refuse = bytes.windows(7).any(|window| window == b"refuse!");
                sender.send(bytes).await.expect("the test listens");
                if refuse { Err(refused) } else { Ok(()) }
            }
        }),
    );
    for name in ["a", "b", "refuse!"] {
        drop(request(name));
    }
    batches.recv().await.unwrap();
    drop(request("c"));
    batches.recv().await.unwrap();
    drop(request("d"));
    stop.cancel();
    running.await.unwrap().unwrap();
    batches.recv().await.unwrap();
    assert_eq!((metrics.sent.get(), metrics.undelivered.get()), (2, 3));
}
