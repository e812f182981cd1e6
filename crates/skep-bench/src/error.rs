//! Why something could not be measured, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use skep_client::ClientError;

/// Why something could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The server did not do what was asked.
    #[error("cannot {doing}")]
    Call {
        /// What was asked for.
        doing: &'static str,
        /// What came instead.
        source: ClientError,
    },
    /// The body of an answer broke off.
    #[error("answer broke off while the bench was to {doing}")]
    Body {
        /// What was asked for.
        doing: &'static str,
        /// What happened.
        source: reqwest::Error,
    },
    /// A command in a sandbox ended badly.
    #[error("command `{command}` ended with {status}")]
    Command {
        /// The command.
        command: String,
        /// How it ended, in words.
        status: String,
    },
    /// Code in a sandbox raised something.
    #[error("code raised {name}: {value}")]
    Code {
        /// The class of the exception.
        name: String,
        /// Its text.
        value: String,
    },
    /// An answer came and is not what it should be.
    #[error("answer to {what} is not as expected: {found}")]
    Unexpected {
        /// What was asked for.
        what: &'static str,
        /// What is wrong with the answer.
        found: String,
    },
    /// Some of many failed.
    #[error("{failed} of {all} sandboxes failed")]
    Some {
        /// So many.
        failed: usize,
        /// Of so many.
        all: usize,
        /// The first failure.
        source: Box<BenchError>,
    },
    /// The bench's own server does not come up.
    #[error("the bench's own server did not start")]
    Server {
        /// The last it said.
        last_words: String,
        /// What happened.
        source: io::Error,
    },
    /// Something took longer than it may.
    #[error("{what} took longer than {} s", .limit.as_secs())]
    Late {
        /// What.
        what: &'static str,
        /// How long it may take.
        limit: Duration,
    },
    /// A file or a program on this machine.
    #[error("cannot {operation} `{}`", .path.display())]
    Local {
        /// What was to be done.
        operation: &'static str,
        /// To what.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// A rival or a floor did not run.
    #[error("the comparison with {rival} failed: {reason}")]
    Rival {
        /// Who.
        rival: &'static str,
        /// The last it said.
        reason: String,
    },
    /// This part looks at the server's processes.
    #[error("`skep bench {0}` needs a server of its own")]
    NeedsOwnServer(&'static str),
    /// This part runs code.
    #[error("`skep bench {what}` needs a template with an interpreter, and `{template}` has none")]
    NeedsInterpreter {
        /// The part.
        what: &'static str,
        /// The template that was chosen.
        template: String,
    },
}

impl BenchError {
    /// Whether the caller can do something about it.
    pub fn is_input(&self) -> bool {
        match self {
            Self::NeedsOwnServer(_) | Self::NeedsInterpreter { .. } => true,
            Self::Call { source, .. } => matches!(
                source,
                ClientError::Address(_)
                    | ClientError::Refused {
                        status: 400..=499,
                        ..
                    }
            ),
            Self::Some { source, .. } => source.is_input(),
            Self::Body { .. }
            | Self::Command { .. }
            | Self::Code { .. }
            | Self::Unexpected { .. }
            | Self::Server { .. }
            | Self::Late { .. }
            | Self::Local { .. }
            | Self::Rival { .. } => false,
        }
    }

    /// What the caller can do.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Call { source, .. } => match source {
                ClientError::Unreachable { .. } => {
                    "is the server running? `--against` takes its URL; without it the bench starts one"
                }
                ClientError::Refused { status: 401, .. } => {
                    "give the server's key with `--api-key` or E2B_API_KEY"
                }
                ClientError::Refused { status: 404, .. } => {
                    "`--template` names a template of that server, such as `base`"
                }
                ClientError::Refused { status: 429, .. } => {
                    "the team's limit is reached: ask for fewer sandboxes, or raise it with `skep team limits`"
                }
                ClientError::Refused { .. }
                | ClientError::Address(_)
                | ClientError::Setup(_)
                | ClientError::Answer { .. }
                | ClientError::Lost(_)
                | ClientError::Agent { .. } => return None,
            },
            Self::Some { source, .. } => return source.hint(),
            Self::Server { last_words, .. } if !last_words.is_empty() => {
                return Some(format!("the server's last words: {last_words}"));
            }
            Self::Server { .. } => {
                "`skep doctor` says what this machine lacks; sandboxes need root"
            }
            Self::NeedsOwnServer(_) => {
                "leave `--against` out: it reads memory and processor time of processes on this machine"
            }
            Self::NeedsInterpreter { .. } => "use `--template code-interpreter-slim`",
            Self::Local { .. } => "TMPDIR names the folder that the bench works in",
            Self::Rival { .. } => {
                "rivals are installed from PyPI with python3's `venv`; on Debian the package python3-venv has it"
            }
            Self::Body { .. }
            | Self::Command { .. }
            | Self::Code { .. }
            | Self::Unexpected { .. }
            | Self::Late { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

/// For a call that failed while `doing` something.
pub(crate) fn calling(doing: &'static str) -> impl Fn(ClientError) -> BenchError {
    move |source| BenchError::Call { doing, source }
}

/// For a file or a program on this machine.
pub(crate) fn local(
    operation: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(io::Error) -> BenchError {
    let path = path.into();
    move |source| BenchError::Local {
        operation,
        path,
        source,
    }
}
