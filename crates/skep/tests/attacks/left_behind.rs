//! Hundreds of sandboxes come and go, in every way there is, and nothing is left of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use rustix::process::{Pid, Signal, kill_process};

use crate::product::Product;
use crate::sentinels::Sentinels;
use crate::target::Target;

const CYCLES: usize = 240;
const AT_A_TIME: usize = 6;
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time without change after which everything made ahead is there, as it is made one by one.
const STEADY: Duration = Duration::from_secs(1);

/// The ways in which a sandbox ends.
#[derive(Debug, Clone, Copy)]
enum End {
    /// It is killed.
    Killed,
    /// It is killed twice at once.
    KilledTwice,
    /// It is killed while a bomb goes off in it.
    KilledWithBomb,
    /// The agent is killed from outside.
    AgentKilled,
    /// The caller disconnects while it starts.
    Unwanted,
}

const ENDS: [End; 5] = [
    End::Killed,
    End::KilledTwice,
    End::KilledWithBomb,
    End::AgentKilled,
    End::Unwanted,
];

/// Runs the cycles and compares what there was with what there is.
pub(crate) async fn check(product: &Product, sentinels: &Sentinels) -> Result<String, String> {
    // The first sandbox makes what all share.
    let first = product.create(sentinels).await;
    product.kill(&first).await;
    let before = at_rest(product);
    let start = Instant::now();
    let cycles = (0..CYCLES).map(|number| {
        let end = ENDS[number % ENDS.len()];
        let delay = Duration::from_millis(u64::try_from(number % 40).unwrap());
        cycle(product, sentinels, end, delay)
    });
    stream::iter(cycles)
        .buffer_unordered(AT_A_TIME)
        .collect::<Vec<()>>()
        .await;
    let took = start.elapsed();
    let after = settled(product, &before).await;
    Ok(format!(
        "{CYCLES} sandboxes in {:.1} s, {AT_A_TIME} at a time; before and after: {after:?}",
        took.as_secs_f64()
    ))
}

async fn cycle(product: &Product, sentinels: &Sentinels, end: End, delay: Duration) {
    if let End::Unwanted = end {
        // Some are given up before they exist, some in the middle, some when they are done.
        let created = tokio::time::timeout(delay * 8, product.create(sentinels)).await;
        if let Ok(target) = created {
            product.kill(&target).await;
        }
        return;
    }
    let target = product.create(sentinels).await;
    match end {
        End::Killed => product.kill(&target).await,
        End::KilledTwice => {
            let (first, second) =
                tokio::join!(product.try_kill(&target.id), product.try_kill(&target.id));
            assert!(first || second);
        }
        End::KilledWithBomb => {
            let script = "(while :; do sleep 60 & done) & (dd if=/dev/zero of=/var/tmp/x bs=1M count=64) & cat /dev/zero | tail &";
            target
                .run(
                    "root",
                    "sh",
                    &[
                        "-c".into(),
                        format!("({script}) >/dev/null 2>&1 </dev/null"),
                    ],
                )
                .await
                .ok();
            product.kill(&target).await;
        }
        End::AgentKilled => {
            kill_agent(product, &target);
            skep_testkit::wait_until(TIMEOUT, async || {
                match product.client.sandbox(&target.id).info().await {
                    Err(error) if error.is_not_found() => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            })
            .await;
        }
        End::Unwanted => unreachable!("it has returned already"),
    }
}

fn kill_agent(product: &Product, target: &Target) {
    for pid in product.agents(&target.id) {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
}

/// Number of objects on the host, by kind.
type Count = BTreeMap<&'static str, usize>;

/// Counts when nobody has a sandbox and all spares are ready.
fn at_rest(product: &Product) -> Count {
    let mut seen = Count::new();
    let mut since = Instant::now();
    skep_testkit::wait_for(TIMEOUT, || {
        let now = count(product);
        if now != seen {
            seen.clone_from(&now);
            since = Instant::now();
        }
        let spares = Product::spares();
        // A zygote has all that a sandbox has but a link.
        let kept = spares + usize::from(product.has_zygote);
        let expected = [("cgroups", kept), ("loop devices", kept), ("links", spares)];
        let is_right = |(what, count): &(&str, usize)| (now[*what] == 0) == (*count == 0);
        let is_complete = now["folders"] == kept && expected.iter().all(is_right);
        if is_complete && since.elapsed() > STEADY {
            Ok(now)
        } else {
            Err(format!("{now:?}"))
        }
    })
}

/// Waits until there is as much of everything as there was: the kernel lets go of some things a
/// moment after the last process, and what nobody wanted may still have started.
async fn settled(product: &Product, before: &Count) -> Count {
    skep_testkit::wait_until(TIMEOUT, async || {
        let listed = product.client.sandboxes().list().await.unwrap();
        for sandbox in listed {
            product.try_kill(&sandbox.sandbox_id).await;
        }
        let now = count(product);
        if now == *before {
            return Ok(now);
        }
        let names = names(product);
        Err(format!("{before:?} was there, {now:?} is left: {names:?}"))
    })
    .await
}

fn count(product: &Product) -> Count {
    names(product)
        .into_iter()
        .map(|(what, names)| (what, names.len()))
        .collect()
}

fn names(product: &Product) -> BTreeMap<&'static str, Vec<String>> {
    let data_dir = product.data();
    let data = data_dir.to_str().unwrap();
    let number = product.number();
    let mut all = BTreeMap::new();
    let processes = list(Path::new("/proc"))
        .into_iter()
        .filter(|name| name.parse::<u32>().is_ok());
    // Every process of this pid namespace is the test's: zombies are counted, too.
    all.insert("processes", processes.collect());
    let groups = product.groups().into_iter();
    all.insert(
        "cgroups",
        groups.flat_map(|group| folders(&group)).collect(),
    );
    let mounts = fs::read_to_string("/proc/self/mountinfo")
        .unwrap()
        .lines()
        .filter(|line| line.contains(data))
        .map(str::to_owned)
        .collect();
    all.insert("mounts", mounts);
    let loops = list(Path::new("/sys/block")).into_iter().filter(|name| {
        let file = Path::new("/sys/block").join(name).join("loop/backing_file");
        fs::read_to_string(file).is_ok_and(|path| path.contains(data))
    });
    all.insert("loop devices", loops.collect());
    let prefix = format!("skep{number}-");
    let links = list(Path::new("/sys/class/net"))
        .into_iter()
        .filter(|name| name.starts_with(&prefix));
    all.insert("links", links.collect());
    all.insert("folders", list(&product.data().join("sandboxes")));
    all.insert("rules", rules(&number));
    // Connections are the callers' to end, and the database opens more readers when it is busy.
    let descriptors = product.process().join("fd");
    let descriptors = list(&descriptors).into_iter().filter_map(|name| {
        let target = fs::read_link(descriptors.join(name))
            .ok()?
            .to_string_lossy()
            .into_owned();
        let comes_and_goes = target.starts_with("socket:") || target.contains("skep.db");
        (!comes_and_goes).then_some(target)
    });
    all.insert("descriptors", descriptors.collect());
    all
}

fn list(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

fn folders(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let folders: Vec<PathBuf> = entries.filter(|path| path.is_dir()).collect();
    folders
        .iter()
        .map(|path| path.display().to_string())
        .collect()
}

fn rules(number: &str) -> Vec<String> {
    let output = std::process::Command::new("nft")
        .args([
            "--stateless",
            "list",
            "table",
            "inet",
            &format!("skep{number}"),
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    // Elements of the meter of connections come and go with connections.
    text.lines()
        .filter(|line| !line.contains("elements"))
        .map(str::to_owned)
        .collect()
}
