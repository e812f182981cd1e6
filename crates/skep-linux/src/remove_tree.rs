//! Removing whole trees.
//!
//! The tree may be as deep as somebody liked to make it, and somebody may move its parts while
//! it is being removed. So the walk holds descriptors and never climbs by `..`; and below a
//! certain depth it moves what it finds up to the top instead of going on, so that neither the
//! stack nor the descriptors run out. It does not leave the file system it began on.

use std::ffi::{CStr, CString};
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;

/// Number of directories held open, where they can be moved.
const MAX_DEPTH: usize = 32;

/// Number of directories held open where they cannot: those of a template lie on a file system of
/// their own, and stay there.
const MAX_FIXED_DEPTH: usize = 1024;

/// Number of times that a directory may turn out not to be empty, because others write into it.
const MAX_ATTEMPTS: usize = 100;

/// Removes what is in a directory that is open for reading, and leaves it empty. Directories that lie
/// deep are moved to its top meanwhile, under names that begin with `prefix`, which nobody else must
/// have thought of.
///
/// # Errors
///
/// The error of the system call that failed; what was not reached is left.
pub fn empty_directory(root: OwnedFd, prefix: String) -> Result<(), Errno> {
    empty_directory_while(root, prefix, || true)
}

/// [`empty_directory`] for as long as `goes_on` says so, which is asked before each name. Whoever
/// works in the directory, or has it open, can fill it faster than it is emptied, wherever it was
/// moved.
///
/// # Errors
///
/// `ECANCELED` if `goes_on` said no, `ENOTEMPTY` if others filled a directory again and again; else
/// the error of the system call that failed. What was not reached is left.
pub fn empty_directory_while(
    root: OwnedFd,
    prefix: String,
    mut goes_on: impl FnMut() -> bool,
) -> Result<(), Errno> {
    let mut way = vec![Level {
        directory: Dir::new(root)?,
        name: CString::default(),
    }];
    let mut lift = Lift { prefix, count: 0 };
    let mut attempts = MAX_ATTEMPTS;
    while let Some(mut level) = way.pop() {
        match next_directory(&mut level.directory, &mut goes_on)? {
            Some(name) => {
                let depth = way.len();
                let is_lifted = match way.first_mut() {
                    Some(top) if depth >= MAX_DEPTH => lift.up(&level, &name, top)?,
                    Some(_) | None => false,
                };
                if !is_lifted && depth >= MAX_FIXED_DEPTH {
                    return Err(Errno::NAMETOOLONG);
                }
                let below = if is_lifted {
                    None
                } else {
                    enter(&level, name)?
                };
                way.push(level);
                way.extend(below);
            }
            None => {
                let Some(above) = way.last() else {
                    return Ok(());
                };
                match unlinkat(above.directory.fd()?, &level.name, AtFlags::REMOVEDIR) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(Errno::NOTEMPTY) if attempts > 0 => {
                        attempts -= 1;
                        level.directory.rewind();
                        way.push(level);
                    }
                    Err(errno) => return Err(errno),
                }
            }
        }
    }
    Ok(())
}

fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(parent, name, flags, Mode::empty(), resolve)
}

/// One directory on the way down, and its name in the one above.
struct Level {
    directory: Dir,
    name: CString,
}

fn enter(level: &Level, name: CString) -> Result<Option<Level>, Errno> {
    match open_directory(level.directory.fd()?, &name) {
        Ok(directory) => Ok(Some(Level {
            directory: Dir::new(directory)?,
            name,
        })),
        // Replaced by a file or gone; the end of this directory sees it.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Moves directories that lie too deep to the top, under names that nobody else has thought of:
/// a removal that broke off may have left some there.
struct Lift {
    prefix: String,
    count: u64,
}

impl Lift {
    /// Moves a directory to the top. Returns true if it need not be looked at here any more.
    fn up(&mut self, level: &Level, name: &CStr, top: &mut Level) -> Result<bool, Errno> {
        self.count += 1;
        let new_name = format!("{}-{}", self.prefix, self.count);
        let (from, to) = (level.directory.fd()?, top.directory.fd()?);
        match renameat(from, name, to, new_name) {
            Ok(()) => {
                // Read again from its beginning, or what was moved there would be missed.
                top.directory.rewind();
                Ok(true)
            }
            Err(Errno::NOENT) => Ok(true),
            Err(Errno::XDEV) => Ok(false),
            Err(errno) => Err(errno),
        }
    }
}

/// Removes files until there is a directory, which is answered.
fn next_directory(
    directory: &mut Dir,
    goes_on: &mut impl FnMut() -> bool,
) -> Result<Option<CString>, Errno> {
    while let Some(found) = directory.read() {
        if !goes_on() {
            return Err(Errno::CANCELED);
        }
        let found = found?;
        let name = found.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        let mut kind = found.file_type();
        if kind == FileType::Unknown {
            // Some filesystems do not say.
            kind = statat(directory.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(kind, |stat| FileType::from_raw_mode(stat.st_mode));
        }
        if kind.is_dir() {
            return Ok(Some(name.to_owned()));
        }
        match unlinkat(directory.fd()?, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(None)
}
