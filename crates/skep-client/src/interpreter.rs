//! Running code in a sandbox: the interpreter on its port 49999.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use reqwest::{Method, RequestBuilder, Response};
use skep_wire::interpreter::{
    AnswerLine, Context, ContextOptions, ContextRequest, EXECUTION_HEADER, ExecuteOptions,
    ExecuteRequest, INTERPRETER_PORT,
};

use crate::port::Port;
use crate::rest::{Client, ClientError, read};

/// How long a call may take that is no execution. A kernel may have to start first.
const TIMEOUT: Duration = Duration::from_secs(60);
/// No interpreter sends more in one line; a longer one is a broken stream, not a reason to wait.
const LONGEST_LINE: usize = 256 << 20;

/// The interpreter of one sandbox.
#[derive(Debug, Clone)]
pub struct Interpreter {
    port: Port,
    sandbox: String,
}

/// Where code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContextRef<'a> {
    /// In the context with this id.
    Id(&'a str),
    /// In the default context of this language, which is made if there is none.
    Language(&'a str),
}

/// How code is run, beside where.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// Variables for this execution alone.
    pub env: BTreeMap<String, String>,
    /// Limits and secrets. Only Skep understands them.
    pub skep: ExecuteOptions,
}

impl std::fmt::Debug for RunOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("RunOptions")
            .field("skep", &self.skep)
            .finish_non_exhaustive()
    }
}

/// Why a call of an interpreter gave nothing, or no more.
#[derive(Debug, thiserror::Error)]
pub enum InterpreterError {
    /// The call was not answered, or refused.
    #[error("cannot {operation} in sandbox `{sandbox}`")]
    Call {
        /// What was asked for.
        operation: String,
        /// Of which sandbox.
        sandbox: String,
        /// What went wrong.
        source: Box<ClientError>,
    },
    /// The connection broke while the code ran. Where Skep answers, the code may run on, and
    /// [`Interpreter::attach`] finds it again.
    #[error("lost the connection to an execution in sandbox `{sandbox}`")]
    Lost {
        /// In which sandbox.
        sandbox: String,
        /// How it broke; `None` if the answer just stopped before its last line.
        source: Option<reqwest::Error>,
    },
    /// The interpreter said something that is no line of an answer.
    #[error("cannot read what the interpreter of sandbox `{sandbox}` says")]
    Line {
        /// Of which sandbox.
        sandbox: String,
        /// What is wrong with it.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl InterpreterError {
    /// Whether the thing that was named does not exist: the sandbox, the context or the
    /// execution.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Call { source, .. } if source.is_not_found())
    }
}

/// An execution, line by line.
///
/// Lines are read only when they are asked for, so whoever is slow slows the code down and
/// nothing piles up in between. Dropping it before the end interrupts the code.
pub struct Execution {
    /// By this name it can be interrupted and found again; `None` if the server is not ours.
    pub id: Option<String>,
    sandbox: String,
    body: BoxStream<'static, reqwest::Result<Bytes>>,
    buffer: BytesMut,
    /// How much of the buffer is known to have no end of a line in it.
    searched: usize,
    ended: bool,
}

impl std::fmt::Debug for Execution {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Execution")
            .field("id", &self.id)
            .field("sandbox", &self.sandbox)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// The interpreter of the sandbox `id`, which asks for `access_token`.
    pub fn interpreter(&self, id: &str, access_token: Option<&str>) -> Interpreter {
        Interpreter {
            port: self.port(id, INTERPRETER_PORT, access_token),
            sandbox: id.to_owned(),
        }
    }
}

impl Interpreter {
    /// Runs `code` and streams what it does.
    ///
    /// An exception of the code is no error here: it arrives as [`AnswerLine::Error`].
    ///
    /// # Errors
    ///
    /// [`InterpreterError::Call`], also if there is no such context or no kernel for the
    /// language.
    pub async fn execute(
        &self,
        code: &str,
        context: ContextRef<'_>,
        options: &RunOptions,
    ) -> Result<Execution, InterpreterError> {
        let (context_id, language, operation) = match context {
            ContextRef::Id(id) => (Some(id), None, format!("run code of context `{id}`")),
            ContextRef::Language(name) => (None, Some(name), format!("run {name} code")),
        };
        let body = ExecuteRequest {
            code,
            context_id,
            language,
            env_vars: options.env.clone(),
            skep: options.skep.clone(),
        };
        let request = self.port.request(Method::POST, "/execute").json(&body);
        let response = self.send(&operation, request).await?;
        Ok(Execution::new(&self.sandbox, response))
    }

    /// Streams the rest of an execution whose connection broke while the code ran on.
    ///
    /// # Errors
    ///
    /// [`InterpreterError::Call`]; not found if it is forgotten already, or somebody listens.
    pub async fn attach(&self, execution: &str) -> Result<Execution, InterpreterError> {
        let path = format!("/executions/{execution}");
        let request = self.port.request(Method::GET, &path);
        let operation = format!("find execution `{execution}`");
        let response = self.send(&operation, request).await?;
        Ok(Execution::new(&self.sandbox, response))
    }

    /// Interrupts an execution, as Ctrl-C would. Whoever reads it learns how it ended.
    ///
    /// # Errors
    ///
    /// [`InterpreterError::Call`]; not found if it has ended, or the server is not ours.
    pub async fn interrupt(&self, execution: &str) -> Result<(), InterpreterError> {
        let path = format!("/executions/{execution}/interrupt");
        let request = self.port.request(Method::POST, &path).timeout(TIMEOUT);
        let operation = format!("interrupt execution `{execution}`");
        self.send(&operation, request).await.map(drop)
    }

    /// All contexts, the newest last.
    ///
    /// # Errors
    ///
    /// [`InterpreterError::Call`]
    pub async fn contexts(&self) -> Result<Vec<Context>, InterpreterError> {
        let request = self.port.request(Method::GET, "/contexts").timeout(TIMEOUT);
        let operation = "list contexts";
        let response = self.send(operation, request).await?;
        read(response).await.map_err(self.failed(operation))
    }

    /// Makes a context and waits until its kernel listens.
    ///
    /// # Errors
    ///
    /// [`InterpreterError::Call`], also if there is no kernel for the language.
    pub async fn create_context(
        &self,
        language: &str,
        cwd: Option<&str>,
        options: &ContextOptions,
    ) -> Result<Context, InterpreterError> {
        let body = ContextRequest {
            language: Some(language),
            cwd,
            skep: options.clone(),
        };
        let request = self.port.request(Method::POST, "/contexts");
        let operation = format!("make a {language} context");
        let request = request.timeout(TIMEOUT).json(&body);
        let response = self.send(&operation, request).await?;
        read(response).await.map_err(self.failed(&operation))
    }

    /// Starts the kernel of a context anew; its variables are gone.
    ///
    /// # Errors
    ///
    /// [`InterpreterError::Call`]; not found if there is no such context.
    pub async fn restart_context(&self, id: &str) -> Result<(), InterpreterError> {
        let path = format!("/contexts/{id}/restart");
        let request = self.port.request(Method::POST, &path).timeout(TIMEOUT);
        let operation = format!("restart context `{id}`");
        self.send(&operation, request).await.map(drop)
    }

    /// Removes a context and ends its kernel.
    ///
    /// # Errors
    ///
    /// [`InterpreterError::Call`]; not found if there is no such context.
    pub async fn remove_context(&self, id: &str) -> Result<(), InterpreterError> {
        let path = format!("/contexts/{id}");
        let request = self.port.request(Method::DELETE, &path).timeout(TIMEOUT);
        let operation = format!("remove context `{id}`");
        self.send(&operation, request).await.map(drop)
    }

    /// What happened in a context until now, as the text of a notebook.
    ///
    /// # Errors
    ///
    /// [`InterpreterError::Call`]; not found if there is no such context.
    pub async fn notebook(&self, context: &str) -> Result<Bytes, InterpreterError> {
        let path = format!("/contexts/{context}/notebook");
        let request = self.port.request(Method::GET, &path).timeout(TIMEOUT);
        let operation = format!("read the history of context `{context}`");
        let response = self.send(&operation, request).await?;
        let read = response.bytes().await;
        read.map_err(|error| self.failed(&operation)(ClientError::Lost(error.without_url())))
    }

    async fn send(
        &self,
        operation: &str,
        request: RequestBuilder,
    ) -> Result<Response, InterpreterError> {
        let sent = self.port.send(request).await;
        sent.map_err(self.failed(operation))
    }

    fn failed(&self, operation: &str) -> impl FnOnce(ClientError) -> InterpreterError {
        let (operation, sandbox) = (operation.to_owned(), self.sandbox.clone());
        move |source| InterpreterError::Call {
            operation,
            sandbox,
            source: Box::new(source),
        }
    }
}

impl Execution {
    fn new(sandbox: &str, response: Response) -> Self {
        let id = response.headers().get(EXECUTION_HEADER);
        Self {
            id: id.and_then(|id| id.to_str().ok()).map(str::to_owned),
            sandbox: sandbox.to_owned(),
            body: response.bytes_stream().boxed(),
            buffer: BytesMut::new(),
            searched: 0,
            ended: false,
        }
    }

    /// The next line; `None` after [`AnswerLine::EndOfExecution`]. Signs of life and lines that
    /// this client does not know are left out.
    ///
    /// # Cancel safety
    ///
    /// No line is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// [`InterpreterError::Lost`] if the answer stops before its last line, and
    /// [`InterpreterError::Line`] if it is none.
    pub async fn next(&mut self) -> Result<Option<AnswerLine>, InterpreterError> {
        while !self.ended {
            match self.take_line()? {
                Some(AnswerLine::Keepalive | AnswerLine::Unknown) => {}
                Some(line) => {
                    self.ended = line == AnswerLine::EndOfExecution;
                    return Ok(Some(line));
                }
                None => {
                    let received = self.body.next().await.transpose();
                    let bytes = received.map_err(|error| self.lost(Some(error)))?;
                    let bytes = bytes.ok_or_else(|| self.lost(None))?;
                    self.buffer.extend_from_slice(&bytes);
                }
            }
        }
        Ok(None)
    }

    /// The next whole line of what has arrived.
    fn take_line(&mut self) -> Result<Option<AnswerLine>, InterpreterError> {
        let rest = &self.buffer[self.searched..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            if self.searched > LONGEST_LINE {
                let reason = format!("a line is longer than {LONGEST_LINE} bytes");
                return Err(self.unreadable(reason));
            }
            return Ok(None);
        };
        let line = self.buffer.split_to(self.searched + end + 1);
        self.searched = 0;
        let read = serde_json::from_slice(&line);
        read.map(Some).map_err(|error| self.unreadable(error))
    }

    fn lost(&self, source: Option<reqwest::Error>) -> InterpreterError {
        InterpreterError::Lost {
            sandbox: self.sandbox.clone(),
            source: source.map(reqwest::Error::without_url),
        }
    }

    fn unreadable(
        &self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> InterpreterError {
        InterpreterError::Line {
            sandbox: self.sandbox.clone(),
            source: source.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn execution(pieces: &[&'static str]) -> Execution {
        let pieces: Vec<_> = pieces
            .iter()
            .map(|piece| Ok(Bytes::from_static(piece.as_bytes())))
            .collect();
        Execution {
            id: None,
            sandbox: "i1".to_owned(),
            body: futures_util::stream::iter(pieces).boxed(),
            buffer: BytesMut::new(),
            searched: 0,
            ended: false,
        }
    }

    async fn all(pieces: &[&'static str]) -> Result<Vec<AnswerLine>, InterpreterError> {
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
    async fn an_answer_that_just_stops_is_no_success() {
        let stopped = all(&["{\"type\":\"stdout\",\"text\":\"a\"}\n"]).await;
        assert!(matches!(
            stopped,
            Err(InterpreterError::Lost { source: None, .. })
        ));
    }

    #[tokio::test]
    async fn what_is_no_line_is_told() {
        let error = all(&["<html>\n"]).await.unwrap_err();
        assert!(error.to_string().contains("`i1`"), "{error}");
    }
}
