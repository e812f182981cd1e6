//! Space on the disk that belongs to the database alone.
//!
//! When sandboxes have filled the disk, their ends must still be written. So the database owns
//! some blocks beyond the end of its file and of its log. They are allocated and not used, and
//! the sizes of the files do not show them; SQLite gets them by growing into them.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, fallocate};

/// Size of the reserve beyond the end of the file, and limit of the write-ahead log. The index of a
/// log of this size does not have to grow.
const BYTES: u64 = 8 << 20;

/// The reserve of one database.
#[derive(Debug)]
pub(crate) struct Reserve {
    file: Arc<File>,
    log: PathBuf,
    /// Up to where blocks of the file are allocated.
    until: u64,
    is_whole: bool,
}

impl Reserve {
    /// Takes the space for the database at `path`, which `file` is. A disk without room is
    /// reported and no error: there may be some later.
    pub(crate) fn new(file: Arc<File>, path: &Path) -> Self {
        let mut log = OsString::from(path);
        log.push("-wal");
        let mut reserve = Self {
            file,
            log: log.into(),
            until: 0,
            is_whole: true,
        };
        reserve.top_up();
        reserve
    }

    /// Takes what is missing, because it was used or was not to be had. Does not wait for the
    /// disk.
    pub(crate) fn top_up(&mut self) {
        let topped_up = self.claim();
        match &topped_up {
            Ok(()) if !self.is_whole => tracing::info!("the database has its reserve on the disk"),
            Err(error) if self.is_whole => {
                tracing::warn!(%error, "the database has no reserve on the disk");
            }
            Ok(()) | Err(_) => {}
        }
        self.is_whole = topped_up.is_ok();
    }

    fn claim(&mut self) -> io::Result<()> {
        // No locks are held on the log, so it may be opened and closed at any time.
        let log = OpenOptions::new().write(true).open(&self.log);
        match log {
            Ok(log) => fallocate(&log, FallocateFlags::KEEP_SIZE, 0, BYTES)?,
            // It is there from the first transaction on.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let length = self.file.metadata()?.len();
        if self.until < length + BYTES / 2 {
            fallocate(&*self.file, FallocateFlags::KEEP_SIZE, length, BYTES)?;
            self.until = length + BYTES;
        }
        Ok(())
    }
}
