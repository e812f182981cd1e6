//! Errors of commands, with hints for the user.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use skep_client::{Cause, ClientError, Origin};
use skep_telemetry::Chain;

use crate::print_note;

/// Party that can do something about an error, as an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// The input was wrong: exit code 1.
    Input,
    /// We failed: exit code 2.
    Failure,
}

/// A file of this host could not be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} `{}`", path.display())]
pub(crate) struct FileError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

impl FileError {
    /// Conversion for `map_err`: the operation, and the file it was done to.
    pub(crate) fn on(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CliError {
        let path = path.to_owned();
        move |source| CliError {
            kind: ExitKind::Input,
            ..CliError::failure(Self {
                doing,
                path,
                source,
            })
        }
    }
}

/// An error with hints on what to do about it.
#[derive(Debug)]
pub struct CliError {
    /// Party that can do something about it.
    pub kind: ExitKind,
    /// The error itself, with its chain of causes.
    pub source: Box<dyn std::error::Error + Send + Sync>,
    /// Remedies for the user, one sentence each.
    pub hints: Vec<String>,
}

impl CliError {
    /// An error of the caller's making.
    pub fn input(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            kind: ExitKind::Input,
            source: message.into().into(),
            hints: vec![hint.into()],
        }
    }

    /// A failure of ours.
    pub fn failure(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self {
            kind: ExitKind::Failure,
            source: error.into(),
            hints: Vec::new(),
        }
    }

    /// Prints the error and its hints, and returns the exit code.
    pub fn report(&self) -> ExitCode {
        print_note(&format!("error: {}", Chain(self.source.as_ref())));
        for hint in &self.hints {
            print_note(&format!("hint: {hint}"));
        }
        match self.kind {
            ExitKind::Input => ExitCode::from(1),
            ExitKind::Failure => ExitCode::from(2),
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        match error.origin() {
            Origin::Server | Origin::Sandbox => of_server(error),
            Origin::Interpreter => of_interpreter(error),
        }
    }
}

fn of_server(error: ClientError) -> CliError {
    let (kind, hint) = match error.cause() {
        Cause::Address(_) => (ExitKind::Input, None),
        Cause::Unreachable { .. } => (
            ExitKind::Failure,
            Some("is the server running? `skep up` starts one; `--server` names another"),
        ),
        Cause::Refused { status: 401, .. } => (
            ExitKind::Input,
            Some("`skep up` prints a key; give it with `--api-key` or E2B_API_KEY"),
        ),
        Cause::Refused { status: 404, .. } => (
            ExitKind::Input,
            Some("`skep sandbox list --all` shows what there is and was"),
        ),
        Cause::Refused { status, .. } if *status < 500 => (ExitKind::Input, None),
        Cause::Agent { code, .. } if code == "unauthenticated" => (
            ExitKind::Input,
            Some("`--user` takes a user of the sandbox, such as root"),
        ),
        Cause::Setup(_)
        | Cause::Refused { .. }
        | Cause::Answer(_)
        | Cause::Lost(_)
        | Cause::Agent { .. } => (ExitKind::Failure, None),
    };
    CliError {
        kind,
        source: Box::new(error),
        hints: hint.into_iter().map(str::to_owned).collect(),
    }
}

fn of_interpreter(error: ClientError) -> CliError {
    const MISSING: &str = "kernel is not available";
    let sandbox = error.sandbox().unwrap_or_default();
    match error.cause() {
        Cause::Refused { message, .. } if message.contains(MISSING) => CliError::input(
            format!("the template of sandbox `{sandbox}` has no kernel for this language"),
            "`--template` names another; code-interpreter-languages has most languages",
        ),
        Cause::Unreachable { .. } => CliError::failure(error).hint("is the server still running?"),
        Cause::Lost(_) => {
            let hint = format!("`skep sandbox info {sandbox}` says what became of it");
            CliError::failure(error).hint(hint)
        }
        Cause::Address(_)
        | Cause::Setup(_)
        | Cause::Refused { .. }
        | Cause::Answer(_)
        | Cause::Agent { .. } => CliError::failure(error),
    }
}
