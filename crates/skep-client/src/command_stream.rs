//! Events of a running command.

use std::collections::VecDeque;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use serde::Deserialize;

use crate::connect::{Frame, take_frame};
use crate::error::{Cause, ClientError};
use crate::port::Port;

/// Operation of the errors of a stream.
const FOLLOW: &str = "follow a command";

/// Event of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandEvent {
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
        /// Exit code of the command.
        code: i32,
        /// The end in words, such as `exit status 0`.
        status: String,
    },
}

/// The events of one command, in order, ending with [`CommandEvent::Ended`].
pub struct CommandStream {
    port: Port,
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    buffer: BytesMut,
    ready: VecDeque<CommandEvent>,
}

impl std::fmt::Debug for CommandStream {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CommandStream")
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// Output of a command that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandOutput {
    /// Everything it wrote to its standard output.
    pub stdout: Bytes,
    /// Everything it wrote to its standard error.
    pub stderr: Bytes,
    /// Exit code of the command; -1 if a signal ended it.
    pub code: i32,
    /// The end in words, such as `exit status 0`.
    pub status: String,
}

impl CommandOutput {
    /// Standard output as text, with what is not UTF-8 replaced.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }
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

impl CommandStream {
    pub(crate) fn new(port: &Port, response: reqwest::Response) -> Self {
        Self {
            port: port.clone(),
            body: response.bytes_stream().boxed(),
            buffer: BytesMut::new(),
            ready: VecDeque::new(),
        }
    }

    /// The next event; `None` after the last.
    ///
    /// # Cancel safety
    ///
    /// No event is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`Cause::Lost`] if the sandbox or the connection ended first, and [`Cause::Agent`] if the
    /// agent refused the command.
    pub async fn next(&mut self) -> Result<Option<CommandEvent>, ClientError> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            let frame = take_frame(&mut self.buffer).map_err(unreadable);
            match frame.map_err(|cause| self.failed(cause))? {
                Some(Frame::Message(message)) => {
                    let events = events(&message).map_err(|cause| self.failed(cause))?;
                    self.ready.extend(events);
                }
                Some(Frame::End(end)) => {
                    finish(&end).map_err(|cause| self.failed(cause))?;
                    return Ok(None);
                }
                None => match self.body.next().await {
                    Some(Ok(bytes)) => self.buffer.extend_from_slice(&bytes),
                    Some(Err(error)) => return Err(self.failed(Cause::Lost(Some(error)))),
                    None => return Ok(None),
                },
            }
        }
    }

    /// Reads to the end of the command.
    ///
    /// # Errors
    ///
    /// As [`CommandStream::next`]; [`Cause::Lost`] also if the end of the command is not reported.
    pub async fn output(mut self) -> Result<CommandOutput, ClientError> {
        let (mut stdout, mut stderr) = (BytesMut::new(), BytesMut::new());
        let mut ended = None;
        while let Some(event) = self.next().await? {
            match event {
                CommandEvent::Started(_) => {}
                CommandEvent::Stdout(bytes) | CommandEvent::Terminal(bytes) => {
                    stdout.extend_from_slice(&bytes);
                }
                CommandEvent::Stderr(bytes) => stderr.extend_from_slice(&bytes),
                CommandEvent::Ended { code, status } => ended = Some((code, status)),
            }
        }
        let (code, status) = ended.ok_or_else(|| self.failed(Cause::Lost(None)))?;
        Ok(CommandOutput {
            stdout: stdout.freeze(),
            stderr: stderr.freeze(),
            code,
            status,
        })
    }

    fn failed(&self, cause: Cause) -> ClientError {
        self.port.failed(FOLLOW, cause)
    }
}

fn unreadable(source: impl std::error::Error + Send + Sync + 'static) -> Cause {
    Cause::Answer(Box::new(source))
}

fn finish(end: &[u8]) -> Result<(), Cause> {
    let end: EndOfStream = serde_json::from_slice(end).map_err(unreadable)?;
    match end.error {
        None => Ok(()),
        Some(StreamError { code, message }) => Err(Cause::Agent { code, message }),
    }
}

/// The events in one message. Keep-alives and what a newer agent may add give none.
fn events(message: &[u8]) -> Result<Vec<CommandEvent>, Cause> {
    let Message { event } = serde_json::from_slice(message).map_err(unreadable)?;
    let mut events = Vec::new();
    if let Some(Start { pid }) = event.start {
        events.push(CommandEvent::Started(pid));
    }
    if let Some(Data {
        stdout,
        stderr,
        pty,
    }) = event.data
    {
        let decode = |text: String| STANDARD.decode(text).map(Bytes::from).map_err(unreadable);
        if let Some(text) = stdout {
            events.push(CommandEvent::Stdout(decode(text)?));
        }
        if let Some(text) = stderr {
            events.push(CommandEvent::Stderr(decode(text)?));
        }
        if let Some(text) = pty {
            events.push(CommandEvent::Terminal(decode(text)?));
        }
    }
    if let Some(End { exit_code, status }) = event.end {
        events.push(CommandEvent::Ended {
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
            [CommandEvent::Started(7)]
        );
        assert_eq!(
            read(r#"{"event":{"data":{"stdout":"aGkK"}}}"#),
            [CommandEvent::Stdout(Bytes::from_static(b"hi\n"))]
        );
        assert_eq!(
            read(r#"{"event":{"data":{"pty":"aGkK"}}}"#),
            [CommandEvent::Terminal(Bytes::from_static(b"hi\n"))]
        );
        let status = "exit status 0".to_owned();
        assert_eq!(
            read(r#"{"event":{"end":{"exited":true,"status":"exit status 0"}}}"#),
            [CommandEvent::Ended { code: 0, status }]
        );
        assert_eq!(read(r#"{"event":{"keepalive":{}}}"#), []);
    }

    #[test]
    fn an_error_at_the_end_is_told_with_its_code() {
        let error = finish(br#"{"error":{"code":"not_found","message":"no such user"}}"#);
        assert!(matches!(error, Err(Cause::Agent { code, .. }) if code == "not_found"));
        finish(b"{}").unwrap();
    }
}
