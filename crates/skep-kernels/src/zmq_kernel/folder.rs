//! Where a kernel's sockets and its connection file are.

use std::io;
use std::path::PathBuf;

use skep_jupyter::signed::Connection;

use crate::process::Processes;

/// A folder that only the sandbox's user can enter, removed in the end.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(processes: &dyn Processes) -> io::Result<Self> {
        processes.make_folder().map(Self)
    }

    /// How the paths of the sockets begin.
    pub(super) fn sockets(&self) -> String {
        self.0.join("k").to_string_lossy().into_owned()
    }

    /// Writes the file that tells a kernel where to listen, and says where it is.
    pub(super) fn write_connection(
        &self,
        processes: &dyn Processes,
        connection: &Connection,
    ) -> io::Result<String> {
        let path = self.0.join("connection.json");
        let text = serde_json::to_vec(connection).map_err(io::Error::other)?;
        processes.write_file(&path, &text)?;
        Ok(path.to_string_lossy().into_owned())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::debug!(%error, "folder of a kernel is left");
        }
    }
}
