//! Listings.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;

use super::{Content, Entry, EntryKind};
use crate::{ContentError, VolumePath};

/// Limit on the entries of a listing, which is held in memory.
pub const MOST_ENTRIES: usize = 50_000;

impl Content {
    /// The entries of a directory, each directory followed by its own down to `depth` levels, by
    /// their names. Names that are no text are left out: no path of the contract leads to them.
    ///
    /// # Errors
    ///
    /// [`ContentError`].
    pub fn list(&self, path: &VolumePath, depth: u32) -> Result<Vec<Entry>, ContentError> {
        let failed = || ContentError::of("list", path);
        let directory = self.directory(path).map_err(|error| {
            // The contract knows no other word for what is no directory.
            match Errno::from_io_error(&error) {
                Some(Errno::NOTDIR) => ContentError::NotFound(path.clone()),
                Some(_) | None => failed()(error),
            }
        })?;
        let mut entries = Vec::new();
        self.collect(&directory, path, depth, &mut entries)?;
        Ok(entries)
    }

    fn collect(
        &self,
        directory: &OwnedFd,
        path: &VolumePath,
        depth: u32,
        entries: &mut Vec<Entry>,
    ) -> Result<(), ContentError> {
        let failed = || ContentError::of("list", path);
        let left = MOST_ENTRIES.saturating_sub(entries.len());
        let mut names = names(directory, left).map_err(failed())?;
        if names.len() > left {
            return Err(ContentError::TooMany {
                path: path.clone(),
                most: MOST_ENTRIES,
            });
        }
        names.sort_unstable();
        for name in names {
            let below = path.join(&name);
            let entry = match self.entry(directory, &name, &below) {
                Ok(entry) => entry,
                // Sandboxes delete while we look.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(failed()(error)),
            };
            let is_entered =
                depth > 1 && entry.kind == EntryKind::Directory && entry.target.is_none();
            entries.push(entry);
            if is_entered {
                match self.directory(&below) {
                    Ok(inside) => self.collect(&inside, &below, depth - 1, entries)?,
                    Err(error) if is_gone(&error) => {}
                    Err(error) => return Err(failed()(error)),
                }
            }
        }
        Ok(())
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::NOTDIR | Errno::XDEV | Errno::LOOP)
    )
}

/// The names in a directory, and no more than one beyond `most`.
fn names(directory: &OwnedFd, most: usize) -> io::Result<Vec<String>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut reading = Dir::new(rustix::fs::openat(directory, ".", flags, Mode::empty())?)?;
    let mut names = Vec::new();
    while let Some(found) = reading.read() {
        let found = found?;
        let Ok(name) = found.file_name().to_str() else {
            continue;
        };
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
        if names.len() > most {
            break;
        }
    }
    Ok(names)
}
