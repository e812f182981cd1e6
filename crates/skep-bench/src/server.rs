//! A server of the bench's own, on data that nothing else uses.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use skep_client::{Client, ServerCommand, ServerError, ServerProcess};

use crate::error::{BenchError, local};
use crate::processes::Group;
use crate::sandbox::CALL_TIMEOUT;

/// Time limit for a server to end all its sandboxes and itself.
const STOP_TIMEOUT: Duration = Duration::from_secs(120);
const CGROUPS: &str = "/sys/fs/cgroup";
/// More than any host holds, so that the limit is the host's.
const SANDBOXES: &str = "100000";

/// Files and directories that the bench uses.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The executable `skep`.
    pub executable: PathBuf,
    /// An executable that calls [`crate::run_floor`] if its first argument is [`crate::FLOOR`].
    pub floor: PathBuf,
    /// CRIU as it is called on this host, if there is one that is new enough.
    pub criu: Option<Vec<String>>,
    /// The configuration file of the server, if one was named.
    pub config: Option<PathBuf>,
    /// Directory of template layers.
    pub cache_dir: PathBuf,
    /// A directory that nothing else uses, on the disk that is to be measured. The server's data is
    /// in `data` below it.
    pub directory: PathBuf,
}

impl Setup {
    /// Data directory of the bench's own server.
    pub fn data_dir(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The server, with `pool` spares of each template, if not as configured. `template` is made
    /// ready when it starts.
    fn server(&self, pool: Option<u32>, template: &str) -> ServerCommand {
        let mut command = ServerCommand::new(&self.executable, self.data_dir())
            .cache_dir(&self.cache_dir)
            .env("SKEP_LOG", "warn")
            .env("SKEP_WHEN_STOPPED", "end")
            .env("SKEP_MAX_SANDBOXES", SANDBOXES)
            .env("SKEP_POOL_WARM", template);
        if let Some(config) = &self.config {
            command = command.config(config);
        }
        if let Some(ready) = pool {
            command = command.env("SKEP_POOL_READY", ready.to_string());
        }
        command
    }
}

/// The bench's own server. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct OwnServer {
    command: ServerCommand,
    log_file: PathBuf,
    process: Option<ServerProcess>,
}

impl OwnServer {
    pub(crate) async fn start(
        setup: &Setup,
        pool: Option<u32>,
        template: &str,
    ) -> Result<Self, BenchError> {
        let mut server = Self {
            command: setup.server(pool, template),
            log_file: setup.directory.join("server.log"),
            process: None,
        };
        server.start_again().await?;
        Ok(server)
    }

    pub(crate) fn client(&self) -> Result<Client, BenchError> {
        Ok(self.running().client()?.with_call_timeout(CALL_TIMEOUT))
    }

    /// Process ID of the server.
    pub(crate) fn pid(&self) -> u32 {
        self.running().pid()
    }

    /// The cgroup of the server, in which that of its sandbox `id` is.
    pub(crate) fn group(&self, id: &str) -> Result<Group, BenchError> {
        Group::around(Path::new(CGROUPS), id).map_err(local("look into", CGROUPS))
    }

    /// Kills the server as `kill -9` does.
    pub(crate) async fn kill(&mut self) -> Result<(), BenchError> {
        match self.process.take() {
            Some(process) => blocking(|| process.kill()).await,
            None => Ok(()),
        }
    }

    /// Starts the server after [`Self::kill`], at the same address; returns when it is ready.
    pub(crate) async fn start_again(&mut self) -> Result<(), BenchError> {
        let log = File::options()
            .create(true)
            .append(true)
            .read(true)
            .open(&self.log_file)
            .map_err(local("write", &self.log_file))?;
        let command = self.command.clone();
        let process = blocking(move || command.start(log)).await?;
        if let Some(address) = process.address() {
            self.command = self.command.clone().listen(address);
        }
        self.process = Some(process);
        Ok(())
    }

    /// Starts the server anew, with another setting. Its sandboxes live on.
    pub(crate) async fn change(&mut self, name: &str, value: &str) -> Result<(), BenchError> {
        self.reconfigure(|command| command.env(name, value)).await
    }

    /// Starts the server anew, by a changed command line. Its sandboxes live on.
    pub(crate) async fn reconfigure(
        &mut self,
        change: impl FnOnce(ServerCommand) -> ServerCommand,
    ) -> Result<(), BenchError> {
        self.kill().await?;
        self.command = change(self.command.clone());
        self.start_again().await
    }

    /// Asks the server to end its sandboxes and itself.
    pub(crate) async fn stop(mut self) -> Result<(), BenchError> {
        match self.process.take() {
            Some(process) => blocking(|| process.stop(STOP_TIMEOUT)).await,
            None => Ok(()),
        }
    }

    fn running(&self) -> &ServerProcess {
        self.process.as_ref().expect("it runs unless it was killed")
    }
}

/// Does what blocks on another thread.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ServerError> + Send + 'static,
) -> Result<T, BenchError> {
    tokio::task::spawn_blocking(work)
        .await
        .expect("starting and stopping a server does not panic")
        .map_err(BenchError::Server)
}
