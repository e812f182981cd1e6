//! A server for one command, on a machine where none runs.

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
/// How long it may take to leave the machine as it was.
const STOP: Duration = Duration::from_secs(30);
/// What it says goes here, for the case that it fails.
const LOG: &str = "log";

/// A server that is gone, with all it made, when its standard input ends: when this is stopped or
/// dropped, and also when this process is killed.
#[derive(Debug)]
pub(crate) struct PrivateServer {
    process: Child,
    folder: TempDir,
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
        let folder = tempfile::Builder::new().prefix("skep-run-").tempdir();
        let folder = folder.map_err(CliError::failure)?;
        let log = std::fs::File::create(folder.path().join(LOG)).map_err(CliError::failure)?;
        let executable = std::env::current_exe().map_err(CliError::failure)?;
        let mut command = Command::new(executable);
        command
            .args(["serve", "--private", "--json", "--listen", "127.0.0.1:0"])
            .arg("--data-dir")
            .arg(folder.path())
            .arg("--cache-dir")
            .arg(&config.cache_dir)
            .env(env_vars::SKEP_LOG, "warn")
            // Ctrl-C is for the code; this one is told by its standard input.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        if let Some(path) = config_file {
            command.arg("--config").arg(path);
        }
        let mut process = command.spawn().map_err(CliError::failure)?;
        let stdout = process.stdout.take().expect("it was asked for");
        let mut line = String::new();
        let mut reader = BufReader::new(stdout);
        let read = timeout(START, reader.read_line(&mut line)).await;
        let ready = match read {
            Ok(Ok(_)) => serde_json::from_str(&line).ok(),
            Ok(Err(_)) | Err(_) => None,
        };
        match ready {
            Some(ready) => Ok(Self {
                process,
                folder,
                ready,
            }),
            None => Err(last_words(folder.path())),
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
                // It has removed its data, and the folder was that.
                let _gone = self.folder.keep();
                Ok(())
            }
            Ok(Ok(_) | Err(_)) | Err(_) => Err(last_words(self.folder.path())),
        }
    }
}

fn last_words(folder: &Path) -> CliError {
    let log = std::fs::read_to_string(folder.join(LOG)).unwrap_or_default();
    let text = match log.trim() {
        "" => "it said nothing".to_owned(),
        said => said.to_owned(),
    };
    CliError::failure(format!("the server of this command failed: {text}"))
        .hint("`skep doctor` says what this machine lacks")
}
