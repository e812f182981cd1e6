//! A running execution.

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use reqwest::Response;
use skep_wire::headers::EXECUTION_ID;
use skep_wire::interpreter::{AnswerLine, RaisedError, ResultLine, Usage};

use crate::error::{Cause, ClientError};
use crate::port::Port;

/// Operation of the errors of a stream.
const FOLLOW: &str = "follow an execution";
/// Longest line unless the caller has another limit.
const LONGEST_LINE: usize = 256 << 20;

/// An execution, line by line.
///
/// Lines are read only when they are asked for, so a slow reader slows the code down and nothing
/// piles up in between. Dropping it before the end interrupts the code.
pub struct Execution {
    /// By this ID it can be interrupted and found again; `None` if the server is not Skep.
    pub id: Option<String>,
    port: Port,
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    buffer: BytesMut,
    /// Length of the part of the buffer that is known to have no end of a line in it.
    searched: usize,
    longest: usize,
    /// Length of the beginning of a line that is too long, of which nothing is kept.
    dropped: u64,
    ended: bool,
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Execution")
            .field("id", &self.id)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

/// Everything that an execution produced.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExecutionOutput {
    /// Text that the code printed.
    pub stdout: String,
    /// Text that the code wrote to standard error.
    pub stderr: String,
    /// Values and displays, in order.
    pub results: Vec<ResultLine>,
    /// The exception that ended the code, if one did.
    pub error: Option<RaisedError>,
    /// Resources that it used.
    pub usage: Usage,
}

impl Execution {
    pub(crate) fn new(port: &Port, response: Response, longest: Option<usize>) -> Self {
        let id = response.headers().get(EXECUTION_ID);
        Self {
            id: id.and_then(|id| id.to_str().ok()).map(str::to_owned),
            port: port.clone(),
            body: response.bytes_stream().boxed(),
            buffer: BytesMut::new(),
            searched: 0,
            longest: longest.unwrap_or(LONGEST_LINE),
            dropped: 0,
            ended: false,
        }
    }

    /// The next line; `None` after [`AnswerLine::EndOfExecution`]. Signs of life and lines that
    /// this client does not know are left out, and in place of a line that is longer than
    /// [`RunOptions::longest_line`](crate::RunOptions::longest_line) comes
    /// [`AnswerLine::TooLarge`].
    ///
    /// # Cancel safety
    ///
    /// No line is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`Cause::Lost`] if the answer stops before its last line, and [`Cause::Answer`] if a line
    /// cannot be read; the one after that can be asked for.
    pub async fn next(&mut self) -> Result<Option<AnswerLine>, ClientError> {
        while !self.ended {
            match self.take_line()? {
                Some(AnswerLine::Keepalive | AnswerLine::Unknown) => {}
                Some(line) => {
                    self.ended = line == AnswerLine::EndOfExecution;
                    return Ok(Some(line));
                }
                None => match self.body.next().await {
                    Some(Ok(bytes)) => self.buffer.extend_from_slice(&bytes),
                    Some(Err(error)) => {
                        return Err(self.failed(Cause::Lost(Some(error.without_url()))));
                    }
                    None => return Err(self.failed(Cause::Lost(None))),
                },
            }
        }
        Ok(None)
    }

    /// Reads to the end of the execution.
    ///
    /// # Errors
    ///
    /// As [`Execution::next`]. An exception of the code is not an error: it is in the output.
    pub async fn output(mut self) -> Result<ExecutionOutput, ClientError> {
        let mut output = ExecutionOutput::default();
        while let Some(line) = self.next().await? {
            match line {
                AnswerLine::Stdout { text, .. } => output.stdout.push_str(&text),
                AnswerLine::Stderr { text, .. } => output.stderr.push_str(&text),
                AnswerLine::Result(result) => output.results.push(*result),
                AnswerLine::Error(error) => output.error = Some(error),
                AnswerLine::Receipt { usage, .. } => output.usage = usage,
                AnswerLine::NumberOfExecutions { .. }
                | AnswerLine::Output { .. }
                | AnswerLine::InputRequest { .. }
                | AnswerLine::ContextRestarted { .. }
                | AnswerLine::OutputLost { .. }
                | AnswerLine::TooLarge { .. }
                | AnswerLine::Keepalive
                | AnswerLine::EndOfExecution
                | AnswerLine::Unknown => {}
            }
        }
        Ok(output)
    }

    /// The next whole line of what has arrived.
    fn take_line(&mut self) -> Result<Option<AnswerLine>, ClientError> {
        let rest = &self.buffer[self.searched..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            if self.dropped > 0 || self.searched > self.longest {
                self.dropped += length(&self.buffer);
                self.buffer = BytesMut::new();
                self.searched = 0;
            }
            return Ok(None);
        };
        let line = self.buffer.split_to(self.searched + end + 1);
        self.searched = 0;
        if self.dropped > 0 || line.len() > self.longest {
            let bytes = std::mem::take(&mut self.dropped) + length(&line);
            return Ok(Some(AnswerLine::TooLarge { bytes }));
        }
        AnswerLine::read(&line)
            .map(Some)
            .map_err(|error| self.failed(Cause::Answer(Box::new(error))))
    }

    fn failed(&self, cause: Cause) -> ClientError {
        self.port.failed(FOLLOW, cause)
    }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use skep_wire::interpreter::INTERPRETER_PORT;

    use crate::Client;

    use super::*;

    fn execution(pieces: &[&'static str]) -> Execution {
        let client = Client::new("http://127.0.0.1:1", "").unwrap();
        let pieces: Vec<_> = pieces
            .iter()
            .map(|piece| Ok(Bytes::from_static(piece.as_bytes())))
            .collect();
        Execution {
            id: None,
            port: client.sandbox("i1").port(INTERPRETER_PORT),
            body: futures_util::stream::iter(pieces).boxed(),
            buffer: BytesMut::new(),
            searched: 0,
            longest: 64,
            dropped: 0,
            ended: false,
        }
    }

    async fn all(pieces: &[&'static str]) -> Result<Vec<AnswerLine>, ClientError> {
        let mut execution = execution(pieces);
        let mut lines = Vec::new();
        while let Some(line) = execution.next().await? {
            lines.push(line);
        }
        Ok(lines)
    }

    #[tokio::test]
    async fn lines_are_found_however_they_are_cut() {
        let lines = all(&[
            "{\"type\":\"std",
            "out\",\"text\":\"a\\n\"}\n{\"type\":\"keepalive\"}\n{\"type\":\"news\"}\n{\"ty",
            "pe\":\"end_of_execution\"}\n",
        ]);
        let stdout = AnswerLine::Stdout {
            text: "a\n".to_owned(),
            timestamp: None,
        };
        assert_eq!(lines.await.unwrap(), [stdout, AnswerLine::EndOfExecution]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_not_kept_and_those_behind_it_come() {
        const PIECE: &str = "{\"type\":\"stdout\",\"text\":\"aaaaaaaaaaaaaaaaaaa";
        let mut pieces = vec![PIECE; 1000];
        pieces.push("\"}\n{\"type\":\"keepalive\"}\n{\"type\":\"end_of_execution\"}\n");
        let mut execution = execution(&pieces);
        let mut most = 0;
        let mut lines = Vec::new();
        while let Some(line) = execution.next().await.unwrap() {
            most = most.max(execution.buffer.capacity());
            lines.push(line);
        }
        let bytes = length(PIECE.as_bytes()) * 1000 + 3;
        let too_large = AnswerLine::TooLarge { bytes };
        assert_eq!(lines, [too_large, AnswerLine::EndOfExecution]);
        assert!(most < 4 * (64 + PIECE.len()), "{most}");
    }

    #[tokio::test]
    async fn the_line_behind_one_that_cannot_be_read_comes() {
        let mut execution = execution(&["{\"type\":[]}\n{\"type\":\"end_of_execution\"}\n"]);
        let error = execution.next().await.unwrap_err();
        assert!(matches!(error.cause(), Cause::Answer(_)), "{error}");
        let next = execution.next().await.unwrap();
        assert_eq!(next, Some(AnswerLine::EndOfExecution));
    }

    #[tokio::test]
    async fn the_output_of_code_is_put_together() {
        let output = execution(&[
            "{\"type\":\"stdout\",\"text\":\"a\\n\"}\n{\"type\":\"stdout\",\"text\":\"b\\n\"}\n",
            "{\"type\":\"end_of_execution\"}\n",
        ])
        .output()
        .await
        .unwrap();
        assert_eq!(output.stdout, "a\nb\n");
        assert_eq!(output.error, None);
    }

    #[tokio::test]
    async fn an_answer_that_just_stops_is_not_a_success() {
        let stopped = all(&["{\"type\":\"stdout\",\"text\":\"a\"}\n"]).await;
        assert!(stopped.unwrap_err().is_lost());
    }

    #[tokio::test]
    async fn a_line_that_cannot_be_read_is_reported_with_the_sandbox() {
        let error = all(&["<html>\n"]).await.unwrap_err();
        assert!(error.to_string().contains("`i1`"), "{error}");
    }
}
