//! A server for one command, on a host where none runs.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;
use skep_cli::CliError;
use skep_client::Client;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::config::Config;
use crate::env_vars;

/// How long it may take until it is ready.
const START: Duration = Duration::from_secs(60);
/// How long it may take to leave the host as it was.
const STOP: Duration = Duration::from_secs(30);

/// A server that is gone, with all it made, when its standard input ends: when this is stopped or
/// dropped, and also when this process is killed.
#[derive(Debug)]
pub(crate) struct PrivateServer {
    process: Child,
    /// Its data, which it removes itself.
    directory: TempDir,
    /// What it says, for the case that it fails. It has no name, so nothing of it is left.
    log: File,
    ready: Ready,
}

/// The line that a server prints when it is ready.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Ready {
    api_url: String,
    api_key: String,
}

impl PrivateServer {
    /// Starts this very executable as a server on a loopback port and data of its own.
    ///
    /// # Errors
    ///
    /// With what it said, if it does not become ready.
    pub(crate) async fn start(
        config_file: Option<&Path>,
        config: &Config,
    ) -> Result<Self, CliError> {
        let directory = tempfile::Builder::new().prefix("skep-run-").tempdir();
        let directory = directory.map_err(CliError::failure)?;
        let mut log = tempfile::tempfile().map_err(CliError::failure)?;
        let stderr = log.try_clone().map_err(CliError::failure)?;
        let executable = std::env::current_exe().map_err(CliError::failure)?;
        let mut command = Command::new(executable);
        command
            .args(["serve", "--private", "--json", "--listen", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(directory.path())
            .arg("--cache-dir")
            .arg(&config.cache_dir)
            .env(env_vars::SKEP_LOG, "warn")
            // Ctrl-C is for the code; this one is told by its standard input.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr);
        if let Some(path) = config_file {
            command.arg("--config").arg(path);
        }
        let mut process = command.spawn().map_err(CliError::failure)?;
        let stdout = process.stdout.take().expect("it was asked for");
        let mut line = String::new();
        let mut reader = BufReader::new(stdout);
        let read = timeout(START, reader.read_line(&mut line)).await;
        match read {
            Ok(Ok(_)) => match serde_json::from_str(&line) {
                Ok(ready) => Ok(Self {
                    process,
                    directory,
                    log,
                    ready,
                }),
                Err(_) => Err(failed("ended before it was ready", &mut log)),
            },
            Ok(Err(_)) | Err(_) => {
                let what = format!("was not ready within {} s", START.as_secs());
                Err(failed(&what, &mut log))
            }
        }
    }

    /// A client of it.
    pub(crate) fn client(&self) -> Result<Client, CliError> {
        let Ready { api_url, api_key } = &self.ready;
        Ok(Client::new(api_url, api_key)?)
    }

    /// Ends it, and waits until nothing of it is left.
    ///
    /// # Errors
    ///
    /// If something is.
    pub(crate) async fn stop(mut self) -> Result<(), CliError> {
        drop(self.process.stdin.take());
        let ended = timeout(STOP, self.process.wait()).await;
        match ended {
            Ok(Ok(status)) if status.success() => {
                // It has removed its data, and the directory was that.
                let _gone = self.directory.keep();
                Ok(())
            }
            Ok(Ok(status)) => Err(failed(&format!("ended with {status}"), &mut self.log)),
            Ok(Err(error)) => Err(CliError::failure(error)),
            Err(_) => {
                let what = format!("did not end within {} s", STOP.as_secs());
                Err(failed(&what, &mut self.log))
            }
        }
    }
}

/// Tells what happened to the server, and what it said last.
fn failed(what: &str, log: &mut File) -> CliError {
    let mut said = String::new();
    let read = log.rewind().and_then(|()| log.read_to_string(&mut said));
    let text = match (read, said.trim()) {
        (Ok(_), "") | (Err(_), _) => "it said nothing",
        (Ok(_), said) => said,
    };
    CliError::failure(format!("the server of this command {what}: {text}"))
        .hint("`skep doctor` says what this host lacks")
}
