//! Children that are stopped between fork and exec, as root in a sandbox can stop them.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::time::Duration;

use futures_util::future::join_all;
use rustix::io::{Errno, ioctl_fionbio, write};
use rustix::pipe::{PipeFlags, pipe_with};
use serde_json::json;
use skep_testkit::wait_until;

use super::{DEADLINE, START, collect, shell};
use crate::agent::TestAgent;

/// More than the agent has threads for calls that block.
const MANY: usize = 80;

/// An agent whose children stand still on their way to the program: the cgroup that they join is
/// a full pipe. Whoever reads it lets them go on.
fn stuck(patience: Duration) -> (TestAgent, File) {
    let (read, full) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    fill(&full);
    let agent = TestAgent::with_options(&json!({}), |options| {
        options.work_cgroups = vec![full];
        options.start_timeout = patience;
    });
    (agent, File::from(read))
}

fn fill(pipe: &OwnedFd) {
    ioctl_fionbio(pipe, true).unwrap();
    for length in [4096, 1] {
        while write(pipe, &[0; 4096][..length]) != Err(Errno::AGAIN) {}
    }
    ioctl_fionbio(pipe, false).unwrap();
}

fn release(mut full: File) {
    std::thread::spawn(move || full.read_to_end(&mut Vec::new()));
}

#[tokio::test]
async fn a_child_that_is_stopped_before_it_executes_is_killed_and_told() {
    let (agent, full) = stuck(Duration::from_millis(300));
    let (patient, also_full) = stuck(Duration::from_secs(3600));
    let request = shell("touch ran");
    let control = skep_telemetry::spawn("control", async move {
        let run = collect(patient.stream(START, shell("touch ran; echo ran")).await).await;
        (patient, run)
    });
    let run = collect(agent.stream(START, request.clone()).await).await;
    assert_eq!(
        run.close["error"],
        json!({
            "code": "internal",
            "message": "'/bin/bash' did not start within 0 s; something in the sandbox stops it",
        })
    );
    assert!(!control.is_finished(), "without a deadline nobody is told");

    release(full);
    release(also_full);
    let control = tokio::time::timeout(DEADLINE, control).await.unwrap();
    let (patient, run) = control.unwrap().expect("it did not panic");
    assert_eq!(run.stdout, "ran\n", "one that is not killed goes on");
    assert!(patient.home().join("ran").exists());
    collect(agent.stream(START, shell("true")).await).await;
    assert!(!agent.home().join("ran").exists());
}

#[tokio::test]
async fn children_that_stand_still_do_not_keep_the_agent_from_answering() {
    let (agent, full) = stuck(Duration::from_secs(3600));
    std::fs::write(agent.home().join("file"), "").unwrap();
    let starts = join_all((0..MANY).map(|_| agent.stream(START, shell("true"))));
    let look = async {
        wait_until(DEADLINE, || async {
            let forked = forks();
            (forked >= MANY).then_some(()).ok_or(forked)
        })
        .await;
        let stat = agent.ask("filesystem.Filesystem/Stat", json!({"path": "file"}));
        tokio::time::timeout(DEADLINE, stat).await.unwrap();
        release(full);
    };
    let (started, ()) =
        tokio::time::timeout(6 * DEADLINE, futures_util::future::join(starts, look))
            .await
            .unwrap();
    for events in started {
        assert_eq!(collect(events).await.close, json!({}));
    }
}

/// Returns the number of children of this process that have not executed a program yet.
fn forks() -> usize {
    let own = std::fs::read_link("/proc/self/exe").unwrap();
    let parent = format!("PPid:\t{}\n", std::process::id());
    let processes = std::fs::read_dir("/proc").unwrap();
    let is_fork = |process: &std::path::Path| {
        let status = std::fs::read_to_string(process.join("status"));
        let is_child = status.is_ok_and(|status| status.contains(&parent));
        is_child && std::fs::read_link(process.join("exe")).is_ok_and(|program| program == own)
    };
    let processes = processes.filter_map(Result::ok);
    processes.filter(|entry| is_fork(&entry.path())).count()
}
