//! `skep sandbox connect`: a shell in a sandbox, in the terminal of whoever asks.

use std::time::{Duration, Instant};

use clap::Args;
use skep_client::{Cause, Client, ClientError, Command, CommandEvent, CommandStream, Sandbox};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::exec::exit_code;
use super::{Among, whole_id};
use crate::terminal::Terminal;
use crate::{CliError, DefaultServer, ServerArgs, print_note};

/// Time limit for finding a shell again whose server is gone: servers are replaced in a second.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(200);

/// Terminal type where nobody says which.
pub(super) const TERMINAL: &str = "xterm-256color";

/// Arguments of `skep sandbox connect`.
#[derive(Debug, Args)]
pub struct ConnectArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// ID of the sandbox
    id: String,
    /// Run the shell as this user
    #[arg(long, short)]
    user: Option<String>,
    /// Start in this directory
    #[arg(long, short = 'C', value_name = "DIR")]
    cwd: Option<String>,
    /// Terminal type
    #[arg(long, value_name = "NAME", env = "TERM", hide = true, default_value = TERMINAL)]
    term: String,
}

/// A terminal could not be opened, or not followed to its end.
#[derive(Debug)]
pub(super) enum OpenError {
    /// The agent could not start the command.
    Start(ClientError),
    /// Anything else.
    Other(CliError),
}

impl From<CliError> for OpenError {
    fn from(error: CliError) -> Self {
        Self::Other(error)
    }
}

impl From<OpenError> for CliError {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Start(error) => error.into(),
            OpenError::Other(error) => error,
        }
    }
}

impl ConnectArgs {
    pub(super) async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let mut shell = Command::new("/bin/bash")
            .args(["-i", "-l"])
            .env("TERM", self.term);
        if let Some(user) = self.user {
            shell = shell.user(user);
        }
        if let Some(cwd) = self.cwd {
            shell = shell.cwd(cwd);
        }
        let client = self.server.client(default)?;
        let id = whole_id(&client, &self.id, Among::Living).await?;
        let ended = open(&client, &id, &shell).await;
        print_note(&format!("left {id}"));
        Ok(ended?)
    }
}

/// Runs a command in a terminal that is this one, and returns its exit code.
pub(super) async fn open(client: &Client, id: &str, shell: &Command) -> Result<u8, OpenError> {
    let no_terminal = || {
        let hint = "`skep sandbox exec ID -- COMMAND` needs none";
        CliError::input("standard input is not a terminal", hint)
    };
    let terminal = Terminal::open()
        .map_err(CliError::failure)?
        .ok_or_else(no_terminal)?;
    let size = terminal.size().map_err(CliError::failure)?;
    let sandbox = client.sandbox(id);
    let opened = sandbox.terminals().open(shell, size).await;
    let mut stream = opened.map_err(OpenError::Start)?;
    let pid = match stream.next().await {
        Ok(Some(CommandEvent::Started(pid))) => pid,
        Err(error) if matches!(error.cause(), Cause::Agent { .. }) => {
            return Err(OpenError::Start(error));
        }
        Err(error) => return Err(CliError::from(error).into()),
        Ok(Some(_) | None) => {
            let error = CliError::failure("the command did not say that it started");
            return Err(error.into());
        }
    };
    let resized = signal(SignalKind::window_change()).map_err(CliError::failure)?;
    let shell = Shell {
        sandbox,
        pid,
        terminal: &terminal,
    };
    let ended = {
        let _raw = terminal.raw().map_err(CliError::failure)?;
        tokio::select! {
            ended = shell.show_output(stream) => ended,
            ended = shell.pass_keys() => ended,
            ended = shell.follow_size(resized) => ended,
        }
    };
    Ok(ended?)
}

/// A shell in a sandbox.
struct Shell<'a> {
    sandbox: Sandbox,
    pid: u32,
    terminal: &'a Terminal,
}

impl Shell<'_> {
    /// Shows what the shell writes until it ends; returns its exit code.
    async fn show_output(&self, mut stream: CommandStream) -> Result<u8, CliError> {
        loop {
            match stream.next().await {
                Ok(Some(CommandEvent::Terminal(bytes) | CommandEvent::Stdout(bytes))) => {
                    self.show(&bytes).await?;
                }
                Ok(Some(CommandEvent::Stderr(_) | CommandEvent::Started(_))) => {}
                Ok(Some(CommandEvent::Ended { code, status })) => {
                    return Ok(exit_code(code, &status));
                }
                // The shell goes on without us: it can be found again.
                Ok(None) => stream = self.find_again().await?,
                Err(error) if error.is_lost() => stream = self.find_again().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn find_again(&self) -> Result<CommandStream, CliError> {
        self.show(b"\r\n[connection lost, trying again]\r\n")
            .await?;
        let start = Instant::now();
        loop {
            match self.sandbox.commands().attach(self.pid).await {
                Ok(stream) => return Ok(stream),
                Err(error) if error.is_unreachable() && start.elapsed() < RECONNECT_TIMEOUT => {}
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn show(&self, bytes: &[u8]) -> Result<(), CliError> {
        let shown = self.terminal.show(bytes).await;
        shown.map_err(CliError::failure)
    }

    /// Passes on what is typed. Ends only when the terminal is gone.
    async fn pass_keys(&self) -> Result<u8, CliError> {
        loop {
            let keys = self.terminal.read().await.map_err(CliError::failure)?;
            if keys.is_empty() {
                return Ok(0);
            }
            match self.sandbox.terminals().type_in(self.pid, &keys).await {
                Ok(()) => {}
                // Whoever reads the output learns the same, and what to do about it. Keys that
                // were typed into a broken connection are lost, as on any line.
                Err(error) if is_temporary(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Gives the shell's terminal the size of ours whenever that changes.
    async fn follow_size(&self, mut resized: Signal) -> Result<u8, CliError> {
        while resized.recv().await.is_some() {
            let size = self.terminal.size().map_err(CliError::failure)?;
            match self.sandbox.terminals().resize(self.pid, size).await {
                Ok(()) => {}
                Err(error) if is_temporary(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        std::future::pending().await
    }
}

/// Returns true for errors that are left to the reader of the output to handle.
fn is_temporary(error: &ClientError) -> bool {
    error.is_not_found() || error.is_unreachable() || error.is_lost()
}
