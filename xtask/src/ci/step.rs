//! One command, its output passed on as it comes, and how it ended.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::counts::Counts;
use super::flaky::Failures;

/// A command with a name.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) is_quick: bool,
    /// True if it is `cargo test`, whose failed cases can be run again one by one.
    has_cases: bool,
    command: Command,
}

/// Result of a step.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) succeeded: bool,
    pub(crate) counts: Counts,
    /// Cases that failed, and passed when they were run again alone.
    pub(crate) flaky: Vec<String>,
    took: Duration,
}

impl Outcome {
    /// The outcome of `name` on one line.
    pub(crate) fn line(&self, name: &str) -> String {
        let verdict = if self.succeeded { "ok" } else { "FAILED" };
        let seconds = self.took.as_secs_f32();
        format!("{name:<12} {verdict:<6} {seconds:7.1} s  {}", self.counts)
    }
}

impl Step {
    pub(crate) fn new(name: &'static str, command: Command) -> Self {
        Self {
            name,
            is_quick: false,
            has_cases: false,
            command,
        }
    }

    /// Marks `cargo test`.
    pub(crate) fn with_cases(self) -> Self {
        Self {
            has_cases: true,
            ..self
        }
    }

    /// Marks a step that answers in seconds.
    pub(crate) fn quick(self) -> Self {
        Self {
            is_quick: true,
            ..self
        }
    }

    /// Runs the command in `root` and passes its output on to `console`.
    ///
    /// A command that succeeds without counting anything counts as one; one that fails without
    /// saying what failed counts as one failure. Unless the run is strict, failed cases are run again.
    pub(crate) fn run(
        &mut self,
        root: &Path,
        console: &mut impl Write,
        is_strict: bool,
    ) -> anyhow::Result<Outcome> {
        let start = Instant::now();
        let mut failures = Failures::default();
        let mut counts = Counts::default();
        let succeeded = self.pass_on(root, |line| {
            let text = String::from_utf8_lossy(line);
            counts += Counts::in_line(&text);
            failures.read(&text);
            console
                .write_all(line)
                .and_then(|()| console.write_all(b"\n"))
        })?;
        let can_be_flaky = self.has_cases && !succeeded && !is_strict;
        let flaky = if can_be_flaky {
            failures.run_again(root)?
        } else {
            None
        };
        let succeeded = succeeded || flaky.is_some();
        let flaky = flaky.unwrap_or_default();
        Ok(Outcome {
            succeeded,
            counts: counts.with_flaky(flaky.len()).or_verdict(succeeded),
            flaky,
            took: start.elapsed(),
        })
    }

    /// Runs the command, gives each line of its output to `take`, and returns true if it succeeded.
    fn pass_on(
        &mut self,
        root: &Path,
        mut take: impl FnMut(&[u8]) -> std::io::Result<()>,
    ) -> anyhow::Result<bool> {
        let name = self.name;
        let (output, writer) = std::io::pipe().context("cannot make a pipe")?;
        self.command.current_dir(root).stdin(Stdio::null());
        if self.has_cases {
            // Cargo's own words, which name the targets, stand between those of the tests.
            let second = writer.try_clone().context("cannot share a pipe")?;
            self.command.stderr(second);
        }
        let mut child = self
            .command
            .stdout(writer)
            .spawn()
            .with_context(|| format!("cannot start the step `{name}`"))?;
        // The command keeps its ends of the pipe, which would never be closed.
        self.command.stdout(Stdio::null()).stderr(Stdio::null());
        for line in BufReader::new(output).split(b'\n') {
            let line = line.with_context(|| format!("cannot read the output of `{name}`"))?;
            take(&line).context("cannot write the output")?;
        }
        let status = child
            .wait()
            .with_context(|| format!("cannot wait for `{name}`"))?;
        Ok(status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> (bool, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let outcome = Step::new("shell", command)
            .run(Path::new("."), &mut Vec::new(), false)
            .unwrap();
        (outcome.succeeded, outcome.counts.to_string())
    }

    #[test]
    fn a_step_reports_what_its_command_counted() {
        let result = "echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured'";
        assert_eq!(run(result), (true, "3 passed, 0 failed".to_owned()));
    }

    #[test]
    fn a_step_that_counts_nothing_is_one() {
        assert_eq!(run("true"), (true, "1 passed, 0 failed".to_owned()));
        assert_eq!(run("false"), (false, "0 passed, 1 failed".to_owned()));
    }

    #[test]
    fn a_command_that_fails_after_passing_tests_is_a_failure() {
        let script = "echo '==== 2 passed in 0.1s ===='; exit 3";
        assert_eq!(run(script), (false, "2 passed, 1 failed".to_owned()));
    }
}
