//! The directory of one sandbox on the host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the disk's file.
const IMAGE: &str = "disk.img";
/// Name of the empty directory on which a launcher puts mounts together.
const STAGING: &str = "staging";

/// The directory of one sandbox on the host. Dropping this does nothing.
#[derive(Debug, Clone)]
pub(crate) struct SandboxDirectory {
    path: PathBuf,
}

impl SandboxDirectory {
    /// The directory at `path`, which may not be there yet.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// Makes it, with the staging directory in it. One that is there already is an error.
    pub(crate) fn create(&self) -> io::Result<()> {
        fs::create_dir(&self.path)?;
        fs::create_dir(self.staging())
    }

    /// Removes it with everything in it. Finding nothing is not an error.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn image(&self) -> PathBuf {
        self.path.join(IMAGE)
    }

    pub(crate) fn staging(&self) -> PathBuf {
        self.path.join(STAGING)
    }
}
