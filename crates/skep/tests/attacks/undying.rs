//! Sandboxes that are killed and would live on.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use skep_testkit::Frozen;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::product::Product;
use crate::sentinels::Sentinels;
use crate::target::Target;

const TIMEOUT: Duration = Duration::from_secs(120);
/// Longer together than a path may be.
const LEVELS: usize = 17;
const LONG_NAME: usize = 240;

/// Makes cgroups, as the holder of the agent's descriptors could, that no path can name. A server
/// that walks by path kills nothing then; the control is that a walk by path fails here.
pub(crate) async fn deep_groups(
    product: &Product,
    sentinels: &Sentinels,
) -> Result<String, String> {
    let target = product.create(sentinels).await;
    let processes = computing(product, &target).await;
    let folder = delegated(product, &target.id);
    let (mut lowest, mut path) = (OwnedFd::from(File::open(&folder).unwrap()), folder);
    for _ in 0..LEVELS {
        let name = "n".repeat(LONG_NAME);
        rustix::fs::mkdirat(&lowest, &*name, Mode::from_raw_mode(0o755)).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        lowest = rustix::fs::openat(&lowest, &*name, flags, Mode::empty()).unwrap();
        path.push(name);
    }
    let by_path = fs::read_dir(&path).unwrap_err().kind();
    if by_path != ErrorKind::InvalidFilename {
        return Err(format!("a path still names the group: {by_path}"));
    }
    let start = Instant::now();
    product.kill(&target).await;
    let took = start.elapsed();
    let living = living(&processes);
    let left: Vec<_> = (product.groups().into_iter())
        .map(|group| group.join(&target.id))
        .filter(|group| group.exists())
        .collect();
    if living.is_empty() && left.is_empty() {
        let count = processes.len();
        Ok(format!(
            "{count} processes and {LEVELS} levels of groups gone in {took:?}"
        ))
    } else {
        Err(format!("killed, but {living:?} live and {left:?} are left"))
    }
}

/// Kills a sandbox whose processes cannot die, and lets them die later. Whoever asked must not be
/// told that it is gone before it is.
pub(crate) async fn undead(product: &Product, sentinels: &Sentinels) -> Result<String, String> {
    let target = product.create(sentinels).await;
    let processes = computing(product, &target).await;
    let Some(frozen) = Frozen::new(&processes) else {
        product.kill(&target).await;
        return Ok("this machine has no freezer that holds the dying".into());
    };
    let while_frozen = look(product, &target).await;
    frozen.thaw();
    let start = Instant::now();
    skep_testkit::wait_until(TIMEOUT, async || match stuck(product).await.as_deref() {
        Some("0") => Ok(()),
        other => Err(format!("{other:?} are stuck")),
    })
    .await;
    let retried_in = start.elapsed();
    drop(frozen);
    while_frozen?;
    let living = living(&processes);
    let killed_again = product.try_kill(&target.id).await;
    if living.is_empty() && !killed_again {
        Ok(format!(
            "told, counted, and gone {retried_in:?} after it could die"
        ))
    } else {
        Err(format!("{living:?} live on, killed again: {killed_again}"))
    }
}

/// Kills a sandbox that does not die, twice, and looks at what the server says of it.
async fn look(product: &Product, target: &Target) -> Result<(), String> {
    for attempt in ["first", "second"] {
        match product.client.sandbox(&target.id).kill().await {
            Err(error) if error.status() == Some(503) => {}
            other => return Err(format!("the {attempt} kill was answered: {other:?}")),
        }
    }
    match stuck(product).await.as_deref() {
        Some("1") => {}
        other => return Err(format!("{other:?} are counted")),
    }
    let health = health(product).await;
    if !health.contains(r#"{"status":"degraded"}"#) {
        return Err(format!("the server says that it is well: {health}"));
    }
    match product.client.sandbox(&target.id).info().await {
        Err(error) if error.is_not_found() => Ok(()),
        other => Err(format!("it is still offered: {other:?}")),
    }
}

/// Answer of the server's health check, which needs no key.
async fn health(product: &Product) -> String {
    let mut stream = TcpStream::connect(&product.address).await.unwrap();
    let request =
        "GET /health HTTP/1.1\r\nHost: x\r\nAccept: application/json\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Number of stuck sandboxes in the server's metrics.
async fn stuck(product: &Product) -> Option<String> {
    let text = product.client.server_metrics().await.ok()?;
    let name = "skep_sandboxes_stuck{kind=\"sandbox\"} ";
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.map(str::to_owned)
}

/// Starts something that computes for ever, and names all processes of the sandbox.
async fn computing(product: &Product, target: &Target) -> Vec<i32> {
    let script = "nohup sh -c 'while :; do :; done' >/dev/null 2>&1 </dev/null &";
    let ran = target
        .run("user", "sh", &["-c".into(), script.into()])
        .await;
    assert_eq!(ran.unwrap().code, 0);
    let mut processes = product.agents(&target.id);
    for group in product.groups() {
        let work = group.join(&target.id).join("work");
        for folder in [work.clone(), work.join("rest")] {
            let listed = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            processes.extend(listed.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
    }
    processes.sort_unstable();
    processes.dedup();
    assert!(processes.len() >= 2, "{processes:?}");
    processes
}

/// Those of some processes that have anything left to run.
fn living(processes: &[i32]) -> Vec<i32> {
    let lives = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let state = stat
            .rsplit_once(") ")
            .and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| state != 'Z' && state != 'X')
    };
    processes.iter().copied().filter(lives).collect()
}

/// The directory in which the agent of a sandbox makes groups.
fn delegated(product: &Product, id: &str) -> PathBuf {
    let groups = product.groups().into_iter();
    let folders = groups.flat_map(|group| {
        let work = group.join(id).join("work");
        [work.join("kernels"), work]
    });
    let mut there = folders.filter(|folder| folder.is_dir());
    let is_memory = |folder: &PathBuf| folder.starts_with("/sys/fs/cgroup/memory");
    let first = there.next().unwrap();
    there.find(is_memory).unwrap_or(first)
}
