//! The interpreter's routes: what callers send to run code, and the lines that come back.

use serde::{Deserialize, Serialize};

/// The port of the interpreter in a sandbox.
pub const INTERPRETER_PORT: u16 = 49999;

/// The header by which the proxy names a request, so that it can be cancelled.
pub const REQUEST_HEADER: &str = "x-skep-request";

/// The header of an answer that names the execution, so that a caller whose connection broke
/// can ask for the rest at `GET /executions/{id}`.
pub const EXECUTION_HEADER: &str = "x-skep-execution";

/// Where the interpreter is told that the caller of a request has left. Refused by the proxy.
pub const CANCEL_PATH: &str = "/skep/cancel";

/// A context, as every route shows it. The clients need all three.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Context {
    /// Its name.
    pub id: String,
    /// The language, normalised.
    pub language: String,
    /// Where it started, as the caller wrote it.
    pub cwd: String,
}

/// A line of an execution's answer, except those that carry what the code produced.
///
/// Clients ignore types and keys they do not know; `receipt`, `context_restarted` and
/// `output_lost` are ours, and so is `kind`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Line<'a> {
    /// The code was accepted.
    NumberOfExecutions {
        /// How many executions the kernel has seen.
        execution_count: u64,
    },
    /// The code, or the platform, failed.
    Error {
        /// The class of the exception.
        name: &'a str,
        /// Its text.
        value: &'a str,
        /// Its traceback.
        traceback: &'a str,
        /// What it is in every language: `syntax`, `runtime`, `interrupted`, `timeout`,
        /// `out_of_memory`, `kernel_died`, `disk_full` or `killed`.
        kind: &'a str,
    },
    /// Nothing happened for a while.
    Keepalive,
    /// The variables of earlier executions are gone.
    ContextRestarted {
        /// Why, as a word.
        reason: &'a str,
    },
    /// So much output was neither delivered nor kept while there was no way to the caller.
    OutputLost {
        /// Its length.
        bytes: u64,
    },
    /// What the execution used.
    Receipt(Receipt<'a>),
    /// There is nothing more.
    EndOfExecution,
}

/// What an execution used. Keys without a value are left out.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Receipt<'a> {
    /// `ok`, or the `kind` of the error.
    pub outcome: &'a str,
    /// How long it ran, in microseconds.
    pub wall_us: u64,
    /// How long it waited before, in microseconds.
    pub queued_us: u64,
    /// Processor time of the kernel's process, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_us: Option<u64>,
    /// The most memory the kernel's process had at once, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_memory_bytes: Option<u64>,
    /// Bytes read from storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
    /// Bytes written to storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub written_bytes: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_their_type_first_and_no_empty_keys() {
        let line = |line: &Line<'_>| serde_json::to_string(line).unwrap();
        assert_eq!(line(&Line::Keepalive), r#"{"type":"keepalive"}"#);
        assert_eq!(
            line(&Line::Receipt(Receipt {
                outcome: "ok",
                wall_us: 5,
                cpu_us: Some(3),
                ..Receipt::default()
            })),
            r#"{"type":"receipt","outcome":"ok","wall_us":5,"queued_us":0,"cpu_us":3}"#
        );
    }
}
