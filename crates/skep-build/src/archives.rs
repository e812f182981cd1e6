//! The port to what clients have uploaded.

use std::fmt;
use std::fs::File;
use std::io;

use skep_types::{FilesHash, TeamId};

/// Files that teams have uploaded for their builds: archives of `tar`, perhaps compressed by `gzip`.
pub trait Archives: fmt::Debug + Send + Sync {
    /// Opens an upload of a team; `None` if it has none of this name. Blocks.
    ///
    /// # Errors
    ///
    /// If it is there and cannot be read.
    fn open(&self, team: &TeamId, files: &FilesHash) -> io::Result<Option<File>>;
}
