use tokio_util::sync::CancellationToken;

use super::*;

fn recorded(sample: f64) -> (Tracer, mpsc::Receiver<Ended>) {
    let (queue, ended) = mpsc::channel(16);
    let inner = Inner {
        queue,
        sampled_below: threshold(sample),
        metrics: Arc::default(),
    };
    let inner = Arc::new(inner);
    (Tracer { inner }, ended)
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
    let (tracer, mut ended) = recorded(1.0);
    let (go, wait) = tokio::sync::oneshot::channel::<()>();
    let mut request = tracer.request("request", None);
    request.note("status", 200_u16);
    let spawned = request
        .within(async {
            crate::spawn("child", async {
                drop(child("first"));
                wait.await.expect("the test says go");
                drop(child("late"));
            })
        })
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
    assert_eq!(request.parent, None);
    assert_eq!(request.attributes, [("status", Value::Number(200))]);
    for name in ["first", "late"] {
        let child = find(name);
        assert_eq!(child.parent, Some(request.id), "{name}");
        assert_eq!(child.trace, request.trace, "{name}");
        assert!(child.start >= request.start && child.end >= child.start);
    }
}

#[tokio::test]
async fn a_step_fails_with_its_work_and_one_that_is_over_keeps_its_times() {
    let (tracer, mut ended) = recorded(1.0);
    let request = tracer.request("request", None);
    let began = Instant::now();
    let result: Result<(), &str> = request
        .within(async {
            completed("over", began, Duration::from_millis(5));
            step("failing", async { Err("no") }).await
        })
        .await;
    assert_eq!(result, Err("no"));
    let spans = drain(&mut ended);
    let took = spans[0].end.duration_since(spans[0].start).unwrap();
    assert_eq!(
        (spans[0].name.as_str(), took),
        ("over", Duration::from_millis(5))
    );
    assert!(!spans[0].failed && spans[1].failed);
}

#[tokio::test]
async fn a_caller_decides_whether_its_trace_is_recorded() {
    let (tracer, mut ended) = recorded(0.0);
    let parent = |flags: &str| {
        let header = format!("00-{:032x}-{:016x}-{flags}", 7, 9);
        Parent::from_header(&header)
    };
    drop(tracer.request("wanted", parent("01")));
    drop(tracer.request("unwanted", parent("00")));
    drop(tracer.request("nobody asked", None));
    let spans = drain(&mut ended);
    let told: Vec<_> = (spans.iter())
        .map(|span| (span.name.as_str(), span.trace, span.parent))
        .collect();
    assert_eq!(told, [("wanted", 7, Some(9))]);
}

#[test]
fn a_part_of_all_traces_is_that_part() {
    assert_eq!(threshold(1.0), u128::MAX);
    assert_eq!(threshold(0.5), 1 << 127);
    assert_eq!(threshold(0.0), 0);
    assert_eq!(threshold(f64::NAN), 0);
}

#[tokio::test]
async fn nobody_waits_for_a_full_queue() {
    let (tracer, ended) = recorded(1.0);
    for _ in 0..20 {
        drop(tracer.request("request", None));
    }
    assert_eq!(ended.len(), 16);
    assert_eq!(tracer.inner.metrics.overflowed.get(), 4);
}

#[tokio::test(start_paused = true)]
async fn batches_are_delivered_lost_when_refused_and_the_last_one_goes_at_the_end() {
    let (tracer, outbox) = tracer(TraceOptions {
        service: "skep".into(),
        version: "1".into(),
        sample: 1.0,
    });
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
        drop(tracer.request(name, None));
    }
    batches.recv().await.unwrap();
    drop(tracer.request("c", None));
    batches.recv().await.unwrap();
    drop(tracer.request("d", None));
    stop.cancel();
    running.await.unwrap().unwrap();
    batches.recv().await.unwrap();
    let metrics = &tracer.inner.metrics;
    assert_eq!((metrics.sent.get(), metrics.undelivered.get()), (2, 3));
}
