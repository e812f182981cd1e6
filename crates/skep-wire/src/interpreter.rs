//! The interpreter's routes: what callers send to run code, and the lines that come back.

mod answer;
mod copies;
mod outcome;
mod questions;
mod raw;

use std::collections::BTreeMap;
use std::fmt;

pub use answer::{AnswerLine, RaisedError, ResultLine};
pub use copies::{Checkpoint, CopyRequest, RollbackRequest};
pub use outcome::Outcome;
pub use questions::{
    CodeAtCursor, Completeness, CompletenessAnswer, Completions, Inspection, KernelInfo,
};
pub use raw::RawJson;
use serde::{Deserialize, Serialize};

/// The port of the interpreter in a sandbox.
pub const INTERPRETER_PORT: u16 = 49999;

/// Path of the request that tells the interpreter that the caller of another has left. Refused by
/// the proxy.
pub const CANCEL_PATH: &str = "/skep/cancel";

/// A context, as every route shows it. The clients need all three.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Unique id of the context.
    pub id: String,
    /// The language, normalised.
    pub language: String,
    /// Initial working directory, as the caller wrote it.
    pub cwd: String,
}

/// The body of `POST /execute`, as a caller writes it.
#[derive(Clone, Default, PartialEq, Serialize)]
pub struct ExecuteRequest<'a> {
    /// Source text in the language of the context.
    pub code: &'a str,
    /// The context to run it in. Excludes `language`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_id: Option<&'a str>,
    /// The language whose default context runs it. Without both it is Python's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<&'a str>,
    /// Variables for this execution alone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env_vars: BTreeMap<String, String>,
    /// Options beyond the contract.
    #[serde(skip_serializing_if = "is_default")]
    pub skep: ExecuteOptions,
}

impl fmt::Debug for ExecuteRequest<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Neither code nor the values of variables belong into a log.
        formatter
            .debug_struct("ExecuteRequest")
            .field("context_id", &self.context_id)
            .field("language", &self.language)
            .field("skep", &self.skep)
            .finish_non_exhaustive()
    }
}

/// The body of `POST /contexts`, as a caller writes it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ContextRequest<'a> {
    /// Its language; Python if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<&'a str>,
    /// Initial working directory; the user's home if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<&'a str>,
    /// Options beyond the contract.
    #[serde(skip_serializing_if = "is_default")]
    pub skep: ContextOptions,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Options of `POST /execute` beyond the contract, in the field `skep`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ExecuteOptions {
    /// Resource limits of the execution.
    #[serde(skip_serializing_if = "is_default")]
    pub limits: LimitOptions,
    /// Values that must not be shown in this context from now on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Names of variables in `env_vars` whose values are such.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secret_envs: Vec<String>,
    /// Format of the lines that report output.
    #[serde(skip_serializing_if = "is_default")]
    pub outputs: OutputForm,
    /// True if the caller answers the lines that ask for input.
    #[serde(skip_serializing_if = "is_default")]
    pub allow_stdin: bool,
}

/// Format of the lines that report the output of code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputForm {
    /// Lines of the contract: `stdout`, `stderr`, `result` and `error`.
    #[default]
    Contract,
    /// Lines like the messages of Jupyter's kernels, with everything that notebooks know: `output`.
    Jupyter,
}

impl fmt::Debug for ExecuteOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ExecuteOptions")
            .field("limits", &self.limits)
            .field("secret_envs", &self.secret_envs)
            .field("outputs", &self.outputs)
            .field("allow_stdin", &self.allow_stdin)
            .finish_non_exhaustive()
    }
}

/// Resource limits of an execution. What is missing has no limit.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitOptions {
    /// Wall-clock time, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_seconds: Option<f64>,
    /// Processor time, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// Memory of all processes of the context together, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}

/// The body of `POST /executions/{id}/input`: the answer to a line that asks for input.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct InputReply {
    /// The line, without its end; null is the end of input.
    pub value: Option<String>,
}

impl fmt::Debug for InputReply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // It may be a password.
        formatter.debug_struct("InputReply").finish_non_exhaustive()
    }
}

/// Options of `POST /contexts` beyond the contract, in the field `skep`.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ContextOptions {
    /// Values that must not be shown in this context.
    pub secrets: Vec<String>,
}

impl fmt::Debug for ContextOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ContextOptions")
            .finish_non_exhaustive()
    }
}

/// An execution that waits or runs, as `GET /executions` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunningExecution {
    /// Its name, as in the header of its answer.
    pub id: String,
    /// The context it runs in.
    pub context_id: String,
    /// `queued` or `running`.
    pub state: &'static str,
    /// Resources used until now.
    #[serde(flatten)]
    pub usage: Usage,
}

/// A line of an execution's answer, except those that carry what the code produced.
///
/// Clients ignore types and keys they do not know; `receipt`, `context_restarted`, `input_request`
/// and `output_lost` are ours, and so are `kind` and `exit_status`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// The code was accepted.
    NumberOfExecutions {
        /// Number of executions that the kernel has seen.
        execution_count: u64,
    },
    /// The code, or the platform, failed.
    Error {
        /// The class of the exception.
        name: &'a str,
        /// Text of the exception.
        value: &'a str,
        /// Traceback, as the language writes it.
        traceback: &'a str,
        /// Classification that is the same in every language.
        kind: Outcome,
        /// The exit status of its kernel, if it ended that.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_status: Option<i32>,
    },
    /// The code asks for a line of input, and waits. Only for a caller that has said that it
    /// answers, by `POST /executions/{id}/input`.
    InputRequest {
        /// Text to show to whoever answers.
        prompt: &'a str,
        /// True if the answer must not be shown while it is typed.
        password: bool,
    },
    /// Nothing happened for a while.
    Keepalive,
    /// The variables of earlier executions are gone.
    ContextRestarted {
        /// Reason, as a word for programs.
        reason: &'a str,
    },
    /// Output was neither delivered nor kept while there was no connection to the caller.
    OutputLost {
        /// Size of the lost output.
        bytes: u64,
    },
    /// Account of the resources that the execution used.
    Receipt(Receipt),
    /// There is nothing more.
    EndOfExecution,
}

/// Account of the resources that an execution used. Keys without a value are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Receipt {
    /// [`Outcome::Ok`], or the `kind` of the error.
    pub outcome: Outcome,
    /// Resources used from beginning to end.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Resources used by an execution: by its kernel and all processes that it started. Keys without a
/// value are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Usage {
    /// Wall-clock time, in microseconds.
    pub wall_us: u64,
    /// Time spent waiting before, in microseconds.
    pub queued_us: u64,
    /// Processor time, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<u64>,
    /// The memory it has now, in bytes. Only while it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// The most memory it had at once, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// Bytes read from storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written to storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
    /// Number of processes that the OOM killer took, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_memory_kills: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_only_what_is_wanted() {
        let plain = ExecuteRequest {
            code: "1",
            language: Some("python"),
            ..ExecuteRequest::default()
        };
        let written = |request: &ExecuteRequest<'_>| serde_json::to_string(request).unwrap();
        assert_eq!(written(&plain), r#"{"code":"1","language":"python"}"#);
        let limited = ExecuteRequest {
            skep: ExecuteOptions {
                limits: LimitOptions {
                    time_seconds: Some(1.5),
                    ..LimitOptions::default()
                },
                ..ExecuteOptions::default()
            },
            ..plain
        };
        assert_eq!(
            written(&limited),
            r#"{"code":"1","language":"python","skep":{"limits":{"time_seconds":1.5}}}"#
        );
    }

    #[test]
    fn lines_have_their_type_first_and_no_empty_keys() {
        let line = |line: &Line<'_>| serde_json::to_string(line).unwrap();
        assert_eq!(line(&Line::Keepalive), r#"{"type":"keepalive"}"#);
        assert_eq!(
            line(&Line::Receipt(Receipt {
                outcome: Outcome::Ok,
                usage: Usage {
                    wall_us: 5,
                    cpu_us: Some(3),
                    ..Usage::default()
                },
            })),
            r#"{"type":"receipt","outcome":"ok","wall_us":5,"queued_us":0,"cpu_us":3}"#
        );
    }
}
