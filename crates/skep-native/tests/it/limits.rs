//! Limits hold, and the agent still answers when they do.

use std::time::Duration;

use crate::bench::{Bench, ask};

crate::tests![
    the_agent_gets_its_configuration_and_user_code_its_own_cgroup,
    a_memory_bomb_is_killed_and_counted_and_the_agent_answers,
    a_fork_bomb_ends_at_the_limit_and_the_agent_answers,
    a_full_disk_is_the_sandboxs_own,
    processor_time_is_dealt_out,
];

async fn the_agent_gets_its_configuration_and_user_code_its_own_cgroup() {
    let bench = Bench::new().await;
    let sandbox = bench.launch().await;
    assert_eq!(ask(&sandbox, "config").await, "normal");
    assert_eq!(ask(&sandbox, "agent pid").await, "1");
    let groups = ask(&sandbox, "work read=/proc/self/cgroup").await;
    // Its groups, as it sees them, and no way that leads out of them.
    let expected = if crate::bench::has_unified_cgroups() {
        vec![format!("0::/{}/rest", "work")]
    } else {
        ["memory", "pids", "cpu"]
            .map(|controller| format!(":{controller}:/work"))
            .to_vec()
    };
    for place in expected {
        let is_there = groups.lines().any(|line| line.ends_with(&place));
        assert!(is_there, "{place} is not in {groups}");
    }
    let agents = ask(&sandbox, "agent read=/proc/self/cgroup").await;
    assert!(
        !format!("{groups}{agents}").contains("/.."),
        "{groups}{agents}"
    );
    assert_eq!(ask(&sandbox, "agent read=/etc/hostname").await, "e2b.local");
    let usage = sandbox.usage().await.unwrap();
    assert!(usage.memory_bytes > 0 && usage.pids >= 1, "{usage:?}");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn a_memory_bomb_is_killed_and_counted_and_the_agent_answers() {
    let bench = Bench::new().await;
    let sandbox = bench.launch().await;
    assert_eq!(ask(&sandbox, "work memory=32").await, "32");
    assert_eq!(ask(&sandbox, "work memory=1024").await, "");
    assert_eq!(ask(&sandbox, "agent pid").await, "1");
    let usage = sandbox.usage().await.unwrap();
    assert!(usage.out_of_memory_kills >= 1, "{usage:?}");
    assert!(usage.memory_peak_bytes >= 100 << 20, "{usage:?}");
    assert!(usage.memory_peak_bytes <= 192 << 20, "{usage:?}");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn a_fork_bomb_ends_at_the_limit_and_the_agent_answers() {
    let bench = Bench::new().await;
    let sandbox = bench.launch().await;
    let answer = ask(&sandbox, "work fork=200").await;
    let (count, why) = answer.split_once(' ').unwrap();
    assert_eq!(why, "WouldBlock");
    assert!(count.parse::<u32>().unwrap() < 32, "{answer}");
    // What it started lives on, and there is no room for another.
    assert_eq!(ask(&sandbox, "agent pid").await, "1");
    // Not in the bill: the processes begin to end before the last look at them.
    let usage = sandbox.usage().await.unwrap();
    assert!(usage.pids > 20, "{usage:?}");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn a_full_disk_is_the_sandboxs_own() {
    let bench = Bench::new().await;
    let sandbox = bench.launch().await;
    let neighbour = bench.launch().await;
    let answer = ask(&sandbox, "work fill=/tmp/full").await;
    let (mebibytes, why) = answer.split_once(' ').unwrap();
    assert_eq!(why, "StorageFull");
    let mebibytes: u32 = mebibytes.parse().unwrap();
    assert!((32..=50).contains(&mebibytes), "{answer}");
    assert_eq!(ask(&neighbour, "work write=/tmp/small").await, "ok");
    skep_testkit::wait_until(Duration::from_secs(10), async || {
        let usage = sandbox.usage().await.unwrap();
        match (usage.disk_bytes, usage.disk_written_bytes) {
            (held, written) if held.min(written) >= 32 << 20 => Ok(()),
            (held, written) => Err(format!("{held} bytes on disk, {written} written")),
        }
    })
    .await;
    sandbox.destroy().await.unwrap();
    neighbour.destroy().await.unwrap();
    drop((sandbox, neighbour));
    bench.finish().await;
}

async fn processor_time_is_dealt_out() {
    let bench = Bench::new().await;
    let sandbox = bench.launch().await;
    let answer = ask(&sandbox, "work processor=1000").await;
    let milliseconds: u32 = answer.parse().unwrap();
    // Four threads on a host of two processors, with one processor's time.
    assert!(milliseconds <= 1200, "{milliseconds}");
    // What the agent does in its name is no way around that: a quarter more, and what it took to start.
    let answer = ask(&sandbox, "agent processor=1000").await;
    let milliseconds: u32 = answer.parse().unwrap();
    assert!(milliseconds <= 1600, "{milliseconds}");
    sandbox.destroy().await.unwrap();
    drop(sandbox);
    bench.finish().await;
}
