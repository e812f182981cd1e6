//! Trees of cgroups that somebody else has made, walked by descriptor.
//!
//! The holder of a directory of cgroups chooses the names in it and their depth. A path to
//! such a group can be longer than the kernel takes, so none is ever built: a group is opened by
//! its name in the directory above it, and left by `..`. A walk has a bound; what lies beyond it is
//! the next walk's.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Limit on the groups one walk looks at: no host has more memory cgroups than this.
const MOST: usize = 1 << 16;

/// Depth limit of a read-only walk. It holds a descriptor for each level.
const DEEPEST: usize = 32;

/// Remainder that a walk has left to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Nothing: all groups are gone.
    Nothing,
    /// Groups that still hold processes.
    Busy,
    /// More groups than one walk looks at. The next one goes on.
    Many,
}

/// Removes the group `name` of a directory and all groups below it, the lowest first, and calls
/// `on_busy` for each that cannot be removed because processes are in it. Waits for nothing.
pub(super) fn remove(
    directory: BorrowedFd<'_>,
    name: &str,
    mut on_busy: impl FnMut(BorrowedFd<'_>),
) -> io::Result<Left> {
    let name = CString::new(name)?;
    let mut here = rustix::fs::openat(directory, c".", DIRECTORY, Mode::empty())?;
    let mut levels = vec![Level::new(CString::default(), vec![name])];
    let mut steps = 0;
    while let Some(level) = levels.last_mut() {
        steps += 1;
        if steps > MOST {
            return Ok(Left::Many);
        }
        if let Some(name) = level.names.pop() {
            match remove_one(here.as_fd(), &name)? {
                Removed::Yes => {}
                Removed::Busy => {
                    let Some(group) = open_in(here.as_fd(), &name)? else {
                        continue;
                    };
                    let names = names_in(group.as_fd())?;
                    if names.is_empty() {
                        on_busy(group.as_fd());
                        level.is_busy = true;
                    } else {
                        levels.push(Level::new(name, names));
                        here = group;
                    }
                }
            }
            continue;
        }
        let Some(done) = levels.pop() else {
            break;
        };
        let Some(above) = levels.last_mut() else {
            return Ok(done.outcome());
        };
        let Some(parent) = open_in(here.as_fd(), c"..")? else {
            // It was removed under us, so somebody is still at work in it.
            return Ok(Left::Busy);
        };
        let group = std::mem::replace(&mut here, parent);
        if done.is_busy || remove_one(here.as_fd(), &done.name)? == Removed::Busy {
            on_busy(group.as_fd());
            above.is_busy = true;
        }
    }
    Ok(Left::Nothing)
}

/// Looks at a group and the groups below it, as many as `most` and not too deep.
pub(super) fn visit(
    group: OwnedFd,
    most: usize,
    mut look: impl FnMut(BorrowedFd<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut left = most;
    let mut levels = vec![(names_in(group.as_fd())?, group)];
    while let Some((names, group)) = levels.last_mut() {
        let next = names.pop().filter(|_| left > 0);
        let Some(name) = next else {
            look(group.as_fd())?;
            levels.pop();
            continue;
        };
        left -= 1;
        // One that went meanwhile has nothing to tell.
        if let Some(below) = open_in(group.as_fd(), &name)? {
            let names = if levels.len() < DEEPEST {
                names_in(below.as_fd())?
            } else {
                Vec::new()
            };
            levels.push((names, below));
        }
    }
    Ok(())
}

/// The contents of a file of a group; `None` if the group is gone.
pub(super) fn read(group: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<String>> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = match rustix::fs::openat(group, name, flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NODEV) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    match io::read_to_string(std::fs::File::from(file)) {
        Ok(text) => Ok(Some(text)),
        // A group that is removed while it is open answers so.
        Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// A directory on the way from the first group to the one that is looked at.
struct Level {
    /// Name of the group in the directory above.
    name: CString,
    /// The groups in it that are still to be removed.
    names: Vec<CString>,
    /// Set if a group at this level could not be removed because processes are in it.
    is_busy: bool,
}

impl Level {
    fn new(name: CString, names: Vec<CString>) -> Self {
        Self {
            name,
            names,
            is_busy: false,
        }
    }

    fn outcome(&self) -> Left {
        if self.is_busy {
            Left::Busy
        } else {
            Left::Nothing
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Removed {
    Yes,
    /// Processes or groups are in it.
    Busy,
}

fn remove_one(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Removed> {
    match rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(Removed::Yes),
        Err(Errno::BUSY | Errno::NOTEMPTY) => Ok(Removed::Busy),
        Err(error) => Err(error.into()),
    }
}

fn open_in(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Option<OwnedFd>> {
    match rustix::fs::openat(directory, name, DIRECTORY, Mode::empty()) {
        Ok(group) => Ok(Some(group)),
        Err(Errno::NOENT | Errno::NODEV) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The names of the groups in a group, as many as one walk looks at.
fn names_in(group: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(group)?.take(MOST) {
        let entry = match entry {
            Ok(entry) => entry,
            // It was removed while it was read.
            Err(Errno::NOENT | Errno::NODEV) => break,
            Err(error) => return Err(error.into()),
        };
        let name = entry.file_name();
        if entry.file_type() == FileType::Directory && name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}
