//! Listing directories.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, statat};
use rustix::io::Errno;
use skep_wire::rpc::filesystem::EntryInfo;

use super::{FileError, entry};
use crate::users::Names;
use crate::{open, path};

/// What one answer may hold. An entry takes some 300 bytes on the wire, and the agent's memory
/// is small.
const MAX_ENTRIES: usize = 100_000;

/// Lists `directory` to `depth` levels, each directory before what is in it, by name.
///
/// `directory` itself may be a link; links inside are listed but not entered. What disappears
/// in the middle is left out.
pub(crate) fn list(
    directory: &str,
    depth: u32,
    names: &Names,
) -> Result<Vec<EntryInfo>, FileError> {
    let mut entries = Vec::new();
    // Directories still to be entered, the next one last; with the place of their entry.
    let mut pending = vec![Level {
        path: directory.to_owned(),
        depth: depth.max(1),
        is_root: true,
    }];
    while let Some(level) = pending.pop() {
        match level {
            Level { path, depth: 0, .. } => unlisted(&mut entries, &path, names),
            Level {
                path,
                depth,
                is_root,
            } => {
                if !is_root {
                    unlisted(&mut entries, &path, names);
                }
                let found = match read(&path) {
                    Ok(found) => found,
                    Err(error) if is_root => return Err(error),
                    // Gone, or turned into something else, since its parent was read.
                    Err(_) => continue,
                };
                for child in found.into_iter().rev() {
                    let depth = if child.is_directory { depth - 1 } else { 0 };
                    pending.push(Level {
                        path: path::join(&path, &child.name),
                        depth,
                        is_root: false,
                    });
                }
            }
        }
        if entries.len() + pending.len() > MAX_ENTRIES {
            return Err(FileError::TooMany {
                path: directory.to_owned(),
                limit: MAX_ENTRIES,
            });
        }
    }
    Ok(entries)
}

struct Level {
    path: String,
    /// Zero for what is only told of.
    depth: u32,
    is_root: bool,
}

fn unlisted(entries: &mut Vec<EntryInfo>, path: &str, names: &Names) {
    if let Ok(entry) = entry::describe(path, names) {
        entries.push(entry);
    }
}

struct Child {
    name: String,
    is_directory: bool,
}

fn read(directory: &str) -> Result<Vec<Child>, FileError> {
    let failed = |errno: Errno| match errno {
        Errno::NOTDIR => FileError::NotADirectory {
            path: directory.to_owned(),
        },
        errno => FileError::io("list", directory, errno.into()),
    };
    let opened = open::open(directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
    let opened = opened.map_err(|error| {
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
        failed(errno)
    })?;
    let mut children: Vec<(OsString, bool)> = Vec::new();
    for found in Dir::read_from(&opened).map_err(failed)? {
        let found = found.map_err(failed)?;
        let name = found.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        if children.len() >= MAX_ENTRIES {
            return Err(FileError::TooMany {
                path: directory.to_owned(),
                limit: MAX_ENTRIES,
            });
        }
        let mut kind = found.file_type();
        if kind == FileType::Unknown {
            // Some filesystems do not say.
            kind = statat(&opened, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(kind, |stat| FileType::from_raw_mode(stat.st_mode));
        }
        children.push((
            std::ffi::OsStr::from_bytes(name.to_bytes()).to_owned(),
            kind.is_dir(),
        ));
    }
    children.sort_unstable();
    // A name that is no text cannot be asked for either; it is shown as well as it can be.
    let shown = |(name, is_directory): (OsString, bool)| Child {
        name: name.to_string_lossy().into_owned(),
        is_directory,
    };
    Ok(children.into_iter().map(shown).collect())
}
