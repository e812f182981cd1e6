//! One command, its output passed on as it comes, and how it ended.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;

use super::counts::Counts;

/// A command with a name.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) is_quick: bool,
    command: Command,
}

/// Result of a step.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) succeeded: bool,
    pub(crate) counts: Counts,
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
            command,
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
    /// saying what failed counts as one failure.
    pub(crate) fn run(&mut self, root: &Path, console: &mut impl Write) -> anyhow::Result<Outcome> {
        let start = Instant::now();
        let mut child = self
            .command
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start the step `{}`", self.name))?;
        let output = child.stdout.take().expect("it was asked to be piped");
        let mut counts = Counts::default();
        for line in BufReader::new(output).split(b'\n') {
            let mut line =
                line.with_context(|| format!("cannot read the output of `{}`", self.name))?;
            counts += Counts::in_line(&String::from_utf8_lossy(&line));
            line.push(b'\n');
            console
                .write_all(&line)
                .context("cannot write the output")?;
        }
        let status = child
            .wait()
            .with_context(|| format!("cannot wait for `{}`", self.name))?;
        Ok(Outcome {
            succeeded: status.success(),
            counts: counts.or_verdict(status.success()),
            took: start.elapsed(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> (bool, String) {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let outcome = Step::new("shell", command)
            .run(Path::new("."), &mut Vec::new())
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
