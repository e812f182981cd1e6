//! Ends of sandboxes whose processes, groups or disks do what they can to prevent them.

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use skep_isolation::{AdoptError, Isolation, LaunchRecord, Launched};
use skep_testkit::Frozen;

use crate::bench::{Bench, DEADLINE, ask};
use crate::crash::{next_line, start_server};

crate::tests![
    groups_that_no_path_can_name_keep_no_sandbox_alive,
    thousands_of_groups_keep_no_sandbox_alive,
    a_process_that_does_not_die_is_told_and_keeps_what_it_has,
    what_nobody_asks_after_is_tried_until_it_is_gone,
    a_server_starts_beside_what_it_cannot_remove_and_removes_it_when_it_can,
    a_server_that_is_killed_in_the_middle_of_an_end_is_followed_by_one_that_goes_on,
    a_full_disk_keeps_no_sandbox_alive,
];

/// Time that a destruction waits for processes that do not die, in these tests.
const SHORT: Duration = Duration::from_secs(2);

/// The identity in a launch record: the sandbox's id, and the host's pid of its first process.
fn identity(record: &LaunchRecord) -> (String, i32) {
    let written: serde_json::Value = serde_json::from_str(&record.0).unwrap();
    let pid = written["pid"].as_i64().unwrap();
    let id = written["id"].as_str().unwrap();
    (id.to_owned(), i32::try_from(pid).unwrap())
}

/// Returns true if a process exists and is no zombie.
fn lives(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// The directory in which the agent of a sandbox makes groups, as the agent has it.
fn delegated(bench: &Bench, id: &str) -> OwnedFd {
    let number = fs::read_to_string(bench.config.host.data_dir.join("instance")).unwrap();
    let v1 = PathBuf::from(format!("/sys/fs/cgroup/memory/skep-{number}/{id}/work"));
    let v2 = PathBuf::from(format!("/sys/fs/cgroup/skep-{number}/{id}/work/kernels"));
    let directory = if v1.exists() { v1 } else { v2 };
    File::open(directory).unwrap().into()
}

fn make_group(directory: &OwnedFd, name: &str) -> OwnedFd {
    rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(0o755)).unwrap();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty()).unwrap()
}

fn freeze(sandbox: &Launched) -> Option<Frozen> {
    Frozen::new(&[identity(&sandbox.record()).1])
}

/// A kill listed by path, failed with `ENAMETOOLONG`, and never came to the processes.
async fn groups_that_no_path_can_name_keep_no_sandbox_alive() {
    let bench = Bench::new().await;
    let sandbox = bench.launch().await;
    let (id, pid) = identity(&sandbox.record());
    let mut lowest = delegated(&bench, &id);
    for _ in 0..17 {
        lowest = make_group(&lowest, &"n".repeat(240));
    }
    sandbox.usage().await.unwrap();
    sandbox.destroy().await.unwrap();
    assert!(!lives(pid));
    drop(sandbox);
    bench.finish().await;
}

async fn thousands_of_groups_keep_no_sandbox_alive() {
    let bench = Bench::new().await;
    let sandbox = bench.launch().await;
    let (id, pid) = identity(&sandbox.record());
    let directory = delegated(&bench, &id);
    for number in 0..2000 {
        make_group(&directory, &format!("{number}-{}", "n".repeat(200)));
    }
    sandbox.usage().await.unwrap();
    let destroying = sandbox.destroy();
    let dying = skep_testkit::wait_until(DEADLINE, async || {
        (!lives(pid)).then_some(()).ok_or("it lives")
    });
    let (destroyed, ()) = tokio::join!(destroying, dying);
    destroyed.unwrap();
    drop(sandbox);
    bench.finish().await;
}

async fn a_process_that_does_not_die_is_told_and_keeps_what_it_has() {
    let bench = Bench::with(|config| config.host.kill_deadline = SHORT).await;
    let (sandbox, neighbour) = (bench.launch().await, bench.launch().await);
    let (id, pid) = identity(&sandbox.record());
    let Some(frozen) = freeze(&sandbox) else {
        for sandbox in [sandbox, neighbour] {
            sandbox.destroy().await.unwrap();
        }
        return bench.finish().await;
    };

    let start = Instant::now();
    let error = sandbox.destroy().await.unwrap_err();
    assert!(start.elapsed() >= SHORT, "{:?}", start.elapsed());
    assert!(start.elapsed() < SHORT + DEADLINE, "{:?}", start.elapsed());
    assert_eq!(
        error.to_string(),
        "cannot remove processes and their cgroups"
    );
    assert!(lives(pid));
    let left = bench.left();
    let has = |what: &str| left.contains(&format!("{what} {id}"));
    assert!(has("directory") && has("memory") && has("pids"), "{left:?}");
    let links = left.iter().filter(|thing| thing.starts_with("link"));
    assert_eq!(links.count(), 1, "only the neighbour has a link: {left:?}");

    let launched = bench.launch().await;
    for other in [&neighbour, &launched] {
        assert_ne!(other.address(), sandbox.address());
        assert_eq!(ask(other, "agent pid").await, "1");
        other.destroy().await.unwrap();
    }
    frozen.thaw();
    sandbox.destroy().await.unwrap();
    assert!(!lives(pid));
    drop((sandbox, neighbour, launched));
    bench.finish().await;
}

async fn what_nobody_asks_after_is_tried_until_it_is_gone() {
    let bench = Bench::with(|config| config.host.kill_deadline = SHORT).await;
    let leftovers = bench.native().leftovers();
    let sandbox = bench.launch().await;
    if let Some(frozen) = freeze(&sandbox) {
        sandbox.dispose().await;
        assert_eq!(leftovers.get(), 1);
        frozen.thaw();
    } else {
        sandbox.dispose().await;
    }
    bench.wait_until_empty().await;
    skep_testkit::wait_until(DEADLINE, async || match leftovers.get() {
        0 => Ok(()),
        count => Err(count),
    })
    .await;
    drop(sandbox);
    bench.finish().await;
}

async fn a_server_starts_beside_what_it_cannot_remove_and_removes_it_when_it_can() {
    let mut bench = Bench::with(|config| config.host.kill_deadline = SHORT).await;
    let sandbox = bench.launch().await;
    let Some(frozen) = freeze(&sandbox) else {
        sandbox.destroy().await.unwrap();
        drop(sandbox);
        return bench.finish().await;
    };
    let address = sandbox.address();
    drop(sandbox);
    // Nobody tells the next server of it, as of a sandbox that had no owner yet.
    bench.restart().await;
    bench.native().sweep().await.unwrap_err();
    let leftovers = bench.native().leftovers();
    assert_eq!(leftovers.get(), 1);
    let launched = bench.launch().await;
    assert_ne!(launched.address(), address, "its ids are still its own");
    launched.destroy().await.unwrap();
    frozen.thaw();
    bench.wait_until_empty().await;
    drop(launched);
    bench.finish().await;
}

async fn a_server_that_is_killed_in_the_middle_of_an_end_is_followed_by_one_that_goes_on() {
    let mut bench = Bench::with(|config| config.host.kill_deadline = SHORT).await;
    bench.stop().await;
    let (mut server, mut output) = start_server(&bench);
    assert_eq!(next_line(&mut output), "ready");
    let record = LaunchRecord(next_line(&mut output));
    let (_, pid) = identity(&record);
    // The server goes on to destroy it, after the other one.
    let frozen = Frozen::new(&[pid]);
    if frozen.is_some() {
        skep_testkit::wait_until(DEADLINE, async || {
            is_being_killed(pid).then_some(()).ok_or("not killed yet")
        })
        .await;
    }
    server.kill().unwrap();
    server.wait().unwrap();
    bench.start().await;
    match bench.native().adopt(record).await {
        Ok(adopted) => {
            if let Some(frozen) = frozen {
                adopted.destroy().await.unwrap_err();
                frozen.thaw();
            }
            adopted.destroy().await.unwrap();
            assert!(!lives(pid));
        }
        Err(error) => {
            assert!(frozen.is_none(), "{error:?}");
            assert!(matches!(error, AdoptError::Gone(_)), "{error:?}");
        }
    }
    bench.native().sweep().await.unwrap();
    bench.finish().await;
}

/// Returns true if SIGKILL is pending for a process.
fn is_being_killed(pid: i32) -> bool {
    const KILL: u64 = 1 << 8;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let pending = status
        .lines()
        .filter_map(|line| {
            line.strip_prefix("SigPnd:")
                .or(line.strip_prefix("ShdPnd:"))
        })
        .filter_map(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    pending.fold(0, |all, mask| all | mask) & KILL != 0
}

/// A small file system for a server's data, unmounted when it is dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let flags = rustix::mount::MountFlags::empty();
        let size = Some(c"size=48m");
        rustix::mount::mount(c"none", directory.path(), c"tmpfs", flags, size).unwrap();
        Self(directory)
    }

    /// Leaves no byte.
    fn fill(&self) {
        let full = File::create(self.0.path().join("full")).unwrap();
        let error = std::io::copy(&mut std::io::repeat(1), &mut &full).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let flags = rustix::mount::UnmountFlags::DETACH;
        rustix::mount::unmount(self.0.path(), flags).unwrap();
    }
}

async fn a_full_disk_keeps_no_sandbox_alive() {
    let disk = SmallDisk::new();
    let data = disk.0.path().join("data");
    let bench = Bench::with(|config| config.host.data_dir = data).await;
    let sandbox = bench.launch().await;
    let (_, pid) = identity(&sandbox.record());
    disk.fill();
    sandbox.destroy().await.unwrap();
    assert!(!lives(pid));
    drop(sandbox);
    bench.finish().await;
}
