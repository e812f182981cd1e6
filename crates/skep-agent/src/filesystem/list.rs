//! Listing directories.

use std::io;

use rustix::fs::FileType;
use rustix::io::Errno;
use skep_wire::rpc::filesystem::EntryInfo;

use super::{FileError, entry};
use crate::path;
use crate::rootfs::{Directory, Entry};
use crate::users::Names;

/// What one answer may hold. An entry takes some 300 bytes on the wire, and the agent's memory
/// is small.
const MAX_ENTRIES: usize = 100_000;

/// Lists `directory` to `depth` levels, each directory before what is in it, by name.
///
/// `directory` itself may be a link; links inside are listed but not entered. What disappears
/// in the middle is left out, and so is what lies deeper than a path is long.
pub(crate) fn list(
    directory: &str,
    depth: u32,
    names: &Names,
) -> Result<Vec<EntryInfo>, FileError> {
    let failed = |error: io::Error| match Errno::from_io_error(&error) {
        Some(Errno::NOTDIR) => FileError::NotADirectory {
            path: directory.to_owned(),
        },
        _ => FileError::io("list", directory, error),
    };
    let too_many = || FileError::TooMany {
        path: directory.to_owned(),
        limit: MAX_ENTRIES,
    };
    let root = Directory::find(directory).map_err(failed)?;
    let listing = Listing {
        shown_as: directory,
        names,
    };
    let first = Inside {
        relative: "",
        depth: depth.max(1),
        room: MAX_ENTRIES,
    };
    let read = listing.read(&root, &first).map_err(failed)?;
    let mut pending = read.ok_or_else(too_many)?;
    let mut entries = Vec::new();
    while let Some(found) = pending.pop() {
        entries.push(found.entry);
        let Some(depth) = found.depth else {
            continue;
        };
        let inside = Inside {
            relative: &found.relative,
            depth,
            room: MAX_ENTRIES - entries.len() - pending.len(),
        };
        let directory = root.below(&found.relative);
        // It may be gone, or turned into something else, since its parent was read.
        if let Ok(read) = directory.and_then(|directory| listing.read(&directory, &inside)) {
            pending.extend(read.ok_or_else(too_many)?);
        }
    }
    Ok(entries)
}

struct Listing<'a> {
    shown_as: &'a str,
    names: &'a Names,
}

/// A directory that is entered.
struct Inside<'a> {
    /// Its path below the directory that is listed.
    relative: &'a str,
    /// How many levels of it are wanted.
    depth: u32,
    /// How many entries may come from it.
    room: usize,
}

struct Found {
    entry: EntryInfo,
    /// Its path below the directory that is listed.
    relative: String,
    /// How deep it is to be entered, if at all.
    depth: Option<u32>,
}

impl Listing<'_> {
    /// What is in a directory, the first by name last; `None` if that is too much.
    fn read(&self, directory: &Directory, inside: &Inside<'_>) -> io::Result<Option<Vec<Found>>> {
        let mut names = Vec::new();
        for found in directory.entries()? {
            names.push(found?);
            if names.len() > inside.room {
                return Ok(None);
            }
        }
        names.sort_unstable_by(|some, other| other.name.cmp(&some.name));
        let found = names.into_iter().filter_map(|entry| {
            let shown = entry.name.shown();
            let relative = match inside.relative {
                "" => shown,
                above => path::join(above, &shown),
            };
            let path = path::join(self.shown_as, &relative);
            let described = entry::describe_in(directory, &entry.name, &path, self.names);
            let is_entered = inside.depth > 1 && is_directory(directory, &entry);
            Some(Found {
                entry: described.ok()?,
                relative,
                depth: is_entered.then(|| inside.depth - 1),
            })
        });
        Ok(Some(found.collect()))
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
