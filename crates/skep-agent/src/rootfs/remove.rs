//! Removing whole trees.

use std::io;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::Location;
use crate::sandbox::identifier;

impl Location {
    /// Removes what is here and everything below it. What does not exist is removed already.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match errno(self.unlink()) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            // Linux says EISDIR, POSIX allows EPERM.
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let root = match errno(self.open(flags, Mode::empty())) {
            Ok(root) => root,
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        let prefix = format!(".removing-{}", identifier::random(12));
        skep_linux::empty_directory(root, prefix)?;
        match errno(self.directory.remove_directory(&self.name)) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

fn errno<T>(answer: io::Result<T>) -> Result<T, Errno> {
    answer.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}
