//! Figures, for people: `cargo test -p skep-native --test it -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use skep_isolation::{Isolation, LaunchRequest};
use skep_types::{Connections, Egress, EgressRules};

use crate::bench::Bench;

crate::tests![
    how_long_a_launch_and_a_destruction_take,
    how_long_a_policy_of_a_hundred_rules_takes,
    what_policies_of_many_sandboxes_cost,
];

/// Sandboxes that have policies of their own, unless somebody says otherwise.
const POLICIES: usize = 1000;
/// Time in which they do nothing.
const WINDOW: Duration = Duration::from_secs(20);

async fn how_long_a_launch_and_a_destruction_take() {
    // Where the time goes is told by the server's own log.
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
        .init();
    let bench = Bench::new().await;
    let (mut launches, mut destructions) = (Vec::new(), Vec::new());
    for _ in 0..100 {
        let start = Instant::now();
        let sandbox = bench.native().launch(bench.request()).await.unwrap();
        launches.push(start.elapsed());
        let start = Instant::now();
        sandbox.destroy().await.unwrap();
        destructions.push(start.elapsed());
    }
    report("launch", &mut launches);
    report("destroy", &mut destructions);
    bench.finish().await;
}

async fn how_long_a_policy_of_a_hundred_rules_takes() {
    let bench = Bench::new().await;
    time_launches(&bench).await;
    bench.finish().await;
}

async fn what_policies_of_many_sandboxes_cost() {
    let bench = Bench::new().await;
    say("alone");
    time_launches(&bench).await;
    let mut standing = Vec::with_capacity(POLICIES);
    for number in 0..POLICIES {
        standing.push(bench.native().launch(ruled(&bench, number)).await.unwrap());
    }
    say(&format!("beside {POLICIES} policies of a hundred rules"));
    time_launches(&bench).await;
    let before = processor_time();
    tokio::time::sleep(WINDOW).await;
    let idle = processor_time() - before;
    say(&format!(
        "processor time of the backend with {POLICIES} policies, idle for {WINDOW:?}: {idle:?}"
    ));
    for sandbox in standing {
        sandbox.destroy().await.unwrap();
    }
    bench.finish().await;
}

/// Order of a sandbox with a hundred rules, which few others have.
fn ruled(bench: &Bench, number: usize) -> LaunchRequest {
    LaunchRequest {
        egress: a_hundred_rules(number),
        ..bench.request()
    }
}

fn a_hundred_rules(number: usize) -> Egress {
    let last = number % 250;
    let rules = EgressRules {
        denied: (0..100)
            .map(|third| format!("192.0.{third}.{last}"))
            .collect(),
        ..EgressRules::default()
    };
    Egress::new(rules).unwrap()
}

/// Launches with and without rules, and changes of rules.
async fn time_launches(bench: &Bench) {
    let (mut open, mut with_rules, mut changes) = (Vec::new(), Vec::new(), Vec::new());
    // By turns, so that what else the host does is shared.
    for _ in 0..60 {
        for (request, times) in [
            (bench.request(), &mut open),
            (ruled(bench, 1), &mut with_rules),
        ] {
            let start = Instant::now();
            let sandbox = bench.native().launch(request).await.unwrap();
            times.push(start.elapsed());
            let start = Instant::now();
            sandbox
                .set_egress(a_hundred_rules(2), Connections::Cut)
                .await
                .unwrap();
            changes.push(start.elapsed());
            sandbox.destroy().await.unwrap();
        }
    }
    report("launch without rules", &mut open);
    report("launch with a hundred rules", &mut with_rules);
    report("change of a hundred rules", &mut changes);
}

/// Processor time of all threads of this process, which is the backend, until now.
fn processor_time() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").unwrap();
    let nanoseconds = threads.map(|thread| {
        let text = std::fs::read_to_string(thread.unwrap().path().join("schedstat")).unwrap();
        let first = text.split_whitespace().next().unwrap();
        first.parse::<u64>().unwrap()
    });
    Duration::from_nanos(nanoseconds.sum())
}

fn report(what: &str, times: &mut [Duration]) {
    times.sort();
    let at = |percent: usize| times[times.len() * percent / 100];
    say(&format!("{what}: p50 {:?}, p95 {:?}", at(50), at(95)));
}

#[expect(clippy::print_stdout, reason = "the figures are for people")]
fn say(line: &str) {
    println!("{line}");
}
