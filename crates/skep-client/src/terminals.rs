//! Interactive terminals in a sandbox.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::json;

use crate::command_stream::CommandStream;
use crate::commands::{Command, call, start};
use crate::error::ClientError;
use crate::port::Port;

/// Size of a terminal, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TerminalSize {
    /// Number of characters in a line.
    pub cols: u16,
    /// Number of lines on the screen.
    pub rows: u16,
}

/// Terminals of one sandbox: processes that a person talks to. A terminal is named by the process
/// ID of its program, and [`crate::Commands::attach`] finds it again.
#[derive(Debug, Clone)]
pub struct Terminals {
    port: Port,
}

impl Terminals {
    pub(crate) fn new(port: Port) -> Self {
        Self { port }
    }

    /// Runs a command in a new terminal, and streams what appears on it. Dropping the stream
    /// leaves the command running.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the sandbox cannot be reached or refuses.
    pub async fn open(
        &self,
        command: &Command,
        size: TerminalSize,
    ) -> Result<CommandStream, ClientError> {
        start(&self.port, command, Some(size)).await
    }

    /// Types `input` into a terminal.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if the process has ended.
    pub async fn type_in(&self, pid: u32, input: &[u8]) -> Result<(), ClientError> {
        let body = json!({
            "process": { "pid": pid },
            "input": { "pty": STANDARD.encode(input) },
        });
        let operation = format!("type into the terminal of process {pid}");
        call(&self.port, &operation, "SendInput", &body).await
    }

    /// Gives a terminal another size.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if the process has ended.
    pub async fn resize(&self, pid: u32, size: TerminalSize) -> Result<(), ClientError> {
        let body = json!({ "process": { "pid": pid }, "pty": { "size": size } });
        let operation = format!("resize the terminal of process {pid}");
        call(&self.port, &operation, "Update", &body).await
    }
}
