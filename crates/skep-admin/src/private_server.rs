//! A server for one command, on a host where none runs.

use std::path::Path;
use std::time::Duration;

use skep_cli::CliError;
use skep_client::{Client, ServerCommand, ServerError, ServerProcess};
use skep_config::{Config, env_vars};
use tempfile::TempDir;

/// Time limit for a server to leave the host as it was.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// A server that is gone, with all it made, when this is stopped or dropped, and also when this
/// process is killed.
#[derive(Debug)]
pub(crate) struct PrivateServer {
    process: ServerProcess,
    /// Directory of its data, which it removes itself.
    directory: TempDir,
}

impl PrivateServer {
    /// Starts this very executable as a server on a loopback port and data of its own. Blocks.
    ///
    /// # Errors
    ///
    /// With the end of its log, if it does not become ready.
    pub(crate) fn start(config_file: Option<&Path>, config: &Config) -> Result<Self, CliError> {
        let directory = tempfile::Builder::new()
            .prefix("skep-run-")
            .tempdir()
            .map_err(CliError::failure)?;
        let executable = std::env::current_exe().map_err(CliError::failure)?;
        let mut command = ServerCommand::new(executable, directory.path())
            .private()
            .cache_dir(&config.cache_dir)
            .env(env_vars::SKEP_LOG, "warn");
        if let Some(path) = config_file {
            command = command.config(path);
        }
        // It has no name, so nothing of it is left.
        let log = tempfile::tempfile().map_err(CliError::failure)?;
        let process = command.start(log).map_err(failed)?;
        Ok(Self { process, directory })
    }

    /// A client of the server.
    pub(crate) fn client(&self) -> Result<Client, CliError> {
        Ok(self.process.client()?)
    }

    /// Ends the server, and waits until nothing of it is left. Blocks.
    ///
    /// # Errors
    ///
    /// If something is.
    pub(crate) fn stop(self) -> Result<(), CliError> {
        self.process.stop(STOP_TIMEOUT).map_err(failed)?;
        // It has removed its data, and the directory was that.
        let _gone = self.directory.keep();
        Ok(())
    }
}

fn failed(error: ServerError) -> CliError {
    CliError::failure(error).hint("`skep doctor` says what this host lacks")
}
