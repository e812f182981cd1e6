//! A server of the bench's own, on data that nobody else uses.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use skep_client::Client;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::error::{BenchError, calling, local};
use crate::processes::Group;

/// How long a server may take until it is ready.
const START: Duration = Duration::from_secs(60);
/// How long it may take to end all its sandboxes and itself.
const STOP: Duration = Duration::from_secs(120);
const CGROUPS: &str = "/sys/fs/cgroup";
/// More than any host holds, so that the limit is the host's.
const SANDBOXES: &str = "100000";

/// How to start a server, and where it may keep what it has.
#[derive(Debug, Clone)]
pub struct ServerCommand {
    /// The executable `skep`.
    pub executable: PathBuf,
    /// The configuration file, if one was named.
    pub config: Option<PathBuf>,
    /// Where templates are kept.
    pub cache_dir: PathBuf,
    /// A directory that nothing else uses, on the disk that is to be measured. The server's data is
    /// in `data` below it.
    pub directory: PathBuf,
}

/// What is said on the command line and means the server.
#[derive(Debug, Clone)]
pub(crate) struct ServerChoices {
    /// How many sandboxes of each template it keeps ready, if not as configured.
    pub(crate) pool: Option<u32>,
    /// The template that is measured, which is made ready when the server starts.
    pub(crate) template: String,
}

impl ServerCommand {
    /// Where a server started by this command keeps its record and its sandboxes.
    pub fn data_dir(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn log_file(&self) -> PathBuf {
        self.directory.join("server.log")
    }
}

/// A server that runs. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct OwnServer {
    command: ServerCommand,
    choices: ServerChoices,
    process: Child,
    ready: Ready,
}

/// The line that a server prints when it is ready.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    api_url: String,
    api_key: String,
}

impl OwnServer {
    pub(crate) async fn start(
        command: ServerCommand,
        choices: ServerChoices,
    ) -> Result<Self, BenchError> {
        let (process, ready) = spawn(&command, &choices, "127.0.0.1:0").await?;
        Ok(Self {
            command,
            choices,
            process,
            ready,
        })
    }

    pub(crate) fn client(&self) -> Result<Client, BenchError> {
        Client::new(&self.ready.api_url, &self.ready.api_key)
            .map_err(calling("understand the server's address"))
    }

    /// The id of the server's process.
    pub(crate) fn pid(&self) -> Result<u32, BenchError> {
        self.process
            .id()
            .ok_or_else(|| self.failed(io::ErrorKind::NotConnected.into()))
    }

    /// Where the processes of its sandboxes are listed.
    pub(crate) fn group(&self) -> Result<Group, BenchError> {
        let path = self.command.data_dir().join("instance");
        let number = fs::read_to_string(&path).map_err(local("read", &path))?;
        let name = format!("skep-{}", number.trim());
        Group::find(Path::new(CGROUPS), &name).map_err(local("look into", CGROUPS))
    }

    /// Kills the server as `kill -9` does.
    pub(crate) async fn kill(&mut self) -> Result<(), BenchError> {
        let killed = self.process.kill().await;
        killed.map_err(|error| self.failed(error))
    }

    /// Starts the server again after [`Self::kill`], at the same address; returns when it is ready.
    pub(crate) async fn start_again(&mut self) -> Result<(), BenchError> {
        let address = self.ready.api_url.trim_start_matches("http://").to_owned();
        (self.process, self.ready) = spawn(&self.command, &self.choices, &address).await?;
        Ok(())
    }

    /// Asks the server to end its sandboxes and itself.
    pub(crate) async fn stop(mut self) -> Result<(), BenchError> {
        let pid = self
            .process
            .id()
            .and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if let Some(pid) = pid {
            kill_process(pid, Signal::TERM).map_err(|error| self.failed(error.into()))?;
        }
        let ended = timeout(STOP, self.process.wait()).await;
        match ended.map_err(|_| late("the stop of the server", STOP))? {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(self.failed(bad_end(status))),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn failed(&self, source: io::Error) -> BenchError {
        failed(&self.command, source)
    }
}

fn failed(command: &ServerCommand, source: io::Error) -> BenchError {
    let log = fs::read_to_string(command.log_file()).unwrap_or_default();
    let lines: Vec<&str> = log.trim_end().lines().rev().take(5).collect();
    let last_words = lines.into_iter().rev().collect::<Vec<_>>().join("\n");
    BenchError::Server { last_words, source }
}

fn late(what: &'static str, limit: Duration) -> BenchError {
    BenchError::Late { what, limit }
}

fn bad_end(status: ExitStatus) -> io::Error {
    io::Error::other(format!("the server ended with {status}"))
}

async fn spawn(
    command: &ServerCommand,
    choices: &ServerChoices,
    listen: &str,
) -> Result<(Child, Ready), BenchError> {
    let log_file = command.log_file();
    let log = File::options().create(true).append(true).open(&log_file);
    let log = log.map_err(local("write", &log_file))?;
    let mut server = Command::new(&command.executable);
    if let Some(config) = &command.config {
        server.arg("--config").arg(config);
    }
    server
        .arg("--data-dir")
        .arg(command.data_dir())
        .args(["serve", "--json", "--listen", listen, "--cache-dir"])
        .arg(&command.cache_dir)
        .env("SKEP_LOG", "warn")
        .env("SKEP_WHEN_STOPPED", "end")
        .env("SKEP_MAX_SANDBOXES", SANDBOXES)
        .env("SKEP_POOL_WARM", &choices.template)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .kill_on_drop(true);
    if let Some(ready) = choices.pool {
        server.env("SKEP_POOL_READY", ready.to_string());
    }
    let mut process = server
        .spawn()
        .map_err(local("start", &command.executable))?;
    let stdout = process.stdout.take().expect("it is piped");
    let mut line = String::new();
    let mut reader = BufReader::new(stdout);
    let read = timeout(START, reader.read_line(&mut line)).await;
    let ready = read
        .map_err(|_| late("the start of the server", START))?
        .and_then(|_| serde_json::from_str(&line).map_err(io::Error::from));
    match ready {
        Ok(ready) => Ok((process, ready)),
        Err(error) => {
            // What it logs at its end is what a person wants to read.
            process
                .kill()
                .await
                .map_err(local("end", &command.executable))?;
            Err(failed(command, error))
        }
    }
}
