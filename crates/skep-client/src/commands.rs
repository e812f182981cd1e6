//! Commands in a sandbox.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Method, Response};
use serde::Serialize;
use serde_json::json;

use crate::command_stream::{CommandOutput, CommandStream};
use crate::connect::frame;
use crate::error::ClientError;
use crate::port::Port;
use crate::terminals::TerminalSize;

/// Commands of one sandbox.
#[derive(Debug, Clone)]
pub struct Commands {
    port: Port,
}

/// A command to run: a program, its arguments, and its surroundings.
///
/// A `&str` is a line for the shell, as in [`Command::shell`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    program: String,
    arguments: Vec<String>,
    user: Option<String>,
    cwd: Option<String>,
    env: BTreeMap<String, String>,
    takes_input: bool,
}

/// Signals that the agent passes on to a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandSignal {
    /// Asks it to end.
    Terminate,
    /// Ends it.
    Kill,
}

impl Command {
    /// The program at this path, or found on the user's `PATH`.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            user: None,
            cwd: None,
            env: BTreeMap::new(),
            takes_input: false,
        }
    }

    /// A line for a login shell, as the SDKs run it.
    pub fn shell(line: impl Into<String>) -> Self {
        Self::new("/bin/bash").args(["-l".to_owned(), "-c".to_owned(), line.into()])
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Runs it as this user [default: the template's].
    #[must_use]
    pub fn user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// Runs it in this directory [default: the user's home].
    #[must_use]
    pub fn cwd(mut self, cwd: impl Into<String>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Sets an environment variable, beyond those of the sandbox.
    #[must_use]
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    /// Keeps its standard input open for [`Commands::send_input`], until
    /// [`Commands::close_input`]. Without it there is nothing to read.
    #[must_use]
    pub fn with_input(mut self) -> Self {
        self.takes_input = true;
        self
    }

    /// Sets several environment variables.
    #[must_use]
    pub fn envs(
        mut self,
        variables: impl IntoIterator<Item = (impl Into<String>, impl Into<String>)>,
    ) -> Self {
        let pairs = variables.into_iter();
        self.env
            .extend(pairs.map(|(name, value)| (name.into(), value.into())));
        self
    }
}

impl From<&str> for Command {
    fn from(line: &str) -> Self {
        Self::shell(line)
    }
}

impl From<&Command> for Command {
    fn from(command: &Command) -> Self {
        command.clone()
    }
}

#[derive(Serialize)]
struct StartRequest<'a> {
    process: Process<'a>,
    stdin: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pty: Option<Pty>,
}

#[derive(Serialize)]
struct Pty {
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

impl Commands {
    pub(crate) fn new(port: Port) -> Self {
        Self { port }
    }

    /// Runs a command to its end, and returns its output and exit code. An exit code that is not 0
    /// is not an error.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the sandbox cannot be reached, refuses, or ends before the command.
    pub async fn run(&self, command: impl Into<Command>) -> Result<CommandOutput, ClientError> {
        self.start(command).await?.output().await
    }

    /// Starts a command, and streams what it does. Dropping the stream leaves it running.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the sandbox cannot be reached or refuses.
    pub async fn start(&self, command: impl Into<Command>) -> Result<CommandStream, ClientError> {
        start(&self.port, &command.into(), None).await
    }

    /// Streams what a running process does from now on.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found, here or from the stream, if the process has ended.
    pub async fn attach(&self, pid: u32) -> Result<CommandStream, ClientError> {
        let operation = format!("attach to process {pid}");
        let message = json!({ "process": { "pid": pid } });
        let response = stream(&self.port, &operation, ("Connect", None), &message).await?;
        Ok(CommandStream::new(&self.port, response))
    }

    /// Kills a process.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if the process has ended already.
    pub async fn kill(&self, pid: u32) -> Result<(), ClientError> {
        let body = json!({ "process": { "pid": pid }, "signal": "SIGNAL_SIGKILL" });
        call(
            &self.port,
            &format!("kill process {pid}"),
            "SendSignal",
            &body,
        )
        .await
    }

    /// Sends a process a signal.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if the process has ended already.
    pub async fn signal(&self, pid: u32, signal: CommandSignal) -> Result<(), ClientError> {
        let signal = match signal {
            CommandSignal::Terminate => "SIGNAL_SIGTERM",
            CommandSignal::Kill => "SIGNAL_SIGKILL",
        };
        let body = json!({ "process": { "pid": pid }, "signal": signal });
        let operation = format!("send a signal to process {pid}");
        call(&self.port, &operation, "SendSignal", &body).await
    }

    /// Writes to the standard input of a process that was started [with input](Command::with_input).
    /// Returns when the process, or the pipe before it, has taken all of it.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if the process has ended.
    pub async fn send_input(&self, pid: u32, input: &[u8]) -> Result<(), ClientError> {
        let body = json!({
            "process": { "pid": pid },
            "input": { "stdin": STANDARD.encode(input) },
        });
        let operation = format!("write to process {pid}");
        call_without_limit(&self.port, &operation, "SendInput", &body).await
    }

    /// Ends the standard input of a process.
    ///
    /// # Errors
    ///
    /// [`ClientError`]; not found if the process has ended.
    pub async fn close_input(&self, pid: u32) -> Result<(), ClientError> {
        let body = json!({ "process": { "pid": pid } });
        let operation = format!("end the input of process {pid}");
        call(&self.port, &operation, "CloseStdin", &body).await
    }
}

/// Starts a command, in a terminal if there is a size for one.
pub(crate) async fn start(
    port: &Port,
    command: &Command,
    size: Option<TerminalSize>,
) -> Result<CommandStream, ClientError> {
    let message = StartRequest {
        process: Process {
            cmd: &command.program,
            args: &command.arguments,
            envs: &command.env,
            cwd: command.cwd.as_deref(),
        },
        stdin: command.takes_input,
        pty: size.map(|size| Pty { size }),
    };
    let operation = format!("run `{}`", command.program);
    let user = command.user.as_deref();
    let response = stream(port, &operation, ("Start", user), &message).await?;
    Ok(CommandStream::new(port, response))
}

/// Makes a call of the agent's process service that has a short answer.
pub(crate) async fn call(
    port: &Port,
    operation: &str,
    method: &str,
    body: &serde_json::Value,
) -> Result<(), ClientError> {
    let path = path(method);
    port.call_silent(operation, (Method::POST, &path), Some(body))
        .await
        .map(drop)
}

/// Makes a call of the agent's process service whose answer may take as long as a process does.
async fn call_without_limit(
    port: &Port,
    operation: &str,
    method: &str,
    body: &serde_json::Value,
) -> Result<(), ClientError> {
    let request = port.request(Method::POST, &path(method)).await?;
    port.send(operation, request.json(body)).await.map(drop)
}

/// Makes a call of the agent's process service that is answered by a stream.
async fn stream(
    port: &Port,
    operation: &str,
    (method, user): (&str, Option<&str>),
    message: &impl Serialize,
) -> Result<Response, ClientError> {
    let message = serde_json::to_vec(message).expect("strings and maps of strings serialise");
    let mut request = port
        .request(Method::POST, &path(method))
        .await?
        .header("connect-protocol-version", "1")
        .header("content-type", "application/connect+json")
        .header("keepalive-ping-interval", "50")
        .body(frame(&message));
    if let Some(user) = user {
        request = request.basic_auth(user, Some(""));
    }
    port.send(operation, request).await
}

fn path(method: &str) -> String {
    format!("/process.Process/{method}")
}
