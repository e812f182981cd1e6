//! Figures, for people: `cargo test -p skep-launch --test it -- --ignored --nocapture`.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::time::Instant;

use skep_launch::{Link, Network, Step, Top};

use crate::plan::{Bench, DEADLINE, launcher, make_image};

crate::tests![where_the_time_of_a_launch_goes];

#[expect(clippy::print_stdout, reason = "the figures are for people")]
fn where_the_time_of_a_launch_goes() {
    let mut steps: HashMap<Step, Vec<u32>> = HashMap::new();
    let mut whole = Vec::new();
    for number in 0..100_u32 {
        let mut bench = Bench::new(&["pid"]);
        let image = bench.path("disk.img");
        make_image(&image);
        bench.plan.root.top = Top::Image(image);
        bench.plan.network = Network::Link(Link {
            host_name: format!("skm{}n{number}", std::process::id() % 100_000),
            host_group: 0,
            address: Ipv4Addr::new(192, 0, 2, 200),
            gateway: Ipv4Addr::new(192, 0, 2, 201),
            host_address: None,
        });
        let start = Instant::now();
        let mut started = launcher().launch(bench.plan, DEADLINE).unwrap();
        whole.push(u32::try_from(start.elapsed().as_micros()).unwrap());
        started.wait(Some(DEADLINE)).unwrap();
        for (step, taken) in &started.timings {
            steps.entry(*step).or_default().push(*taken);
        }
    }
    for step in Step::ALL {
        if let Some(times) = steps.get_mut(step) {
            println!("{}", line(&step.to_string(), times));
        }
    }
    println!(
        "{}",
        line("all of it, with the launcher's own start", &mut whole)
    );
}

fn line(what: &str, times: &mut [u32]) -> String {
    times.sort_unstable();
    let at = |percent: usize| times[times.len() * percent / 100];
    format!("{:>8} µs p50 {:>8} µs p95  {what}", at(50), at(95))
}
