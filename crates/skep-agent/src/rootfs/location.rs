//! The end of a path: a name in a directory that is held open.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{Directory, Name};
use crate::sandbox::path;

/// An entry that may or may not be there, in a directory that is.
#[derive(Debug)]
pub(crate) struct Location {
    pub(crate) directory: Directory,
    pub(crate) name: Name,
}

impl Location {
    /// Finds the directory in which an absolute path ends. Only its last step is not followed if it
    /// is a link; one with a slash behind it, and `.` and `..`, mean a directory, and that is
    /// followed to.
    pub(crate) fn find(path: &str) -> io::Result<Self> {
        let name = path::base_name(path);
        if path.ends_with('/') || matches!(name, "." | "..") {
            return Ok(Self {
                directory: Directory::find(path)?,
                name: Name::itself(),
            });
        }
        Ok(Self {
            directory: Directory::find(path::parent(path))?,
            name: Name::new(name)?,
        })
    }

    /// Returns the kernel's `stat` of what is there, which is not followed.
    pub(crate) fn stat(&self) -> io::Result<Stat> {
        self.directory.stat(&self.name)
    }

    /// Opens what is there, through a link unless the flags forbid it.
    pub(crate) fn open(&self, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        self.directory.open(&self.name, flags, mode)
    }

    /// Returns true if what is there, which is not followed, is a directory.
    pub(crate) fn is_directory(&self) -> io::Result<bool> {
        Ok(FileType::from_raw_mode(self.stat()?.st_mode).is_dir())
    }

    /// Returns true if a path that ends here leads to a directory.
    pub(crate) fn leads_to_directory(&self) -> io::Result<bool> {
        match self.open(OFlags::PATH | OFlags::DIRECTORY, Mode::empty()) {
            Ok(_) => Ok(true),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOTDIR | Errno::NOENT) => Ok(false),
                _ => Err(error),
            },
        }
    }

    /// Moves what is here to another place, where it replaces what may be there.
    pub(crate) fn rename(&self, to: &Self) -> io::Result<()> {
        self.directory.rename(&self.name, &to.directory, &to.name)
    }

    /// Removes what is here, which is no directory.
    pub(crate) fn unlink(&self) -> io::Result<()> {
        self.directory.unlink(&self.name)
    }
}
