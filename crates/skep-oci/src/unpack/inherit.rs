//! Directories that an archive leaves out are as they are in the layers below.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

/// Gives directories of a new layer the owners and modes that they have in the layers `below`, the
/// lowest first. Of directories in several layers the overlay shows what the highest one says, so a
/// directory that was made for a file in it must not differ.
pub(crate) fn inherit_directories(
    root: &Path,
    below: &[PathBuf],
    paths: &[String],
) -> io::Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let open = |path: &Path| {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(CWD, path, flags, Mode::empty())
    };
    let root = open(root)?;
    let below: Vec<OwnedFd> = below
        .iter()
        .rev()
        .map(|path| open(path))
        .collect::<Result<_, _>>()?;
    for path in paths {
        let Some(found) = find(&below, path)? else {
            continue;
        };
        let directory = match beneath(&root, path, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(directory) => File::from(directory),
            // Replaced since, or not what it was said to be.
            Err(_) => continue,
        };
        let (user, group) = (Uid::from_raw(found.st_uid), Gid::from_raw(found.st_gid));
        rustix::fs::fchown(&directory, Some(user), Some(group))?;
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(found.st_mode & 0o7777))?;
    }
    Ok(())
}

/// The directory at a path in the highest layer that says something about it.
fn find(layers: &[OwnedFd], path: &str) -> io::Result<Option<rustix::fs::Stat>> {
    for layer in layers {
        match beneath(layer, path, OFlags::PATH | OFlags::NOFOLLOW) {
            Ok(found) => {
                let found = rustix::fs::fstat(&found)?;
                let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
                return Ok(is_directory.then_some(found));
            }
            Err(Errno::NOENT) => {}
            // A file, a link or the mark of something removed is on the way.
            Err(_) => return Ok(None),
        }
    }
    Ok(None)
}

/// Opens what strangers have written, following nothing and never leaving it.
fn beneath(root: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    rustix::fs::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}
