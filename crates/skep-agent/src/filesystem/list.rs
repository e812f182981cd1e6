//! Listing directories.
//!
//! An answer is made whole before it is sent, and the agent's memory is small: it has a reserve of
//! 64 MiB that code in the sandbox cannot take. So an answer is bounded by the number of its
//! entries and by their bytes, and what lies in a tree decides about neither.

use std::io;

use rustix::fs::FileType;
use rustix::io::Errno;
use skep_wire::rpc::filesystem::EntryInfo;

use super::{FileError, entry, size};
use crate::rootfs::{Directory, Entry};
use crate::sandbox::path;
use crate::sandbox::users::OwnerNames;

/// The entries that one answer may hold.
const MAX_ENTRIES: usize = 50_000;

/// The bytes that they may take. Ordinary ones take some 350 each.
const MAX_BYTES: usize = 16 << 20;

/// Lists `directory` to `depth` levels, each directory before what is in it, by name.
///
/// `directory` itself may be a link; links inside are listed but not entered. What disappears
/// in the middle is left out, and so is what lies deeper than a path is long.
pub(crate) fn list(
    directory: &str,
    depth: u32,
    names: &OwnerNames,
) -> Result<Vec<EntryInfo>, FileError> {
    let room = ListingBudget {
        entries: MAX_ENTRIES,
        bytes: MAX_BYTES,
    };
    list_within(room, directory, depth, names)
}

fn list_within(
    room: ListingBudget,
    directory: &str,
    depth: u32,
    names: &OwnerNames,
) -> Result<Vec<EntryInfo>, FileError> {
    let failed = |error: io::Error| match Errno::from_io_error(&error) {
        Some(Errno::NOTDIR) => FileError::NotADirectory {
            path: directory.to_owned(),
        },
        _ => FileError::io("list", directory, error),
    };
    let too_much = |_full: Full| FileError::TooMuch {
        path: directory.to_owned(),
        entries: room.entries,
        bytes: room.bytes,
    };
    let root = Directory::find(directory).map_err(failed)?;
    let mut listing = Listing {
        shown_as: directory,
        names,
        left: room,
    };
    let read = listing.read(&root, "", depth.max(1)).map_err(failed)?;
    let mut pending = read.map_err(too_much)?;
    let mut entries = Vec::new();
    while let Some(found) = pending.pop() {
        entries.push(found.entry);
        let Some(depth) = found.depth else {
            continue;
        };
        let directory = root.below(&found.relative);
        let read = directory.and_then(|directory| listing.read(&directory, &found.relative, depth));
        // It may be gone, or turned into something else, since its parent was read.
        if let Ok(read) = read {
            pending.extend(read.map_err(too_much)?);
        }
    }
    Ok(entries)
}

/// Room left in an answer.
#[derive(Debug, Clone, Copy)]
struct ListingBudget {
    entries: usize,
    bytes: usize,
}

/// There is no more room.
#[derive(Debug)]
struct Full;

impl ListingBudget {
    fn take(&mut self, entries: usize, bytes: usize) -> Result<(), Full> {
        self.entries = self.entries.checked_sub(entries).ok_or(Full)?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or(Full)?;
        Ok(())
    }
}

struct Listing<'a> {
    shown_as: &'a str,
    names: &'a OwnerNames,
    left: ListingBudget,
}

struct Found {
    entry: EntryInfo,
    /// Its path below the directory that is listed.
    relative: String,
    /// Number of levels to descend into it; `None` if it is not entered.
    depth: Option<u32>,
}

impl Listing<'_> {
    /// Returns the entries of a directory, which has this path below the one that is listed and is
    /// wanted to this depth. The first by name comes last.
    fn read(
        &mut self,
        directory: &Directory,
        relative: &str,
        depth: u32,
    ) -> io::Result<Result<Vec<Found>, Full>> {
        let mut inside = Vec::new();
        for entry in directory.entries()? {
            let entry = entry?;
            // The names alone may be too much.
            if let Err(full) = self.left.take(1, size_of::<Found>() + entry.name.length()) {
                return Ok(Err(full));
            }
            inside.push(entry);
        }
        inside.sort_unstable_by(|some, other| other.name.cmp(&some.name));
        let mut all = Vec::with_capacity(inside.len());
        for entry in inside {
            // What cannot be described is gone, or refused.
            let Ok(found) = self.describe(directory, &entry, relative, depth) else {
                continue;
            };
            let bytes = size::of_entry(&found.entry) + size::of_text(&found.relative);
            if let Err(full) = self.left.take(0, bytes) {
                return Ok(Err(full));
            }
            all.push(found);
        }
        Ok(Ok(all))
    }

    fn describe(
        &self,
        directory: &Directory,
        entry: &Entry,
        above: &str,
        depth: u32,
    ) -> io::Result<Found> {
        let shown = entry.name.shown();
        let relative = match above {
            "" => shown,
            above => path::join(above, &shown),
        };
        let path = path::join(self.shown_as, &relative);
        let described = entry::describe_in(directory, &entry.name, &path, self.names)?;
        let is_entered = depth > 1 && is_directory(directory, entry);
        Ok(Found {
            entry: described,
            relative,
            depth: is_entered.then(|| depth - 1),
        })
    }
}

/// Some file systems do not say; then the kernel is asked.
fn is_directory(inside: &Directory, entry: &Entry) -> bool {
    if entry.kind == FileType::Unknown {
        let stat = inside.stat(&entry.name);
        return stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
    }
    entry.kind.is_dir()
}

#[cfg(test)]
mod tests;
