//! Figures, for people: `cargo test -p skep-native --test it -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use skep_isolation::Isolation;

use crate::bench::Bench;

crate::tests![how_long_a_launch_and_a_destruction_take];

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

#[expect(clippy::print_stdout, reason = "the figures are for people")]
fn report(what: &str, times: &mut [Duration]) {
    times.sort();
    let at = |percent: usize| times[times.len() * percent / 100];
    println!("{what}: p50 {:?}, p95 {:?}", at(50), at(95));
}
