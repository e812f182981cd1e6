//! `skep sandbox connect`: a shell in a sandbox, in the terminal of whoever asks.

use std::time::{Duration, Instant};

use skep_client::{Client, ClientError, Command, CommandEvent, CommandStream, Sandbox};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::terminal::Terminal;
use crate::{CliError, print_note};

/// Time limit for finding a shell again whose server is gone: servers are replaced in a second.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(200);

/// Opens a shell and returns its exit code.
pub(super) async fn connect(client: &Client, id: &str, shell: &Command) -> Result<u8, CliError> {
    let no_terminal = || {
        let hint = "`skep sandbox exec ID -- COMMAND` needs none";
        CliError::input("standard input is not a terminal", hint)
    };
    let terminal = Terminal::open()
        .map_err(CliError::failure)?
        .ok_or_else(no_terminal)?;
    let size = terminal.size().map_err(CliError::failure)?;
    let sandbox = client.sandbox(id);
    let mut stream = sandbox.terminals().open(shell, size).await?;
    let Some(CommandEvent::Started(pid)) = stream.next().await? else {
        return Err(CliError::failure("the shell did not say that it started"));
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
    print_note(&format!("left {id}"));
    ended
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
                Ok(Some(CommandEvent::Ended { code, .. })) => {
                    return Ok(u8::try_from(code).unwrap_or(128));
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
