//! Figures, for people: `cargo test -p skep-native --test it -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use skep_isolation::{Isolation, LaunchRequest};
use skep_types::{Connections, Egress, EgressRules};

use crate::bench::Bench;

crate::tests![
    how_long_a_launch_and_a_destruction_take,
    how_long_a_policy_of_a_hundred_rules_takes,
];

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
    let rules = |last: u8| EgressRules {
        denied: (0..100)
            .map(|third| format!("192.0.{third}.{last}"))
            .collect(),
        ..EgressRules::default()
    };
    let (mut open, mut ruled, mut changes) = (Vec::new(), Vec::new(), Vec::new());
    // By turns, so that what else the host does is shared.
    for _ in 0..60 {
        for (egress, times) in [
            (Egress::default(), &mut open),
            (Egress::new(rules(1)).unwrap(), &mut ruled),
        ] {
            let request = LaunchRequest {
                egress,
                ..bench.request()
            };
            let start = Instant::now();
            let sandbox = bench.native().launch(request).await.unwrap();
            times.push(start.elapsed());
            let egress = Egress::new(rules(2)).unwrap();
            let start = Instant::now();
            sandbox.set_egress(egress, Connections::Cut).await.unwrap();
            changes.push(start.elapsed());
            sandbox.destroy().await.unwrap();
        }
    }
    report("launch without rules", &mut open);
    report("launch with a hundred rules", &mut ruled);
    report("change of a hundred rules", &mut changes);
    bench.finish().await;
}

#[expect(clippy::print_stdout, reason = "the figures are for people")]
fn report(what: &str, times: &mut [Duration]) {
    times.sort();
    let at = |percent: usize| times[times.len() * percent / 100];
    println!("{what}: p50 {:?}, p95 {:?}", at(50), at(95));
}
