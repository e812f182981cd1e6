//! Errors of calls.

use reqwest::Url;

/// A call failed: the operation with the thing it was about, and the cause.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation}")]
pub struct ClientError {
    operation: String,
    origin: Origin,
    sandbox: Option<String>,
    #[source]
    cause: Box<Cause>,
}

/// The part of the system that a call was made to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The REST API of the server.
    Server,
    /// A port of a sandbox, such as that of its agent.
    Sandbox,
    /// The interpreter of a sandbox.
    Interpreter,
}

/// Cause of a failed call.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The server's address is not a URL.
    #[error("`{0}` is not the URL of a server; write http://host:port")]
    Address(String),
    /// The HTTP client could not be made, which only a broken certificate store causes.
    #[error("cannot set up HTTP")]
    Setup(#[source] reqwest::Error),
    /// There was no answer. The call may be repeated.
    #[error("cannot reach `{server}`")]
    Unreachable {
        /// Address of the server.
        server: Url,
        /// Failure of the connection.
        source: reqwest::Error,
    },
    /// The server refused, in its own words.
    #[error("{message}")]
    Refused {
        /// The HTTP status.
        status: u16,
        /// Explanation by the server, with what to do about it.
        message: String,
    },
    /// The agent ended a stream with an error.
    #[error("{message}")]
    Agent {
        /// The stable code, such as `not_found`.
        code: String,
        /// Explanation by the agent.
        message: String,
    },
    /// The connection broke in the middle of an answer. Commands and code may run on, and can be
    /// attached to.
    #[error("the connection was lost")]
    Lost(#[source] Option<reqwest::Error>),
    /// The answer is not what this client understands.
    #[error("cannot read the answer")]
    Answer(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl ClientError {
    /// A failed call to the server.
    pub(crate) fn new(operation: impl Into<String>, cause: Cause) -> Self {
        Self {
            operation: operation.into(),
            origin: Origin::Server,
            sandbox: None,
            cause: Box::new(cause),
        }
    }

    /// The same error, of a call to a sandbox.
    pub(crate) fn of_sandbox(mut self, origin: Origin, sandbox: &str) -> Self {
        self.origin = origin;
        self.sandbox = Some(sandbox.to_owned());
        self
    }

    /// Cause of the failure.
    pub fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The part of the system that was called.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// ID of the sandbox that was called, if one was.
    pub fn sandbox(&self) -> Option<&str> {
        self.sandbox.as_deref()
    }

    /// HTTP status of a refusal.
    pub fn status(&self) -> Option<u16> {
        match *self.cause {
            Cause::Refused { status, .. } => Some(status),
            Cause::Address(_)
            | Cause::Setup(_)
            | Cause::Unreachable { .. }
            | Cause::Agent { .. }
            | Cause::Lost(_)
            | Cause::Answer(_) => None,
        }
    }

    /// Returns true if the thing that was named does not exist.
    pub fn is_not_found(&self) -> bool {
        self.status() == Some(404)
    }

    /// Returns true if the thing is not in a state for what was asked.
    pub fn is_conflict(&self) -> bool {
        self.status() == Some(409)
    }

    /// Returns true if there was no answer, so that the call may be repeated.
    pub fn is_unreachable(&self) -> bool {
        matches!(*self.cause, Cause::Unreachable { .. })
    }

    /// Returns true if the connection broke in the middle of an answer.
    pub fn is_lost(&self) -> bool {
        matches!(*self.cause, Cause::Lost(_))
    }
}
