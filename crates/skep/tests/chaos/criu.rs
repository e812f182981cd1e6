//! CRIU, killed while it has hold of a sandbox.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use skep_client::{Sandbox, SandboxState};

use crate::installation::Installation;
use crate::kills::rounds;
use crate::machine::Traces;
use crate::sleep::{COUNTER, LEDGER, create, fetch_criu, next_count, read_ledger};
use crate::sleep::{run, state, wait_until_stored};

/// Holds so much memory that writing it takes a while. Its code of CRIU's finds nobody at the end of its pipe any more, which is a
/// signal to it.
const HOLDER: &str = "nohup sh -c 'trap \"\" PIPE; (head -c 300M /dev/zero; sleep 600) | tail -c 300M' > /dev/null 2>&1 &";
const HOLDS: &str = "awk '/VmRSS/ { print ($2 > 250000) }' /proc/$(pgrep -x tail)/status";

const TIMEOUT: Duration = Duration::from_secs(60);

/// Moments of a dump at which CRIU is killed, in steps of so many milliseconds.
const STEP: u64 = 4;

/// Moments of a restore at which CRIU is killed, in milliseconds after it was first seen.
const RESTORING: [u64; 5] = [0, 15, 30, 60, 100];

/// CRIU of this installation, by the hook that it was told. What it restores has its command line at first, and is
/// its child.
fn criu_of(installation: &Installation) -> Option<Pid> {
    let data_dir = installation.data_dir();
    let hook = data_dir.to_str().unwrap();
    let processes = fs::read_dir("/proc").unwrap();
    let numbers = processes.filter_map(|entry| {
        let name = entry.unwrap().file_name();
        name.to_str()?.parse::<i32>().ok()
    });
    let is_criu = |pid: &i32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split('\0');
        words.any(|word| word == "--action-script")
            && words.next().is_some_and(|path| path.starts_with(hook))
    };
    let all: BTreeMap<i32, Option<i32>> = numbers
        .filter(is_criu)
        .map(|pid| (pid, parent(pid)))
        .collect();
    let is_first = |parent: &Option<i32>| parent.is_none_or(|parent| !all.contains_key(&parent));
    let first = all.iter().find(|(_, parent)| is_first(parent));
    first.and_then(|(pid, _)| Pid::from_raw(*pid))
}

fn parent(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(1)?.parse().ok()
}

/// Kills CRIU so long after it was first seen, and returns false if it had ended before. It may not even have been
/// seen when all is over.
fn kill_criu(installation: &Installation, after: Duration, is_over: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    // Without a pause: the whole takes some hundredths of a second.
    let criu = loop {
        match criu_of(installation) {
            Some(criu) => break criu,
            None if is_over() => return false,
            None => assert!(begun.elapsed() < TIMEOUT, "criu does not run"),
        }
    };
    let seen = Instant::now();
    while seen.elapsed() < after {
        std::hint::spin_loop();
    }
    criu_of(installation) == Some(criu) && kill_process(criu, Signal::KILL).is_ok()
}

/// Pauses a sandbox. One whose processes do not stand in time on a busy host runs on, and the caller is asked to try
/// again.
async fn pause(sandbox: &Sandbox) {
    skep_testkit::wait_until(TIMEOUT, async || sandbox.pause(true).await).await;
}

/// Bytes of the largest file with memory that is being written.
fn written(installation: &Installation) -> u64 {
    let images = fs::read_dir(installation.data_dir().join("images")).unwrap();
    let files = images.flat_map(|image| {
        let processes = image.unwrap().path().join("processes");
        fs::read_dir(processes).into_iter().flatten()
    });
    let sizes = files.filter_map(|file| {
        let path = file.ok()?.path();
        let is_memory = path.file_name()?.to_str()?.starts_with("pages-");
        is_memory.then(|| fs::metadata(path).map_or(0, |file| file.len()))
    });
    sizes.max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_whose_criu_is_killed_stays_paused_and_goes_on() {
    fetch_criu();
    let mut installation = Installation::start_configured("[pause]\ncheckpoint_after = 0\n");
    let client = installation.client();
    let sandbox = create(&client).await;
    let id = sandbox.id().to_owned();
    run(&sandbox, COUNTER).await;
    run(&sandbox, HOLDER).await;
    skep_testkit::wait_until(TIMEOUT, async || {
        match run(&sandbox, HOLDS).await.as_str() {
            "1" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;
    let mut count = next_count(&sandbox).await;
    for mebibytes in [8, 64, 160] {
        pause(&sandbox).await;
        let begun = Instant::now();
        // Without a pause, as above.
        while written(&installation) < mebibytes << 20 {
            assert!(begun.elapsed() < TIMEOUT, "nothing is written");
        }
        let stands = installation.data_dir().join("sandboxes").join(&id);
        let is_killed = kill_criu(&installation, Duration::ZERO, || !stands.exists());
        assert_eq!(state(&client, &id).await, SandboxState::Paused);
        let kept = sandbox.resume(None).await.unwrap().unwrap();
        // The last bytes may have been faster than the signal.
        let is_in_time = kept.kept_in == "memory";
        assert!(
            is_in_time || (kept.kept_in == "checkpoint" && mebibytes > 8),
            "{is_killed} {kept:?}"
        );
        let next = next_count(&sandbox).await;
        assert!(next > count, "{count} to {next} after {mebibytes} MiB");
        assert_eq!(run(&sandbox, HOLDS).await, "1");
        count = next;
    }
    let metrics = client.server_metrics().await.unwrap();
    let failures = metrics.lines().filter(|line| {
        line.starts_with("skep_sandbox_store_failures_total{") && line.contains("criu")
    });
    assert_eq!(failures.count(), 1, "{metrics}");
    // What is left in its processes of all that keeps nobody from writing them.
    pause(&sandbox).await;
    wait_until_stored(&installation, &id).await;
    let kept = sandbox.resume(None).await.unwrap().unwrap();
    assert_eq!(kept.kept_in, "checkpoint");
    assert!(next_count(&sandbox).await > count);
    assert_eq!(run(&sandbox, HOLDS).await, "1");
    sandbox.kill().await.unwrap();
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_whose_criu_is_killed_at_any_moment_is_paused_and_can_be_resumed() {
    fetch_criu();
    let mut installation = Installation::start_configured("[pause]\ncheckpoint_after = 0\n");
    let client = installation.client();
    let mut outcomes = BTreeMap::<String, u32>::new();
    for round in 0..rounds() {
        let sandbox = create(&client).await;
        let id = sandbox.id().to_owned();
        let stands = installation.data_dir().join("sandboxes").join(&id);
        run(
            &sandbox,
            "echo mine > note; nohup sleep 600 > /dev/null 2>&1 &",
        )
        .await;
        pause(&sandbox).await;
        let moment = Duration::from_millis(STEP * (round % 20));
        let is_killed = kill_criu(&installation, moment, || !stands.exists());
        assert_eq!(state(&client, &id).await, SandboxState::Paused);
        let kept = sandbox.resume(None).await.unwrap().unwrap();
        assert_eq!(run(&sandbox, "cat note").await, "mine");
        let is_there = run(&sandbox, "pgrep -c sleep || true").await == "1";
        // An instruction of CRIU's in the agent is the end of all processes, and in another one of that.
        let outcome = format!("{} {is_there}", kept.kept_in);
        *outcomes.entry(outcome).or_default() += u32::from(is_killed);
        sandbox.kill().await.unwrap();
    }
    eprintln!("kept in, and whether the process is there: {outcomes:?}");
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_whose_criu_is_killed_as_it_wakes_stays_paused_and_mixes_nothing() {
    fetch_criu();
    let mut installation = Installation::start_configured("[pause]\ncheckpoint_after = 0\n");
    let client = installation.client();
    let sandbox = create(&client).await;
    let id = sandbox.id().to_owned();
    run(&sandbox, LEDGER).await;
    for moment in RESTORING {
        pause(&sandbox).await;
        wait_until_stored(&installation, &id).await;
        let waking = client.sandbox(&id);
        let waking = skep_telemetry::spawn("wake", async move { waking.resume(None).await });
        let after = Duration::from_millis(moment);
        let is_killed = kill_criu(&installation, after, || waking.is_finished());
        let woken = waking.await.unwrap().expect("it does not panic");
        assert!(woken.is_ok() || is_killed, "{woken:?} after {moment} ms");
        if woken.is_err() {
            assert_eq!(state(&client, &id).await, SandboxState::Paused);
            wait_until_stored(&installation, &id).await;
            let kept = sandbox.resume(None).await.unwrap().unwrap();
            assert_eq!(kept.kept_in, "checkpoint");
        }
        read_ledger(&sandbox, moment).await;
    }
    sandbox.kill().await.unwrap();
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}
