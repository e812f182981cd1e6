//! One target, run by libFuzzer.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};

use super::corpus::Corpus;

/// An input that takes longer hangs. Machines are sometimes busy.
const TIMEOUT: Duration = Duration::from_secs(25);

/// Number of lines of libFuzzer's log that are shown when something was found.
const SHOWN_LINES: usize = 60;

/// A target and its directories.
#[derive(Debug)]
pub(crate) struct Campaign {
    name: String,
    program: PathBuf,
    /// Inputs written by people, each with a name that says what it is.
    seeds: PathBuf,
    /// Inputs found beyond these, for everybody.
    corpus: Corpus,
    /// Inputs found on this host.
    found: PathBuf,
    crashes: PathBuf,
    /// libFuzzer's own: 0 takes one from the clock.
    seed: u32,
}

/// Result of a run.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) took: Duration,
    tries: u64,
    edges: u64,
    new: u64,
    /// Description of the failure, and the command to see it again.
    pub(crate) failure: Option<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.failure.is_none() {
            "ok"
        } else {
            "FAILED"
        };
        write!(
            formatter,
            "{verdict:<6} {:5.1} s  {:>8} tries, {:>5} edges, {:>3} new",
            self.took.as_secs_f32(),
            self.tries,
            self.edges,
            self.new
        )?;
        match &self.failure {
            Some(failure) => write!(formatter, "\n{failure}"),
            None => Ok(()),
        }
    }
}

impl Campaign {
    pub(crate) fn new(root: &Path, program: &Path, name: &str) -> Self {
        let directory = root.join("target/fuzz");
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            seeds: root.join("fuzz/seeds").join(name),
            corpus: Corpus::new(
                root.join("fuzz/corpus").join(format!("{name}.tar.gz")),
                directory.join("corpus").join(name),
            ),
            found: directory.join("found").join(name),
            crashes: directory.join("crashes").join(name),
            seed: 0,
        }
    }

    pub(crate) fn seeded(mut self, seed: u32) -> Self {
        self.seed = seed;
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Tries the corpus, and then whatever comes of it, for as long as it is given.
    pub(crate) fn run(&self, duration: Duration, is_root: bool) -> anyhow::Result<Outcome> {
        let start = Instant::now();
        for directory in [&self.found, &self.crashes] {
            make(directory)?;
        }
        let corpus = self.corpus.unpack()?;
        let mut command = self.command(is_root);
        command
            .arg(format!("-max_total_time={}", duration.as_secs().max(1)))
            .arg(format!("-timeout={}", TIMEOUT.as_secs()))
            .arg(format!("-seed={}", self.seed))
            .args(["-rss_limit_mb=2048", "-print_final_stats=1"])
            .arg(format!("-artifact_prefix={}/", self.crashes.display()))
            .args([self.found.as_path(), corpus])
            // The planted target has none.
            .args(self.seeds.is_dir().then_some(&self.seeds));
        let output = command
            .output()
            .with_context(|| format!("cannot start `{}`", self.program.display()))?;
        let log = String::from_utf8_lossy(&output.stderr);
        let failure = (!output.status.success()).then(|| self.failure(&log));
        Ok(Outcome {
            took: start.elapsed(),
            tries: statistic(&log, "number_of_executed_units"),
            edges: edges(&log),
            new: statistic(&log, "new_units_added"),
            failure,
        })
    }

    /// Makes the corpus anew: of what was found here and before, as few as reach all of it.
    pub(crate) fn minimise(&self, is_root: bool) -> anyhow::Result<String> {
        let merged = self.found.with_extension("merged");
        remove(&merged)?;
        for directory in [&self.found, &merged] {
            make(directory)?;
        }
        let corpus = self.corpus.unpack()?;
        // libFuzzer leaves out what the first directory reaches already.
        let seeds = copy_files(&self.seeds, &merged)?;
        let output = self
            .command(is_root)
            .args(["-set_cover_merge=1", "-use_counters=0"])
            .args([merged.as_path(), corpus, &self.found])
            .output()
            .with_context(|| format!("cannot start `{}`", self.program.display()))?;
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", self.failure(&log));
        for seed in seeds {
            let copy = merged.join(&seed);
            std::fs::remove_file(&copy)
                .with_context(|| format!("cannot remove `{}`", copy.display()))?;
        }
        let (before, after) = (count(corpus)?, count(&merged)?);
        self.corpus.pack(&merged)?;
        Ok(format!("{before} inputs before, {after} now"))
    }

    /// Removes the crashes, of a target that is meant to crash.
    pub(crate) fn forget(&self) -> anyhow::Result<()> {
        remove(&self.crashes)?;
        remove(&self.found)
    }

    fn command(&self, is_root: bool) -> Command {
        let mut command = if is_root {
            Command::new(&self.program)
        } else {
            // The agent's targets make a filesystem of their own, which root may.
            let mut command = Command::new("sudo");
            command.arg(&self.program);
            command
        };
        command.arg(format!("--target={}", self.name));
        command
    }

    fn failure(&self, log: &str) -> String {
        let lines: Vec<&str> = log.lines().collect();
        let panic = lines.iter().position(|line| line.contains("panicked at"));
        let start = panic.unwrap_or(lines.len().saturating_sub(SHOWN_LINES));
        let shown = &lines[start..lines.len().min(start + SHOWN_LINES)];
        format!(
            "{}\nto see it again: {} --target={} <the file named above>",
            shown.join("\n"),
            self.program.display(),
            self.name
        )
    }
}

/// The value of a line such as `stat::number_of_executed_units: 12345`.
fn statistic(log: &str, name: &str) -> u64 {
    let line = log.lines().rev().find_map(|line| {
        let rest = line.strip_prefix("stat::")?.strip_prefix(name)?;
        rest.strip_prefix(':')
    });
    line.and_then(|value| value.trim().parse().ok())
        .unwrap_or(0)
}

/// `#1024 pulse  cov: 123 ft: 456 corp: …`
fn edges(log: &str) -> u64 {
    let last = log.lines().rev().find_map(|line| {
        let (_, rest) = line.split_once(" cov: ")?;
        rest.split(' ').next()?.parse().ok()
    });
    last.unwrap_or(0)
}

pub(super) fn make(directory: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make `{}`", directory.display()))
}

pub(super) fn remove(directory: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove `{}`", directory.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Copies the files of a directory; answers their names.
fn copy_files(from: &Path, to: &Path) -> anyhow::Result<Vec<OsString>> {
    let copied = || -> std::io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(from)? {
            let name = entry?.file_name();
            std::fs::copy(from.join(&name), to.join(&name))?;
            names.push(name);
        }
        Ok(names)
    };
    copied().with_context(|| format!("cannot copy `{}`", from.display()))
}

fn count(directory: &Path) -> anyhow::Result<usize> {
    let entries = std::fs::read_dir(directory)
        .with_context(|| format!("cannot list `{}`", directory.display()))?;
    Ok(entries.count())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "INFO: Seed: 1\n#2\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                       #90\tNEW    cov: 25 ft: 41 corp: 9/1Kb lim: 4 exec/s: 0 rss: 31Mb L: 2/2\n\
                       stat::number_of_executed_units: 4242\nstat::new_units_added:          8\n";

    #[test]
    fn what_libfuzzer_counted_is_read() {
        assert_eq!(statistic(LOG, "number_of_executed_units"), 4242);
        assert_eq!(statistic(LOG, "new_units_added"), 8);
        assert_eq!(edges(LOG), 25);
        assert_eq!((statistic("", "new_units_added"), edges("")), (0, 0));
    }

    #[test]
    fn a_failure_starts_at_the_panic() {
        let campaign = Campaign::new(Path::new("."), Path::new("skep-fuzz"), "dns");
        let log = format!("{LOG}thread 'main' panicked at src/a.rs:1:2:\nbad\n");
        let shown = campaign.failure(&log);
        assert!(shown.starts_with("thread 'main' panicked"), "{shown}");
        assert!(shown.ends_with("--target=dns <the file named above>"));
    }

    #[test]
    fn a_program_that_fails_is_a_failure() {
        let directory = std::env::temp_dir().join(format!("skep-xtask-{}", std::process::id()));
        let campaign = Campaign::new(&directory, Path::new("/bin/false"), "dns");
        let outcome = campaign.run(Duration::from_secs(1), true).unwrap();
        remove(&directory).unwrap();
        assert!(outcome.failure.is_some());
    }
}
