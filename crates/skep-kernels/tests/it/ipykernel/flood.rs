//! Much output, and nobody who reads it.

use std::path::Path;
use std::time::Duration;

use skep_testkit::wait_until;

use super::{NEW_ENVIRONMENT, USUAL_ENVIRONMENT, World, until_said, world, world_of};
use crate::talk::all;

/// Returns true if a process is stopped (state `T`).
fn is_stopped(pid: &str) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid).join("stat"));
    stat.is_ok_and(|stat| {
        stat.rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" T"))
    })
}

async fn pid_of(world: &World) -> String {
    let words = world.run("import os\nprint(os.getpid())").await;
    words[1].clone()
}

/// The lines with a number, in their order.
fn numbers(words: &[String]) -> Vec<usize> {
    let lines = words.iter().flat_map(|word| word.lines());
    lines
        .filter_map(|line| line.split(' ').next()?.parse().ok())
        .collect()
}

#[tokio::test]
async fn a_kernel_waits_for_a_reader_that_stalls_and_no_line_is_lost() {
    for environment in [&*USUAL_ENVIRONMENT, &*NEW_ENVIRONMENT] {
        let world = world_of(environment, "signal");
        let pid = pid_of(&world).await;
        let code = "print('go', flush=True)\nfor n in range(100_000): print(n, 'x' * 200, flush=n % 50 == 0)";
        let mut execution = world.start(code);
        until_said(&mut execution, "go").await;
        // Nobody reads until it is stopped, which it is as long as nobody reads.
        wait_until(Duration::from_secs(60), || async {
            is_stopped(&pid).then_some(()).ok_or("it runs")
        })
        .await;
        let words = all(execution).await;
        assert!(
            numbers(&words).into_iter().eq(0..100_000),
            "lines are missing"
        );
        assert_eq!(words.last().map(String::as_str), Some("ended Ok"));
    }
}

#[tokio::test]
async fn no_message_is_lost_when_nobody_is_there_to_read() {
    for environment in [&*USUAL_ENVIRONMENT, &*NEW_ENVIRONMENT] {
        let world = world_of(environment, "signal");
        // So many messages that the kernel's socket is full, while this whole process does
        // not get to run.
        let mark = world.directory.path().join("mark");
        let code = format!(
            "print('go', flush=True)\nfor n in range(20_000):\n    display({{'text/plain': str(n)}}, raw=True)\n    if n == 3000: open({mark:?}, 'w')"
        );
        let mut execution = world.start(&code);
        until_said(&mut execution, "go").await;
        let deadline = std::time::Instant::now() + Duration::from_secs(3);
        while std::time::Instant::now() < deadline && !mark.exists() {
            std::thread::yield_now();
        }
        let words = all(execution).await;
        let values: Vec<usize> = words
            .iter()
            .filter_map(|word| word.strip_prefix("value \"")?.strip_suffix('"'))
            .map(|value| value.parse().unwrap())
            .collect();
        assert_eq!(values.len(), 20_000);
        assert!(values.into_iter().eq(0..20_000), "they are out of order");
    }
}

#[tokio::test]
async fn a_reader_that_leaves_frees_a_stopped_kernel() {
    let world = world();
    let pid = pid_of(&world).await;
    let mut execution =
        world.start("print('go', flush=True)\nwhile True: print('x' * 1000, flush=True)");
    until_said(&mut execution, "go").await;
    wait_until(Duration::from_secs(60), || async {
        is_stopped(&pid).then_some(()).ok_or("it runs")
    })
    .await;
    drop(execution);
    assert_eq!(
        world.run("print(os.getpid())").await,
        ["accepted 3", &pid, "ended Ok"]
    );
}

#[tokio::test]
async fn a_text_and_a_result_of_many_megabytes_arrive() {
    let world = world();
    let words = world.run("print('x' * (12 << 20))").await;
    let length: usize = words[1..words.len() - 1].iter().map(String::len).sum();
    assert_eq!(length, 12 << 20);
    let words = world.run("'x' * (12 << 20)").await;
    assert_eq!(words[1].len(), "value \"''\"".len() + (12 << 20));
}

#[tokio::test]
async fn a_message_that_is_too_large_is_left_out_and_the_rest_is_heard() {
    let world = world();
    let words = world
        .run("display({'text/plain': 'x' * (129 << 20)}, raw=True)\nprint('after')")
        .await;
    assert!(words[1].starts_with("too large 135"), "{}", words[1]);
    assert_eq!(words[2..], ["after", "ended Ok"]);
}
