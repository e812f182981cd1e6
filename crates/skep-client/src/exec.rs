//! Running commands in a sandbox and following those that run.

use std::collections::{BTreeMap, VecDeque};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::agent::{Agent, TerminalSize};
use crate::connect::{Frame, take_frame};
use crate::rest::ClientError;

/// How a command is run.
#[derive(Debug, Clone, Default)]
pub struct ExecOptions {
    /// As whom; `None` is the template's user.
    pub user: Option<String>,
    /// Where; `None` is the user's home.
    pub cwd: Option<String>,
    /// Variables beyond the sandbox's own.
    pub env: BTreeMap<String, String>,
}

/// What a command does, as it happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExecEvent {
    /// It runs, under this process id of the sandbox.
    Started(u32),
    /// It wrote to its standard output.
    Stdout(Bytes),
    /// It wrote to its standard error.
    Stderr(Bytes),
    /// It wrote to its terminal.
    Terminal(Bytes),
    /// It ended. A code of -1 means that a signal ended it; the status says which.
    Ended {
        /// Its exit code.
        code: i32,
        /// The end in words, such as `exit status 0`.
        status: String,
    },
}

/// The events of one command, in order, ending with [`ExecEvent::Ended`].
pub struct ExecStream {
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    buffer: BytesMut,
    ready: VecDeque<ExecEvent>,
}

impl std::fmt::Debug for ExecStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ExecStream").finish_non_exhaustive()
    }
}

#[derive(Serialize)]
struct StartRequest<'a> {
    process: Process<'a>,
    stdin: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pty: Option<Terminal>,
}

#[derive(Serialize)]
struct Terminal {
    size: TerminalSize,
}

#[derive(Serialize)]
struct Process<'a> {
    cmd: &'a str,
    args: &'a [String],
    envs: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<&'a str>,
}

#[derive(Deserialize)]
struct Message {
    event: Event,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Event {
    start: Option<Start>,
    data: Option<Data>,
    end: Option<End>,
}

#[derive(Deserialize)]
struct Start {
    pid: u32,
}

#[derive(Deserialize)]
struct Data {
    stdout: Option<String>,
    stderr: Option<String>,
    pty: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct End {
    exit_code: i32,
    status: String,
}

#[derive(Deserialize)]
struct EndOfStream {
    error: Option<StreamError>,
}

#[derive(Deserialize)]
struct StreamError {
    code: String,
    #[serde(default)]
    message: String,
}

impl Agent {
    /// Runs `command` with `arguments` and streams what it does.
    ///
    /// Dropping the stream leaves the command running.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the sandbox cannot be reached or refuses.
    pub async fn exec(
        &self,
        command: &str,
        arguments: &[String],
        options: &ExecOptions,
    ) -> Result<ExecStream, ClientError> {
        self.start(command, arguments, options, None).await
    }

    /// Runs `command` with `arguments` in a terminal, and streams what appears on it.
    ///
    /// Dropping the stream leaves the command running.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the sandbox cannot be reached or refuses.
    pub async fn open_terminal(
        &self,
        command: &str,
        arguments: &[String],
        options: &ExecOptions,
        size: TerminalSize,
    ) -> Result<ExecStream, ClientError> {
        self.start(command, arguments, options, Some(Terminal { size }))
            .await
    }

    /// Streams what a process that runs already does from now on.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; `not_found`, here or from the stream, if the process has ended.
    pub async fn attach(&self, pid: u32) -> Result<ExecStream, ClientError> {
        let message = json!({ "process": { "pid": pid } });
        let response = self.stream("Connect", None, &message).await?;
        Ok(ExecStream::new(response))
    }

    async fn start(
        &self,
        command: &str,
        arguments: &[String],
        options: &ExecOptions,
        pty: Option<Terminal>,
    ) -> Result<ExecStream, ClientError> {
        let process = Process {
            cmd: command,
            args: arguments,
            envs: &options.env,
            cwd: options.cwd.as_deref(),
        };
        let message = StartRequest {
            process,
            stdin: false,
            pty,
        };
        let user = options.user.as_deref();
        let response = self.stream("Start", user, &message).await?;
        Ok(ExecStream::new(response))
    }
}

impl ExecStream {
    fn new(response: reqwest::Response) -> Self {
        Self {
            body: response.bytes_stream().boxed(),
            buffer: BytesMut::new(),
            ready: VecDeque::new(),
        }
    }

    /// The next event; `None` after the last.
    ///
    /// # Errors
    ///
    /// [`ClientError::Lost`] if the sandbox or the connection ended first, and
    /// [`ClientError::Agent`] if the agent refused the command.
    pub async fn next(&mut self) -> Result<Option<ExecEvent>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            match take_frame(&mut self.buffer).map_err(unreadable)? {
                Some(Frame::Message(message)) => self.ready.extend(events(&message)?),
                Some(Frame::End(end)) => return finish(&end),
                None => match self.body.next().await {
                    Some(bytes) => self
                        .buffer
                        .extend_from_slice(&bytes.map_err(ClientError::Lost)?),
                    None => return Ok(None),
                },
            }
        }
    }
}

fn unreadable(source: impl std::error::Error + Send + Sync + 'static) -> ClientError {
    ClientError::Answer {
        what: "a command".to_owned(),
        source: Box::new(source),
    }
}

fn finish(end: &[u8]) -> Result<Option<ExecEvent>, ClientError> {
    let end: EndOfStream = serde_json::from_slice(end).map_err(unreadable)?;
    match end.error {
        None => Ok(None),
        Some(StreamError { code, message }) => Err(ClientError::Agent { code, message }),
    }
}

/// The events in one message. Keep-alives and what a newer agent may add give none.
fn events(message: &[u8]) -> Result<Vec<ExecEvent>, ClientError> {
    let Message { event } = serde_json::from_slice(message).map_err(unreadable)?;
    let mut events = Vec::new();
    if let Some(Start { pid }) = event.start {
        events.push(ExecEvent::Started(pid));
    }
    if let Some(Data {
        stdout,
        stderr,
        pty,
    }) = event.data
    {
        let decode = |text: String| STANDARD.decode(text).map(Bytes::from).map_err(unreadable);
        if let Some(text) = stdout {
            events.push(ExecEvent::Stdout(decode(text)?));
        }
        if let Some(text) = stderr {
            events.push(ExecEvent::Stderr(decode(text)?));
        }
        if let Some(text) = pty {
            events.push(ExecEvent::Terminal(decode(text)?));
        }
    }
    if let Some(End { exit_code, status }) = event.end {
        events.push(ExecEvent::Ended {
            code: exit_code,
            status,
        });
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_events_and_unknown_ones_nothing() {
        let read = |text: &str| events(text.as_bytes()).unwrap();
        assert_eq!(
            read(r#"{"event":{"start":{"pid":7}}}"#),
            [ExecEvent::Started(7)]
        );
        assert_eq!(
            read(r#"{"event":{"data":{"stdout":"aGkK"}}}"#),
            [ExecEvent::Stdout(Bytes::from_static(b"hi\n"))]
        );
        assert_eq!(
            read(r#"{"event":{"data":{"pty":"aGkK"}}}"#),
            [ExecEvent::Terminal(Bytes::from_static(b"hi\n"))]
        );
        let status = "exit status 0".to_owned();
        assert_eq!(
            read(r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#),
            [ExecEvent::Ended { code: 0, status }]
        );
        assert_eq!(read(r#"{"event":{"keepalive":{}}}"#), []);
    }

    #[test]
    fn an_error_at_the_end_is_told_with_its_code() {
        let error = finish(br#"{"error":{"code":"not_found","message":"no such user"}}"#);
        assert!(matches!(error, Err(ClientError::Agent { code, .. }) if code == "not_found"));
        assert!(matches!(finish(b"{}"), Ok(None)));
    }
}
