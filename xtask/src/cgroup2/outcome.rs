//! Results of checks, and the table of them.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::checks::Check;

/// Failures above this number are no accidents and are not tried again.
const MOST: usize = 2;

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
    /// Returns true if its kernel has said so.
    pub(super) fn has_started(&self) -> bool {
        self.kernel.is_some()
    }

    /// Returns true if the machine ended, or never started, before all checks were run.
    pub(super) fn is_cut_short(&self) -> bool {
        let mut outcomes = self.outcomes.iter();
        !self.has_started() || outcomes.any(|outcome| outcome.verdict == Verdict::NotRun)
    }
}

impl MachineReport {
    /// The checks that failed in a machine that ran to its end, if they are few: an emulated
    /// machine is slow, and one case that had to wait must not cost everybody the whole run (docs/adr/0023-flaky-cases.md).
    pub(super) fn worth_another_try(&self, checks: &[Check]) -> Vec<Check> {
        let has_failed = |check: &&Check| {
            let mut outcomes = self.outcomes.iter();
            outcomes
                .any(|outcome| outcome.check == check.name && outcome.verdict != Verdict::Passed)
        };
        let failed: Vec<_> = checks.iter().filter(has_failed).cloned().collect();
        let can_be_accidents = !self.is_cut_short()
            && failed.len() <= MOST
            && !failed.iter().any(|check| check.restarts);
        if can_be_accidents { failed } else { Vec::new() }
    }

    /// Takes over what has passed in a second run, and answers which that is.
    pub(super) fn take_over(&mut self, second: &Self) -> Vec<String> {
        let has_passed = |name: &str| {
            let mut outcomes = second.outcomes.iter();
            outcomes.any(|outcome| outcome.check == name && outcome.verdict == Verdict::Passed)
        };
        let failed = self.outcomes.iter_mut();
        failed
            .filter(|outcome| outcome.verdict != Verdict::Passed && has_passed(&outcome.check))
            .map(|outcome| {
                outcome.verdict = Verdict::Passed;
                outcome.check.clone()
            })
            .collect()
    }
}

impl Report {
    pub(super) fn add(&mut self, machine: MachineReport) {
        self.machines.push(machine);
    }

    /// Checks that passed, and those that did not.
    pub(super) fn counts(&self) -> (usize, usize) {
        let all = || self.machines.iter().flat_map(|machine| &machine.outcomes);
        let passed = all()
            .filter(|outcome| outcome.verdict == Verdict::Passed)
            .count();
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

    fn check(name: &str) -> Check {
        Check {
            name: name.to_owned(),
            test: None,
            command: String::new(),
            limit: Duration::from_secs(1),
            restarts: false,
        }
    }

    fn machine(outcomes: &[(&str, Verdict)]) -> MachineReport {
        let outcome = |&(check, verdict): &(&str, Verdict)| Outcome {
            check: check.to_owned(),
            verdict,
            took: Duration::from_secs(3),
        };
        MachineReport {
            machine: "debian-13",
            kernel: Some("6.12.0".to_owned()),
            outcomes: outcomes.iter().map(outcome).collect(),
        }
    }

    #[test]
    fn few_failures_are_tried_again_and_a_machine_that_ended_is_not() {
        use Verdict::{Failed, NotRun, Passed};
        let checks = ["a", "b", "c"].map(check);
        let mut one = machine(&[("a", Passed), ("b", Failed(1)), ("c", Passed)]);
        let again: Vec<_> = one
            .worth_another_try(&checks)
            .into_iter()
            .map(|check| check.name)
            .collect();
        assert_eq!(again, ["b"]);
        assert!(one.take_over(&machine(&[("b", Failed(1))])).is_empty());
        assert_eq!(one.take_over(&machine(&[("b", Passed)])), ["b"]);
        assert!(one.worth_another_try(&checks).is_empty());
        let ended = machine(&[("a", Failed(1)), ("b", NotRun), ("c", NotRun)]);
        assert!(ended.worth_another_try(&checks).is_empty());
        let many = machine(&[("a", Failed(1)), ("b", Failed(1)), ("c", Failed(1))]);
        assert!(many.worth_another_try(&checks).is_empty());
    }

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
