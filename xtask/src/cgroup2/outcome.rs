//! Results of checks, and the table of them.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

/// Result of one check in one machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) check: String,
    pub(super) verdict: Verdict,
    pub(super) took: Duration,
}

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Passed,
    /// With this exit code.
    Failed(i32),
    /// The machine ended before it.
    NotRun,
}

/// Results of one machine.
#[derive(Debug)]
pub(super) struct MachineReport {
    pub(super) machine: &'static str,
    /// Release of its kernel, if it started.
    pub(super) kernel: Option<String>,
    pub(super) outcomes: Vec<Outcome>,
}

/// Results of all machines.
#[derive(Debug, Default)]
pub(super) struct Report {
    machines: Vec<MachineReport>,
}

impl MachineReport {
    /// Returns true if the machine ended, or never started, before all checks were run.
    pub(super) fn is_cut_short(&self) -> bool {
        let mut outcomes = self.outcomes.iter();
        self.kernel.is_none() || outcomes.any(|outcome| outcome.verdict == Verdict::NotRun)
    }
}

impl Report {
    pub(super) fn add(&mut self, machine: MachineReport) {
        self.machines.push(machine);
    }

    /// Checks that passed, and those that did not.
    pub(super) fn counts(&self) -> (usize, usize) {
        let all = || self.machines.iter().flat_map(|machine| &machine.outcomes);
        let passed = all().filter(|outcome| outcome.verdict == Verdict::Passed);
        let passed = passed.count();
        (passed, all().count() - passed)
    }

    pub(super) fn as_json(&self) -> Value {
        let machines = self.machines.iter().map(|machine| {
            let checks = machine.outcomes.iter().map(|outcome| {
                json!({
                    "name": outcome.check,
                    "verdict": outcome.verdict.word(),
                    "seconds": outcome.took.as_secs(),
                })
            });
            json!({
                "machine": machine.machine,
                "kernel": machine.kernel,
                "checks": checks.collect::<Vec<_>>(),
            })
        });
        Value::Array(machines.collect())
    }
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Passed => "ok",
            Self::Failed(_) => "FAILED",
            Self::NotRun => "NOT RUN",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (check, word, seconds) = (&self.check, self.verdict.word(), self.took.as_secs());
        write!(formatter, "{check:<44} {word:<8} {seconds:>4} s")?;
        match self.verdict {
            Verdict::Failed(code) => write!(formatter, "  exit {code}"),
            Verdict::Passed | Verdict::NotRun => Ok(()),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for machine in &self.machines {
            let kernel = machine.kernel.as_deref().unwrap_or("did not start");
            for outcome in &machine.outcomes {
                writeln!(formatter, "{:<10} {kernel:<24} {outcome}", machine.machine)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_did_not_run_is_no_success() {
        let outcome = |check: &str, verdict| Outcome {
            check: check.to_owned(),
            verdict,
            took: Duration::from_secs(3),
        };
        let mut report = Report::default();
        report.add(MachineReport {
            machine: "debian-13",
            kernel: Some("6.12.0".to_owned()),
            outcomes: vec![
                outcome("doctor", Verdict::Passed),
                outcome("limits", Verdict::Failed(101)),
                outcome("unit", Verdict::NotRun),
            ],
        });
        assert_eq!(report.counts(), (1, 2));
        assert!(report.machines[0].is_cut_short());
        let table = report.to_string();
        let words: Vec<_> = table
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            words,
            [
                "debian-13 6.12.0 doctor ok 3 s",
                "debian-13 6.12.0 limits FAILED 3 s exit 101",
                "debian-13 6.12.0 unit NOT RUN 3 s",
            ]
        );
    }
}
