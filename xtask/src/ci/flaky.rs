//! Cases that fail in the crowd and pass alone.
//!
//! Thousands of cases start real kernels, databases and machines on whatever processors there are, and one that
//! had to wait too long must not cost everybody the whole run. So each failed case is run again, alone, and one that
//! passes is listed as flaky at the end, by name, where nobody overlooks it. Many failures are no accident and are
//! not run again. `--strict` runs nothing twice, for the hunt after such cases ([ADR 0023]).
//!
//! [ADR 0023]: ../../../docs/adr/0023-flaky-cases.md

use std::path::Path;
use std::process::Stdio;

use anyhow::Context as _;

use super::counts::{Counts, without_colour};

/// Failures above this number are not run again.
const MOST: usize = 5;

/// Reads what `cargo test` said of failed cases.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    targets: Vec<Target>,
    /// Cases of the target that is running.
    names: Vec<String>,
    /// True if the lines are the list of failed cases at the end of a target.
    is_in_list: bool,
    /// True if the target that is running came to its end.
    is_summed_up: bool,
    /// True if something failed that has no name: a target that crashed, did not compile, or is documentation.
    is_nameless: bool,
}

/// Failed cases of one test executable.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// Arguments of cargo that run it: `-p skep --test chaos`.
    selection: Vec<String>,
    names: Vec<String>,
}

impl Failures {
    /// Takes one line of the output.
    pub(crate) fn read(&mut self, line: &str) {
        let line = without_colour(line);
        if line == "failures:" {
            self.is_in_list = true;
        } else if let Some(name) = line.strip_prefix("    ").filter(|_| self.is_in_list) {
            // The verdict itself may stand below what a case has printed. Messages of failed cases
            // come before the list, and may be indented as well.
            let is_name = name
                .chars()
                .all(|letter| letter == ':' || letter == '_' || letter.is_alphanumeric());
            if is_name && !self.names.iter().any(|known| known == name) {
                self.names.push(name.to_owned());
            }
        } else if line.starts_with("test result: ") {
            self.is_in_list = false;
            self.is_summed_up = true;
        } else if line.trim_start().starts_with("Running ") {
            self.is_summed_up = false;
        } else if let Some(selection) = between(&line, "error: test failed, to rerun pass `", "`") {
            let names = std::mem::take(&mut self.names);
            self.is_nameless |= names.is_empty() || !self.is_summed_up;
            self.targets.push(Target {
                selection: selection.split(' ').map(str::to_owned).collect(),
                names,
            });
        } else if line.starts_with("error: doctest failed") || line.starts_with("error: could not")
        {
            self.is_nameless = true;
        }
    }

    /// Runs the failed cases again, alone, and returns those that pass if all of them do.
    pub(crate) fn run_again(&self, root: &Path) -> anyhow::Result<Option<Vec<String>>> {
        if !self.can_be_accidents() {
            return Ok(None);
        }
        let mut flaky = Vec::new();
        for target in &self.targets {
            let selection = target.selection.join(" ");
            for name in &target.names {
                if !target.passes(root, name)? {
                    return Ok(None);
                }
                flaky.push(format!("{name} ({selection})"));
            }
        }
        Ok(Some(flaky))
    }

    fn can_be_accidents(&self) -> bool {
        let count: usize = self.targets.iter().map(|target| target.names.len()).sum();
        !self.is_nameless && (1..=MOST).contains(&count)
    }
}

impl Target {
    #[expect(clippy::print_stdout, reason = "the report is this command's output")]
    fn passes(&self, root: &Path, name: &str) -> anyhow::Result<bool> {
        println!("\n── again, alone: {name} ──");
        let output = super::with_root_tests(super::cargo(&["test", "--locked", "--workspace"]))
            .args(self.kind())
            .args(["--", "--exact", "--test-threads", "1", name])
            .current_dir(root)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("cannot run failed tests again")?;
        let text = String::from_utf8_lossy(&output.stdout);
        println!("{text}");
        let counts: Counts = text.lines().map(Counts::in_line).sum();
        // A name that fits no test would pass by being left out.
        Ok(output.status.success() && counts.all_passed(1))
    }

    /// The selection without the package: for one package alone, everything would be compiled with other features.
    fn kind(&self) -> impl Iterator<Item = &String> {
        let is_package = |index: usize| self.selection[index] == "-p";
        let numbered = self.selection.iter().enumerate();
        numbered
            .filter(move |&(index, _)| {
                !is_package(index) && !index.checked_sub(1).is_some_and(is_package)
            })
            .map(|(_, word)| word)
    }
}

fn between<'a>(line: &'a str, before: &str, after: &str) -> Option<&'a str> {
    line.strip_prefix(before)?.strip_suffix(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[&str]) -> Failures {
        let mut failures = Failures::default();
        lines.iter().for_each(|line| failures.read(line));
        failures
    }

    const SUMMARY: &str = "test result: FAILED. 3 passed; 1 failed; 0 ignored";
    const RERUN: &str = "error: test failed, to rerun pass `-p skep --test chaos`";

    #[test]
    fn failed_cases_are_known_by_target_and_name() {
        let failures = read(&[
            "     Running tests/chaos/main.rs (target/debug/deps/chaos-1)",
            "test repl::a_prompt_remembers      ... report of the case",
            "FAILED",
            "test repl::another                 ... ok",
            "failures:",
            "",
            "---- repl::a_prompt_remembers ----",
            "    expected that",
            "",
            "failures:",
            "    repl::a_prompt_remembers",
            "",
            SUMMARY,
            RERUN,
        ]);
        assert_eq!(
            failures.targets,
            [Target {
                selection: vec![
                    "-p".to_owned(),
                    "skep".to_owned(),
                    "--test".to_owned(),
                    "chaos".to_owned()
                ],
                names: vec!["repl::a_prompt_remembers".to_owned()],
            }]
        );
        assert!(failures.can_be_accidents());
        let kind: Vec<_> = failures.targets[0].kind().collect();
        assert_eq!(kind, ["--test", "chaos"]);
    }

    #[test]
    fn a_crash_a_compile_error_and_many_failures_are_no_accidents() {
        let running = "     Running unittests src/lib.rs (target/debug/deps/skep-1)";
        let (list, failed) = ("failures:", "    repl::a_prompt_remembers");
        assert!(!read(&[running, list, failed, RERUN]).can_be_accidents());
        assert!(!read(&[running, SUMMARY, RERUN]).can_be_accidents());
        assert!(!read(&["error: could not compile `skep`"]).can_be_accidents());
        let doctest = "error: doctest failed, to rerun pass `-p skep --doc`";
        assert!(!read(&[list, failed, SUMMARY, RERUN, doctest]).can_be_accidents());
        let many: Vec<String> = (0..=MOST).map(|n| format!("    n{n}")).collect();
        let many = many.iter().map(String::as_str);
        let many = [list].into_iter().chain(many).chain([SUMMARY, RERUN]);
        assert!(!read(&many.collect::<Vec<_>>()).can_be_accidents());
        assert!(!read(&[]).can_be_accidents());
    }
}
