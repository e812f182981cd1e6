//! A server of one's own: `skep serve` as a child process, for tests, benchmarks and single commands.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde::Deserialize;

use crate::client::Client;
use crate::error::ClientError;

/// Time limit for a server to become ready.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of lines of its log that an error about a server has.
const LOG_LINES: usize = 5;

/// Command line of a server.
#[derive(Debug, Clone)]
pub struct ServerCommand {
    executable: PathBuf,
    data_dir: PathBuf,
    cache_dir: Option<PathBuf>,
    config: Option<PathBuf>,
    listen: SocketAddr,
    env: Vec<(OsString, OsString)>,
    is_private: bool,
}

/// A running server. It is killed when this is dropped; its sandboxes are not.
#[derive(Debug)]
pub struct ServerProcess {
    process: Child,
    log: File,
    ready: Ready,
}

/// A server could not be started, or did not end as it should.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The executable cannot be run.
    #[error("cannot run `{}`", executable.display())]
    Run {
        /// Executable of the server.
        executable: PathBuf,
        /// Failure of the system call.
        source: io::Error,
    },
    /// It ended, or printed something else, before it was ready.
    #[error("the server ended before it was ready: {log}")]
    NotReady {
        /// Last lines of its log.
        log: String,
    },
    /// It did not become ready, or did not end, in time.
    #[error("the server {what} within {} s: {log}", limit.as_secs())]
    Late {
        /// The event that did not come, such as `was not ready`.
        what: &'static str,
        /// Time limit of the event.
        limit: Duration,
        /// Last lines of its log.
        log: String,
    },
    /// It ended with another status than success.
    #[error("the server ended with {status}: {log}")]
    Failed {
        /// Exit status of the process.
        status: ExitStatus,
        /// Last lines of its log.
        log: String,
    },
    /// It cannot be waited for or signalled.
    #[error("cannot control the server")]
    Control(#[source] io::Error),
}

/// The line that a server prints when it is ready.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    api_url: String,
    api_key: String,
}

impl std::fmt::Debug for Ready {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key does not belong into a log.
        formatter
            .debug_struct("Ready")
            .field("api_url", &self.api_url)
            .finish_non_exhaustive()
    }
}

impl ServerCommand {
    /// The server that `executable`, which is `skep`, is with its data in `data_dir`. It listens
    /// on a loopback port that the kernel chooses.
    pub fn new(executable: impl Into<PathBuf>, data_dir: impl Into<PathBuf>) -> Self {
        Self {
            executable: executable.into(),
            data_dir: data_dir.into(),
            cache_dir: None,
            config: None,
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            env: Vec::new(),
            is_private: false,
        }
    }

    /// Uses the templates in this directory [default: the configuration's].
    #[must_use]
    pub fn cache_dir(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cache_dir = Some(directory.into());
        self
    }

    /// Reads this configuration file.
    #[must_use]
    pub fn config(mut self, file: impl Into<PathBuf>) -> Self {
        self.config = Some(file.into());
        self
    }

    /// Listens on this address.
    #[must_use]
    pub fn listen(mut self, address: SocketAddr) -> Self {
        self.listen = address;
        self
    }

    /// Sets an environment variable of the server.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Makes it a server that is gone when its starter is, with its sandboxes and all its data,
    /// even if its starter is killed. Signals of the terminal do not reach it.
    #[must_use]
    pub fn private(mut self) -> Self {
        self.is_private = true;
        self
    }

    /// Data directory of the server.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// The command, not started yet.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .args(["serve", "--json", "--listen", &self.listen.to_string()])
            .arg("--data-dir")
            .arg(&self.data_dir)
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        if let Some(directory) = &self.cache_dir {
            command.arg("--cache-dir").arg(directory);
        }
        if let Some(file) = &self.config {
            command.arg("--config").arg(file);
        }
        if self.is_private {
            // It ends when its standard input does, which the kernel sees to.
            command.arg("--private").stdin(Stdio::piped());
            command.process_group(0);
        } else {
            command.stdin(Stdio::null());
        }
        command
    }

    /// Starts the server, logs to `log`, and returns when it is ready. Blocks.
    ///
    /// `log` is read, too: it must have been opened for that.
    ///
    /// # Errors
    ///
    /// [`ServerError`] with the last lines of its log; the process is gone then.
    pub fn start(&self, mut log: File) -> Result<ServerProcess, ServerError> {
        let run = |source| ServerError::Run {
            executable: self.executable.clone(),
            source,
        };
        let mut process = self
            .command()
            .stdout(Stdio::piped())
            .stderr(log.try_clone().map_err(run)?)
            .spawn()
            .map_err(run)?;
        let stdout = process.stdout.take().expect("it is piped");
        let ready = match first_line(stdout, START_TIMEOUT) {
            Ok(line) => serde_json::from_str(&line).map_err(|_| None),
            Err(error) => Err(Some(error)),
        };
        match ready {
            Ok(ready) => Ok(ServerProcess {
                process,
                log,
                ready,
            }),
            Err(error) => {
                end(&mut process).map_err(ServerError::Control)?;
                let log = last_lines(&mut log);
                Err(match error {
                    Some(error) if error.kind() == io::ErrorKind::TimedOut => ServerError::Late {
                        what: "was not ready",
                        limit: START_TIMEOUT,
                        log,
                    },
                    Some(_) | None => ServerError::NotReady { log },
                })
            }
        }
    }
}

impl ServerProcess {
    /// URL of the server.
    pub fn url(&self) -> &str {
        &self.ready.api_url
    }

    /// API key of the operator.
    pub fn api_key(&self) -> &str {
        &self.ready.api_key
    }

    /// Address that the server listens on.
    pub fn address(&self) -> Option<SocketAddr> {
        self.url().split_once("://")?.1.parse().ok()
    }

    /// Process ID of the server.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// A client of the server, as its operator.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if HTTP cannot be set up.
    pub fn client(&self) -> Result<Client, ClientError> {
        Client::new(self.url(), self.api_key())
    }

    /// Kills the server as `kill -9` does. Its sandboxes go on. Blocks.
    ///
    /// # Errors
    ///
    /// [`ServerError::Control`]
    pub fn kill(mut self) -> Result<(), ServerError> {
        end(&mut self.process).map_err(ServerError::Control)
    }

    /// Asks the server to stop, and waits until it has. Blocks.
    ///
    /// # Errors
    ///
    /// [`ServerError::Late`] if it does not end in time, [`ServerError::Failed`] if it did not end
    /// well.
    pub fn stop(mut self, timeout: Duration) -> Result<(), ServerError> {
        if self.process.stdin.take().is_none() {
            let pid = Pid::from_child(&self.process);
            kill_process(pid, Signal::TERM).map_err(|error| ServerError::Control(error.into()))?;
        }
        self.wait(timeout)
    }

    /// Waits for the end of a server that was asked to stop. Blocks.
    ///
    /// # Errors
    ///
    /// As [`ServerProcess::stop`].
    pub fn wait(mut self, timeout: Duration) -> Result<(), ServerError> {
        match wait(&mut self.process, timeout) {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(status)) => Err(ServerError::Failed {
                status,
                log: last_lines(&mut self.log),
            }),
            Ok(None) => Err(ServerError::Late {
                what: "did not end",
                limit: timeout,
                log: last_lines(&mut self.log),
            }),
            Err(error) => Err(ServerError::Control(error)),
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // One that has ended already needs nothing, and nobody is left to be told.
        drop(end(&mut self.process));
    }
}

fn end(process: &mut Child) -> io::Result<()> {
    process.kill()?;
    process.wait().map(drop)
}

/// Waits for the end of a process; `None` if it does not come in time.
fn wait(process: &mut Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    // A process that has been waited for has no descriptor any more.
    if let Some(status) = process.try_wait()? {
        return Ok(Some(status));
    }
    let pidfd = pidfd_open(Pid::from_child(process), PidfdFlags::empty())?;
    if is_readable(&pidfd, timeout)? {
        return process.wait().map(Some);
    }
    Ok(None)
}

/// Reads up to the first end of a line.
fn first_line(mut stdout: ChildStdout, timeout: Duration) -> io::Result<String> {
    let deadline = Instant::now() + timeout;
    let mut line = Vec::new();
    let mut byte = [0];
    // Byte by byte: nothing behind the line may be taken, and it is short.
    while line.last() != Some(&b'\n') {
        if !is_readable(&stdout, deadline.saturating_duration_since(Instant::now()))? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match stdout.read(&mut byte)? {
            0 => break,
            _ => line.extend_from_slice(&byte),
        }
    }
    String::from_utf8(line).map_err(io::Error::other)
}

fn is_readable(descriptor: &impl AsFd, timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
    let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
    Ok(poll(&mut polled, Some(&timeout))? > 0)
}

/// The end of a log, on lines of its own.
fn last_lines(log: &mut File) -> String {
    let mut text = String::new();
    let read = log
        .seek(SeekFrom::Start(0))
        .and_then(|_| log.read_to_string(&mut text));
    let mut lines: Vec<&str> = text.trim().lines().rev().take(LOG_LINES).collect();
    lines.reverse();
    match (read, lines.is_empty()) {
        (Ok(_), false) => lines.join("\n"),
        (Ok(_), true) | (Err(_), _) => "it logged nothing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that is a shell script.
    fn start(script: &str) -> Result<ServerProcess, ServerError> {
        let directory = tempfile::tempdir().unwrap();
        let executable = directory.path().join("skep");
        std::fs::write(&executable, format!("#!/bin/sh\n{script}\n")).unwrap();
        let made = Command::new("chmod").arg("+x").arg(&executable).status();
        assert!(made.unwrap().success());
        ServerCommand::new(executable, directory.path()).start(tempfile::tempfile().unwrap())
    }

    const READY: &str = r#"echo '{"apiUrl":"http://127.0.0.1:7","apiKey":"e2b_1"}'"#;

    #[test]
    fn a_server_is_ready_when_it_says_so() {
        let server = start(&format!("{READY}; exec sleep 60")).unwrap();
        assert_eq!(server.url(), "http://127.0.0.1:7");
        assert_eq!(server.address(), Some(([127, 0, 0, 1], 7).into()));
        server.kill().unwrap();
    }

    #[test]
    fn a_server_that_is_never_ready_is_quoted() {
        let error = start("echo no such database >&2").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the server ended before it was ready: no such database"
        );
    }

    #[test]
    fn a_server_that_ends_badly_is_told_from_one_that_ends_well() {
        let stopped = |code: u8| {
            let server = start(&format!(
                "trap 'exit {code}' TERM; {READY}; while :; do sleep 0.01; done"
            ));
            server.unwrap().stop(Duration::from_secs(20))
        };
        stopped(0).unwrap();
        assert!(matches!(stopped(3), Err(ServerError::Failed { .. })));
    }
}
