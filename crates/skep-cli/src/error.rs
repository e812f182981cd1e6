//! Errors of commands, with hints for the user.

use std::io;
use std::path::{Path, PathBuf};

use skep_client::{ClientError, InterpreterError};

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

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        let (kind, hint) = match &error {
            ClientError::Address(_) => (ExitKind::Input, None),
            ClientError::Unreachable { .. } => (
                ExitKind::Failure,
                Some("is the server running? `skep up` starts one; `--server` names another"),
            ),
            ClientError::Refused { status: 401, .. } => (
                ExitKind::Input,
                Some("`skep up` prints a key; give it with `--api-key` or E2B_API_KEY"),
            ),
            ClientError::Refused { status: 404, .. } => (
                ExitKind::Input,
                Some("`skep sandbox list --all` shows what there is and was"),
            ),
            ClientError::Refused { status, .. } if *status < 500 => (ExitKind::Input, None),
            ClientError::Agent { code, .. } if code == "unauthenticated" => (
                ExitKind::Input,
                Some("`--user` takes a user of the sandbox, such as root"),
            ),
            ClientError::Setup(_)
            | ClientError::Refused { .. }
            | ClientError::Answer { .. }
            | ClientError::Lost(_)
            | ClientError::Agent { .. } => (ExitKind::Failure, None),
        };
        let hints = hint.into_iter().map(str::to_owned).collect();
        Self {
            kind,
            source: Box::new(error),
            hints,
        }
    }
}

impl From<InterpreterError> for CliError {
    fn from(error: InterpreterError) -> Self {
        const MISSING: &str = "kernel is not available";
        match &error {
            InterpreterError::Call {
                source, sandbox, ..
            } => match &**source {
                ClientError::Refused { message, .. } if message.contains(MISSING) => Self::input(
                    format!("the template of sandbox `{sandbox}` has no kernel for this language"),
                    "`--template` names another; code-interpreter-languages has most languages",
                ),
                ClientError::Unreachable { .. } => {
                    Self::failure(error).hint("is the server still running?")
                }
                ClientError::Address(_)
                | ClientError::Setup(_)
                | ClientError::Refused { .. }
                | ClientError::Answer { .. }
                | ClientError::Lost(_)
                | ClientError::Agent { .. } => Self::failure(error),
            },
            InterpreterError::Lost { sandbox, .. } => {
                let hint = format!("`skep sandbox info {sandbox}` says what became of it");
                Self::failure(error).hint(hint)
            }
            InterpreterError::Line { .. } => Self::failure(error),
        }
    }
}
