//! `cargo xtask fuzz`: untrusted input, mutated for a while.
//!
//! The targets and their corpora are in `fuzz/`, a workspace of its own that is built with
//! libFuzzer's instrumentation. The flags for it are among those that a stable compiler takes.

mod campaign;
mod corpus;

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use parking_lot::Mutex;

use campaign::{Campaign, Outcome};

/// Flags for the compiler that libFuzzer needs: a counter for every edge, and a look at
/// comparisons.
const INSTRUMENTATION: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// The target with a bug on purpose, and what it says when that is found.
const PLANTED: &str = "planted";
const PLANTED_PANIC: &str = "found, as it must be";
/// Time limit for the search for it. It takes two seconds.
const PLANTED_LIMIT: Duration = Duration::from_secs(60);

/// Options of `cargo xtask fuzz`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only this target.
    target: Option<String>,
    /// Duration of the search for something new, all targets together.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seed of the search; 0 takes another each time.
    ///
    /// The same inputs are tried by everybody who does not say otherwise, so that a change is not
    /// held up by what was there before it.
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Put what was found into the corpora, and leave out what adds nothing.
    #[arg(long)]
    minimise: bool,
}

/// Builds the targets and runs them.
#[expect(clippy::print_stdout, reason = "the report is this command's output")]
pub(crate) fn run(root: &Path, options: &Options) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let names = chosen(targets(root)?, options.target.as_deref())?;
    let program = build(root)?;
    println!("built in {:.0} s", start.elapsed().as_secs_f32());
    let campaign = |name: &str| Campaign::new(root, &program, name).seeded(options.seed);
    if options.minimise {
        for name in &names {
            println!("{name:<16} {}", campaign(name).minimise(is_root())?);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut failed = 0;
    if options.target.is_none() {
        let took = find_planted(&campaign(PLANTED))?;
        println!("{PLANTED:<16} ok      found in {:.1} s", took.as_secs_f32());
    }
    let campaigns = names.iter().map(|name| campaign(name)).collect();
    for (name, outcome) in run_all(campaigns, Duration::from_secs(options.seconds))? {
        println!("{name:<16} {outcome}");
        failed += usize::from(outcome.failure.is_some());
    }
    let passed = names.len() - failed + usize::from(options.target.is_none());
    let seconds = start.elapsed().as_secs();
    println!("{passed} passed, {failed} failed in {seconds} s");
    Ok(if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The targets that have seeds, which is all of them but the planted one.
fn targets(root: &Path) -> anyhow::Result<Vec<String>> {
    let directory = root.join("fuzz/seeds");
    let entries = std::fs::read_dir(&directory)
        .with_context(|| format!("cannot list `{}`", directory.display()))?;
    let mut names = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<Vec<_>>>()
        .with_context(|| format!("cannot list `{}`", directory.display()))?;
    names.sort();
    Ok(names)
}

fn chosen(names: Vec<String>, only: Option<&str>) -> anyhow::Result<Vec<String>> {
    let Some(only) = only else {
        return Ok(names);
    };
    ensure!(
        names.iter().any(|name| name == only),
        "no target `{only}`; there are {}",
        names.join(", ")
    );
    Ok(vec![only.to_owned()])
}

fn build(root: &Path) -> anyhow::Result<PathBuf> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let directory = root.join("target/fuzz");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--locked", "--target", &triple])
        .arg("--target-dir")
        .arg(&directory)
        .env("RUSTFLAGS", INSTRUMENTATION.join(" "))
        .current_dir(root.join("fuzz"))
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the targets cannot be built");
    Ok(directory.join(triple).join("debug/skep-fuzz"))
}

/// Finds the planted bug; answers how long it took.
fn find_planted(campaign: &Campaign) -> anyhow::Result<Duration> {
    let outcome = campaign.run(PLANTED_LIMIT, is_root())?;
    match outcome.failure {
        Some(failure) if failure.contains(PLANTED_PANIC) => {
            campaign.forget()?;
            Ok(outcome.took)
        }
        Some(failure) => bail!("{failure}"),
        None => bail!(
            "the planted bug was not found in {} s: the instrumentation does not guide",
            PLANTED_LIMIT.as_secs()
        ),
    }
}

/// Runs as many at a time as there are processors, so that all of them take `total`.
fn run_all(campaigns: Vec<Campaign>, total: Duration) -> anyhow::Result<Vec<(String, Outcome)>> {
    let lanes = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(campaigns.len())
        .max(1);
    let rounds = campaigns.len().div_ceil(lanes).max(1);
    let each = total / u32::try_from(rounds).unwrap_or(u32::MAX);
    let is_root = is_root();
    let waiting = Mutex::new(VecDeque::from(campaigns));
    let next = || waiting.lock().pop_front();
    let lane = || {
        let mut outcomes = Vec::new();
        while let Some(campaign) = next() {
            let outcome = campaign.run(each, is_root)?;
            outcomes.push((campaign.name().to_owned(), outcome));
        }
        anyhow::Ok(outcomes)
    };
    let mut outcomes = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        let finished = threads
            .into_iter()
            .map(|thread| thread.join().expect("a lane does not panic"));
        finished.collect::<anyhow::Result<Vec<_>>>()
    })?
    .concat();
    outcomes.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(outcomes)
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_has_seeds_and_the_planted_bug_has_none() {
        let root = crate::workspace_root();
        let source = std::fs::read_to_string(root.join("fuzz/src/targets.rs")).unwrap();
        let mut known: Vec<&str> = source
            .lines()
            .filter_map(|line| line.trim().strip_prefix("(\"")?.split_once('"'))
            .map(|(name, _)| name)
            .filter(|name| *name != PLANTED)
            .collect();
        known.sort_unstable();
        assert!(!known.is_empty());
        assert_eq!(targets(&root).unwrap(), known);
    }

    #[test]
    fn an_unknown_target_is_refused_with_the_known_ones() {
        let names = vec!["dns".to_owned(), "path".to_owned()];
        let error = chosen(names.clone(), Some("paths")).unwrap_err();
        assert_eq!(error.to_string(), "no target `paths`; there are dns, path");
        assert_eq!(chosen(names, Some("path")).unwrap(), ["path"]);
    }
}
