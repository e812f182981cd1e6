//! Counts of passed tests, read from the output of test programs.

use std::fmt;
use std::iter::Sum;
use std::ops::AddAssign;

/// Tests that passed and tests that did not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    passed: u64,
    failed: u64,
}

impl Counts {
    /// Counts in one line of output: the summary of a Rust test program, of pytest or of node.
    pub(crate) fn in_line(line: &str) -> Self {
        let plain = without_colour(line);
        let words: Vec<&str> = plain
            .split(|letter: char| letter.is_whitespace() || ",;=".contains(letter))
            .filter(|word| !word.is_empty())
            .collect();
        match words.as_slice() {
            ["test", "result:", ..] => Self::before(&words, "passed", &["failed"]),
            // node: `ℹ pass 3`, or `# pass 3` where the output is no terminal.
            ["ℹ" | "#", "pass", count] => Self {
                passed: number(count),
                failed: 0,
            },
            ["ℹ" | "#", "fail", count] => Self {
                passed: 0,
                failed: number(count),
            },
            // pytest: `2 failed, 3 passed, 1 skipped in 0.12s` between rows of `=`.
            [.., "in", time] | [.., "in", time, _] if is_duration(time) => {
                Self::before(&words, "passed", &["failed", "error", "errors"])
            }
            // The SDK suites: `40 passed, 0 failed in 61 s`.
            [.., "in", time, "s"] if time.parse::<f64>().is_ok() => {
                Self::before(&words, "passed", &["failed"])
            }
            _ => Self::default(),
        }
    }

    /// These counts, or the verdict alone where nothing was counted. A failure that no test
    /// accounts for is counted, so that the sum never looks clean when it is not.
    pub(crate) fn or_verdict(self, succeeded: bool) -> Self {
        match (succeeded, self.failed) {
            (true, _) if self == Self::default() => Self {
                passed: 1,
                failed: 0,
            },
            (false, 0) => Self { failed: 1, ..self },
            (true | false, _) => self,
        }
    }

    /// Returns true if at least `count` cases were run and all of them passed.
    pub(crate) fn all_passed(self, count: usize) -> bool {
        self.failed == 0 && usize::try_from(self.passed).is_ok_and(|passed| passed >= count)
    }

    /// These counts once cases that had failed have passed after all.
    pub(crate) fn with_flaky(self, count: usize) -> Self {
        let count = u64::try_from(count).unwrap_or(u64::MAX).min(self.failed);
        Self {
            passed: self.passed + count,
            failed: self.failed - count,
        }
    }

    fn before(words: &[&str], good: &str, bad: &[&str]) -> Self {
        let mut counts = Self::default();
        for pair in words.windows(2) {
            if pair[1] == good {
                counts.passed += number(pair[0]);
            } else if bad.contains(&pair[1]) {
                counts.failed += number(pair[0]);
            }
        }
        counts
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(counts: I) -> Self {
        counts.fold(Self::default(), |mut sum, next| {
            sum += next;
            sum
        })
    }
}

/// `0.12s`, as pytest ends its summary; a minute and more has `(0:01:02)` behind it.
fn is_duration(word: &str) -> bool {
    word.strip_suffix('s')
        .is_some_and(|seconds| seconds.parse::<f64>().is_ok())
}

fn number(word: &str) -> u64 {
    word.parse().unwrap_or(0)
}

/// `line` without terminal colours.
pub(super) fn without_colour(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        if letter == '\u{1b}' {
            letters.by_ref().find(|letter| letter.is_ascii_alphabetic());
        } else {
            plain.push(letter);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, passed: u64, failed: u64) {
        assert_eq!(Counts::in_line(line), Counts { passed, failed }, "{line}");
    }

    #[test]
    fn the_summary_of_each_test_program_is_read() {
        check(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s",
            12,
            0,
        );
        check(
            "test result: \u{1b}[31mFAILED\u{1b}[0m. 1 passed; 2 failed; 0 ignored",
            1,
            2,
        );
        check("===== 2 failed, 3 passed, 1 skipped in 0.12s =====", 3, 2);
        check(
            "\u{1b}[32m=== \u{1b}[1m5 passed\u{1b}[0m in 1.50s ===\u{1b}[0m",
            5,
            0,
        );
        check("1 passed, 1 error in 2.00s", 1, 1);
        check("7 passed, 2 failed in 61 s", 7, 2);
        check("# pass 4", 4, 0);
        check("ℹ fail 1", 0, 1);
    }

    #[test]
    fn a_long_run_of_pytest_is_read_too() {
        check("=== 40 passed in 62.10s (0:01:02) ===", 40, 0);
    }

    #[test]
    fn other_lines_count_nothing() {
        check("test it::a_killed_sandbox_is_gone ... ok", 0, 0);
        check("3 passed the door", 0, 0);
        check("", 0, 0);
    }
}
