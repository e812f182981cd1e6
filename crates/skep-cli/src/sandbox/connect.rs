//! `skep sandbox connect`: a shell in a sandbox, in the terminal of whoever asks.

use std::time::{Duration, Instant};

use skep_client::{Agent, Client, ClientError, ExecEvent, ExecOptions, ExecStream};
use skep_wire::rest::SandboxDetail;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::terminal::Terminal;
use crate::{CliError, print_note};

/// Time limit for finding a shell again whose server is gone: servers are replaced in a second.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const INTERVAL: Duration = Duration::from_millis(200);

/// Opens a shell and returns its exit code.
pub(super) async fn connect(
    client: &Client,
    id: &str,
    options: &ExecOptions,
) -> Result<u8, CliError> {
    let no_terminal = || {
        let hint = "`skep sandbox exec ID -- COMMAND` needs none";
        CliError::input("standard input is not a terminal", hint)
    };
    let terminal = Terminal::open()
        .map_err(CliError::failure)?
        .ok_or_else(no_terminal)?;
    let size = terminal.size().map_err(CliError::failure)?;
    let detail: SandboxDetail = client.get(&["sandboxes", id]).await?;
    let agent = client.agent(id, detail.envd_access_token.as_deref());
    let login = ["-i".to_owned(), "-l".to_owned()];
    let mut stream = agent
        .open_terminal("/bin/bash", &login, options, size)
        .await?;
    let Some(ExecEvent::Started(pid)) = stream.next().await? else {
        return Err(CliError::failure("the shell did not say that it started"));
    };
    let resized = signal(SignalKind::window_change()).map_err(CliError::failure)?;
    let shell = Shell {
        agent,
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
    agent: Agent,
    pid: u32,
    terminal: &'a Terminal,
}

impl Shell<'_> {
    /// Shows what the shell writes until it ends; returns its exit code.
    async fn show_output(&self, mut stream: ExecStream) -> Result<u8, CliError> {
        loop {
            match stream.next().await {
                Ok(Some(ExecEvent::Terminal(bytes) | ExecEvent::Stdout(bytes))) => {
                    self.show(&bytes).await?;
                }
                Ok(Some(ExecEvent::Stderr(_) | ExecEvent::Started(_))) => {}
                Ok(Some(ExecEvent::Ended { code, .. })) => {
                    return Ok(u8::try_from(code).unwrap_or(128));
                }
                // The shell goes on without us: it can be found again.
                Ok(None) | Err(ClientError::Lost(_)) => stream = self.find_again().await?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn find_again(&self) -> Result<ExecStream, CliError> {
        self.show(b"\r\n[connection lost, trying again]\r\n")
            .await?;
        let start = Instant::now();
        loop {
            match self.agent.attach(self.pid).await {
                Ok(stream) => return Ok(stream),
                Err(ClientError::Unreachable { .. }) if start.elapsed() < RECONNECT_TIMEOUT => {}
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
            match self.agent.type_in(self.pid, &keys).await {
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
            match self.agent.resize(self.pid, size).await {
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
    error.is_not_found()
        || matches!(
            error,
            ClientError::Unreachable { .. } | ClientError::Lost(_)
        )
}
