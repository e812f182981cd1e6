//! Exit codes for the ends of executions.

use skep_wire::interpreter::{Outcome, RaisedError};

use super::Language;

const TIMEOUT: u8 = 124;
const PLATFORM: u8 = 125;
const INTERRUPTED: u8 = 130;
const OUT_OF_MEMORY: u8 = 137;

/// The exit code for code that raised an error, and what is still to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The exit code.
    pub(crate) code: u8,
    /// True if the code left by itself with this code, so that there is no error to show.
    pub(crate) left: bool,
    /// Message of a program that leaves with one.
    pub(crate) exit_message: Option<String>,
}

impl Verdict {
    /// The exit code for an error.
    pub(crate) fn of(error: &RaisedError, language: &Language) -> Self {
        let failed = |code| Self {
            code,
            left: false,
            exit_message: None,
        };
        if let Some(status) = error.exit_status {
            return Self::left(i64::from(status));
        }
        match (error.kind, error.name.as_str(), language.name()) {
            (Some(Outcome::Interrupted), ..) => failed(INTERRUPTED),
            (Some(Outcome::Timeout), ..) => failed(TIMEOUT),
            (Some(Outcome::OutOfMemory), ..) => failed(OUT_OF_MEMORY),
            // Somebody or something else than the code took its kernel.
            (Some(Outcome::Killed), "UnexpectedEndOfExecution", _) => failed(PLATFORM),
            (_, "KernelNotStarted" | "LimitUnavailable", _) => failed(PLATFORM),
            (Some(Outcome::Killed), ..) => failed(OUT_OF_MEMORY),
            (_, "SystemExit", "python") => Self::of_system_exit(&error.value),
            (_, "", "bash") => match error.value.parse() {
                Ok(status) => Self::left(status),
                Err(_) => failed(1),
            },
            _ => failed(1),
        }
    }

    /// `sys.exit(value)`: a number is a status, nothing is success, and anything else is printed.
    fn of_system_exit(value: &str) -> Self {
        match value {
            "" | "None" | "False" => Self::left(0),
            "True" => Self::left(1),
            _ => match value.parse() {
                Ok(status) => Self::left(status),
                Err(_) => Self {
                    exit_message: Some(value.to_owned()),
                    ..Self::left(1)
                },
            },
        }
    }

    fn left(status: i64) -> Self {
        Self {
            // A process has eight bits for it.
            code: status.to_le_bytes()[0],
            left: true,
            exit_message: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(language: &str, name: &str, value: &str, kind: Outcome) -> Verdict {
        let error = RaisedError {
            name: name.to_owned(),
            value: value.to_owned(),
            traceback: String::new(),
            kind: Some(kind),
            exit_status: None,
        };
        Verdict::of(&error, &Language::named(language))
    }

    #[track_caller]
    fn check_left(verdict: &Verdict, code: u8) {
        assert!(
            verdict.left && verdict.exit_message.is_none(),
            "{verdict:?}"
        );
        assert_eq!(verdict.code, code);
    }

    #[test]
    fn an_error_in_the_code_is_one_and_every_end_of_the_platform_its_own() {
        for (name, kind, code) in [
            ("ValueError", Outcome::Runtime, 1),
            ("SyntaxError", Outcome::Syntax, 1),
            ("OSError", Outcome::DiskFull, 1),
            ("KeyboardInterrupt", Outcome::Interrupted, 130),
            ("ExecutionTimeout", Outcome::Timeout, 124),
            ("OutOfMemory", Outcome::OutOfMemory, 137),
            ("ContextRestarting", Outcome::Killed, 137),
            ("ContextRestarting", Outcome::KernelDied, 1),
            ("UnexpectedEndOfExecution", Outcome::Killed, 125),
            ("KernelNotStarted", Outcome::KernelDied, 125),
        ] {
            let verdict = verdict("python", name, "", kind);
            assert_eq!((verdict.code, verdict.left), (code, false), "{name} {kind}");
        }
    }

    #[test]
    fn code_that_leaves_has_the_code_it_left_with() {
        check_left(&verdict("python", "SystemExit", "3", Outcome::Runtime), 3);
        check_left(&verdict("python", "SystemExit", "", Outcome::Runtime), 0);
        check_left(
            &verdict("python", "SystemExit", "None", Outcome::Runtime),
            0,
        );
        check_left(
            &verdict("python", "SystemExit", "-1", Outcome::Runtime),
            255,
        );
        check_left(&verdict("bash", "", "7", Outcome::Runtime), 7);
        let words = verdict("python", "SystemExit", "no such file", Outcome::Runtime);
        assert_eq!((words.code, words.left), (1, true));
        assert_eq!(words.exit_message.as_deref(), Some("no such file"));
    }

    #[test]
    fn code_that_ends_its_kernel_has_the_status_of_that() {
        let error = RaisedError {
            name: "ContextRestarting".to_owned(),
            value: String::new(),
            traceback: String::new(),
            kind: Some(Outcome::KernelDied),
            exit_status: Some(4),
        };
        check_left(&Verdict::of(&error, &Language::named("js")), 4);
    }
}
