//! Errors of the bench, with hints for the user.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use skep_client::{Cause, ClientError, ServerError};

/// Failure of a measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The server did not do what was asked.
    #[error(transparent)]
    Call(#[from] ClientError),
    /// A command in a sandbox ended badly.
    #[error("command `{command}` ended with {status}")]
    Command {
        /// Command line that was run.
        command: String,
        /// Exit status or signal, in words.
        status: String,
    },
    /// Code in a sandbox raised something.
    #[error("code raised {name}: {value}")]
    Code {
        /// The class of the exception.
        name: String,
        /// Message of the exception.
        value: String,
    },
    /// An answer came and is not what it should be.
    #[error("answer to {what} is not as expected: {found}")]
    Unexpected {
        /// The request that was answered.
        what: &'static str,
        /// Description of the unexpected answer.
        found: String,
    },
    /// Some of many failed.
    #[error("{failed} of {all} sandboxes failed")]
    Some {
        /// Number of sandboxes that failed.
        failed: usize,
        /// Number of all sandboxes.
        all: usize,
        /// The first failure.
        source: Box<BenchError>,
    },
    /// The bench's own server does not come up, or does not end as it should.
    #[error("the bench's own server failed")]
    Server(#[source] ServerError),
    /// Something took longer than it may.
    #[error("{what} took longer than {} s", .limit.as_secs())]
    Late {
        /// The operation that was waited for.
        what: &'static str,
        /// Time limit of the operation.
        limit: Duration,
    },
    /// A file or a program on this host.
    #[error("cannot {operation} `{}`", .path.display())]
    Local {
        /// The operation, as a verb.
        operation: &'static str,
        /// File or program of the operation.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The network namespace that is the world outside could not be made.
    #[error("cannot make a network for the bench: `ip {step}` says: {reason}")]
    World {
        /// The arguments of `ip`.
        step: String,
        /// The last it said.
        reason: String,
    },
    /// A rival or a floor did not run.
    #[error("the comparison with {rival} failed: {reason}")]
    Rival {
        /// Name of the rival or floor.
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
        /// Name of the part of the bench.
        what: &'static str,
        /// The template that was chosen.
        template: String,
    },
}

impl BenchError {
    /// Returns true if the caller can do something about it.
    pub fn is_input(&self) -> bool {
        match self {
            Self::NeedsOwnServer(_) | Self::NeedsInterpreter { .. } => true,
            Self::Call(error) => matches!(
                error.cause(),
                Cause::Address(_)
                    | Cause::Refused {
                        status: 400..=499,
                        ..
                    }
            ),
            Self::Some { source, .. } => source.is_input(),
            Self::Command { .. }
            | Self::Code { .. }
            | Self::Unexpected { .. }
            | Self::Server(_)
            | Self::Late { .. }
            | Self::Local { .. }
            | Self::World { .. }
            | Self::Rival { .. } => false,
        }
    }

    /// Remedy for the caller, if there is one.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Call(error) => match error.cause() {
                Cause::Unreachable { .. } => {
                    "is the server running? `--against` takes its URL; without it the bench starts one"
                }
                Cause::Refused { status: 401, .. } => {
                    "give the server's key with `--api-key` or E2B_API_KEY"
                }
                Cause::Refused { status: 404, .. } => {
                    "`--template` names a template of that server, such as `base`"
                }
                Cause::Refused { status: 429, .. } => {
                    "the team's limit is reached: ask for fewer sandboxes, or raise it with `skep team limits`"
                }
                Cause::Refused { .. }
                | Cause::Address(_)
                | Cause::Setup(_)
                | Cause::Answer(_)
                | Cause::Lost(_)
                | Cause::Agent { .. } => return None,
            },
            Self::Some { source, .. } => return source.hint(),
            Self::Server(_) => "`skep doctor` says what this host lacks; sandboxes need root",
            Self::NeedsOwnServer(_) => {
                "leave `--against` out: it reads memory and processor time of processes on this host"
            }
            Self::NeedsInterpreter { .. } => "use `--template code-interpreter-slim`",
            Self::Local { .. } => "TMPDIR names the directory that the bench works in",
            Self::World { .. } => "it needs root and iproute2, and one bench at a time makes it",
            Self::Rival {
                rival: "plain CRIU" | "squid",
                ..
            } => return None,
            Self::Rival { rival, .. } if rival.starts_with("client ") => return None,
            Self::Rival { .. } => {
                "rivals are installed from PyPI with python3's `venv`; on Debian the package python3-venv has it"
            }
            Self::Command { .. }
            | Self::Code { .. }
            | Self::Unexpected { .. }
            | Self::Late { .. } => return None,
        };
        Some(hint.to_owned())
    }
}

/// Conversion of an error of a file or a program on this host.
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
