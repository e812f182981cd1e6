//! Entries of a directory.

use std::io;

use rustix::fs::{Dir, FileType};

use super::{Directory, Name};

/// One entry of a directory.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: Name,
    /// `Unknown` on file systems that do not say.
    pub(crate) kind: FileType,
}

/// Reads a directory. What comes or goes meanwhile may be missing or not.
pub(crate) struct Entries(Dir);

impl Directory {
    /// Returns an iterator over its entries.
    pub(crate) fn entries(&self) -> io::Result<Entries> {
        Ok(Entries(Dir::new(self.readable()?)?))
    }
}

impl Iterator for Entries {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let found = match self.0.read()? {
                Ok(found) => found,
                Err(errno) => return Some(Err(errno.into())),
            };
            let name = match Name::new(found.file_name().to_bytes()) {
                Ok(name) => name,
                Err(error) => return Some(Err(error)),
            };
            if !name.is_dots() {
                let kind = found.file_type();
                return Some(Ok(Entry { name, kind }));
            }
        }
    }
}
