//! The directory of a kernel's sockets and its connection file.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use skep_jupyter::signed::Connection;

use crate::process::Processes;

/// A directory that only the sandbox's user can enter, removed in the end.
pub(super) struct RuntimeDirectory {
    path: PathBuf,
    processes: Arc<dyn Processes>,
}

impl RuntimeDirectory {
    pub(super) fn new(processes: &Arc<dyn Processes>) -> io::Result<Self> {
        Ok(Self {
            path: processes.make_directory()?,
            processes: Arc::clone(processes),
        })
    }

    /// Returns the common prefix of the sockets' paths.
    pub(super) fn sockets(&self) -> String {
        self.path.join("k").to_string_lossy().into_owned()
    }

    /// Writes the file that tells a kernel where to listen, and says where it is.
    pub(super) fn write_connection(&self, connection: &Connection) -> io::Result<String> {
        let path = self.path.join("connection.json");
        let text = serde_json::to_vec(connection).map_err(io::Error::other)?;
        self.processes.write_file(&path, &text)?;
        Ok(path.to_string_lossy().into_owned())
    }
}

impl Drop for RuntimeDirectory {
    fn drop(&mut self) {
        if let Err(error) = self.processes.remove_directory(&self.path) {
            tracing::debug!(%error, "directory of a kernel is left");
        }
    }
}
