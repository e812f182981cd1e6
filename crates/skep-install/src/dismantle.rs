//! Taking a server off the host that nobody needs again.

use std::path::Path;
use std::time::{Duration, Instant};

use skep_host::{InstanceError, StartError};
use skep_native::{Native, NativeConfig};

use crate::InstallError;

/// Time limit for a killed server to be gone.
const LAST_BREATH: Duration = Duration::from_secs(10);

/// Takes off the host whatever a server on this data has left there, but not the data.
///
/// # Errors
///
/// If something cannot be removed; the rest is.
pub async fn dismantle(data_dir: &Path) -> Result<(), InstallError> {
    if !data_dir.exists() {
        return Ok(());
    }
    let executable = std::env::current_exe().map_err(InstallError::failure)?;
    let config = NativeConfig::new(data_dir, executable);
    let deadline = Instant::now() + LAST_BREATH;
    let native = loop {
        match Native::start(config.clone()).await {
            Ok(native) => break native,
            // A server that was killed a moment ago still holds its data.
            Err(StartError::Instance(InstanceError::DataInUse(_))) if Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(error) => return Err(InstallError::failure(error)),
        }
    };
    native.dismantle().await.map_err(InstallError::failure)
}

/// The same, and the data too.
///
/// # Errors
///
/// If something cannot be removed; the rest is.
pub async fn remove(data_dir: &Path) -> Result<(), InstallError> {
    let dismantled = dismantle(data_dir).await;
    let removed = tokio::fs::remove_dir_all(data_dir).await;
    dismantled.and(removed.map_err(InstallError::failure))
}
