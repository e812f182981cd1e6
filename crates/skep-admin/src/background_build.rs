//! Templates that are built while the server serves.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use skep_cli::{CliError, print_note};
use skep_image::{Cancel, Catalog};
use skep_launch::Launcher;
use skep_packages::PackageSettings;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::template;

/// Priority of the build among the processes of the host: the lowest, for sandboxes come first.
/// The kernel derives the one for disks from it.
const NICE: i32 = 19;
/// Time limit for a build to end that was asked to.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// A build that is to begin once clients can connect.
#[derive(Debug)]
pub struct BackgroundBuild {
    /// Directory of template layers.
    pub cache_dir: PathBuf,
    /// Names of the templates, in the order in which they are built.
    pub names: &'static [&'static str],
    /// Package mirrors, proxies and certificate authorities of this host.
    pub host: PackageSettings,
    /// Launcher of the steps.
    pub launcher: Launcher,
}

/// A build that has begun.
#[derive(Debug)]
pub struct RunningBuild {
    cancel: Cancel,
    ended: oneshot::Receiver<Result<(), CliError>>,
}

impl BackgroundBuild {
    /// Starts the build on a thread of its own, whose processes inherit its low priority.
    ///
    /// # Errors
    ///
    /// If there is no thread to be had.
    pub fn start(self) -> Result<RunningBuild, CliError> {
        let cancel = Cancel::default();
        let (sender, ended) = oneshot::channel();
        let asked = cancel.clone();
        let work = move || {
            let built = self.build(&asked);
            if sender.send(built).is_err() {
                tracing::debug!("the server stopped before the build");
            }
        };
        thread::Builder::new()
            .name("template build".to_owned())
            .spawn(work)
            .map_err(CliError::failure)?;
        Ok(RunningBuild { cancel, ended })
    }

    /// Blocks until the templates are built.
    fn build(&self, cancel: &Cancel) -> Result<(), CliError> {
        if let Err(error) = rustix::process::setpriority_process(None, NICE) {
            tracing::warn!(%error, "the template is built at the usual priority");
        }
        let catalog = Catalog::open(&self.cache_dir).map_err(CliError::failure)?;
        for &name in self.names {
            let found = catalog.find(name).map_err(CliError::failure)?;
            if let Some(image) = found.filter(|image| image.name != name) {
                print_note(&format!(
                    "`{name}` is built meanwhile; until then `{}` stands in for it",
                    image.name
                ));
            }
        }
        for &name in self.names {
            template::build(&catalog, &self.host, &self.launcher, name, cancel)?;
        }
        Ok(())
    }
}

impl RunningBuild {
    /// Waits for the end, and tells the operator of a failure. Returns true if the template is
    /// built. To be called until it has returned once.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost if this is dropped and called again.
    pub async fn ended(&mut self) -> bool {
        match (&mut self.ended).await {
            Ok(Ok(())) => true,
            Ok(Err(error)) => {
                if !self.cancel.is_cancelled() {
                    error.report(false);
                    print_note("the server goes on with the templates that it has");
                }
                false
            }
            Err(_panicked) => {
                tracing::error!("the template build panicked");
                false
            }
        }
    }

    /// Asks the build to end, and waits until it has. What is finished of it is kept, and the next
    /// build sweeps up the rest.
    pub async fn stop(mut self) {
        self.cancel.cancel();
        if timeout(STOP_TIMEOUT, self.ended()).await.is_err() {
            tracing::warn!("the template build did not end in time and is left behind");
        }
    }
}
