//! Directories that a process tree watches.
//!
//! The kernel names a watched directory by a handle, and an overlay cannot find a directory by
//! one. CRIU finds it again if it is told where to look. A watch of a single file it does not find:
//! on an overlay the number of a file says nothing about its place.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};

use crate::proc;

/// Limit on the directories that are looked at. A template has some ten thousand.
const MOST: usize = 200_000;
/// Limit on those that are kept to be looked at: a sandbox can make millions, with long names.
const MOST_WAITING: usize = 16_384;

/// Inodes that are watched by processes on the file system with this device number.
pub(crate) fn watched(processes: &[i32], device: u64) -> io::Result<BTreeSet<u64>> {
    let mut inodes = BTreeSet::new();
    for pid in processes {
        for fd in proc::descriptors(*pid).unwrap_or_default() {
            let link = fs::read_link(format!("/proc/{pid}/fd/{fd}"));
            if !link.is_ok_and(|link| link.as_os_str() == "anon_inode:inotify") {
                continue;
            }
            let text = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
            inodes.extend(text.lines().filter_map(|line| inode_in(line, device)));
        }
    }
    Ok(inodes)
}

/// Inode in a line like `inotify wd:1 ino:2a sdev:1f mask:2 …`, if it is of this device.
fn inode_in(line: &str, device: u64) -> Option<u64> {
    let rest = line.strip_prefix("inotify ")?;
    let field = |name: &str| {
        let mut fields = rest.split(' ');
        let text = fields.find_map(|field| field.strip_prefix(name))?;
        u64::from_str_radix(text, 16).ok()
    };
    // The kernel writes its own numbers of devices: twenty bits for the minor one.
    let kernels = u64::from(rustix::fs::major(device)) << 20 | u64::from(rustix::fs::minor(device));
    (field("sdev:")? == kernels).then(|| field("ino:"))?
}

/// Paths below a root of directories with these inodes, as the tree sees them.
pub(crate) fn find(root: &OwnedFd, mut wanted: BTreeSet<u64>) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    let mut looked_at = 0;
    while let Some(path) = waiting.pop()
        && !wanted.is_empty()
        && looked_at < MOST
        && waiting.len() < MOST_WAITING
    {
        looked_at += 1;
        // One that was removed, or nobody may enter, is not what is looked for.
        let Ok(directory) = open_below(root, &path) else {
            continue;
        };
        if wanted.remove(&rustix::fs::fstat(&directory)?.st_ino) {
            found.push(Path::new("/").join(&path));
        }
        for entry in Dir::read_from(&directory)?.filter_map(Result::ok) {
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            let is_directory = match entry.file_type() {
                FileType::Directory => true,
                FileType::Unknown => {
                    let stat =
                        rustix::fs::statat(directory.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW);
                    stat.is_ok_and(|stat| {
                        FileType::from_raw_mode(stat.st_mode) == FileType::Directory
                    })
                }
                FileType::RegularFile
                | FileType::Symlink
                | FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice => false,
            };
            if waiting.len() >= MOST_WAITING {
                break;
            }
            if is_directory && name != "." && name != ".." {
                waiting.push(path.join(name));
            }
        }
    }
    if wanted.is_empty() {
        return Ok(found);
    }
    // CRIU would look for them in places of its own choice, which a sandbox can lead astray.
    Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "a watch is of no directory that can be found",
    ))
}

fn open_below(root: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(root, path, flags, Mode::empty(), resolve)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use rustix::fs::inotify;

    use super::*;

    #[test]
    fn a_watched_directory_is_found_again() {
        let root = tempfile::tempdir().unwrap();
        let watched_path = root.path().join("a/b");
        fs::create_dir_all(&watched_path).unwrap();
        fs::create_dir_all(root.path().join("c")).unwrap();
        let watching = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&watching, &watched_path, inotify::WatchFlags::CREATE).unwrap();
        let own = std::process::id().cast_signed();
        let metadata = fs::metadata(&watched_path).unwrap();
        let inodes = watched(&[own], metadata.dev()).unwrap();
        assert!(inodes.contains(&metadata.ino()), "{inodes:?}");
        assert!(watched(&[own], metadata.dev() + 1).unwrap().is_empty());
        let root = fs::File::open(root.path()).unwrap().into();
        assert_eq!(find(&root, inodes).unwrap(), [Path::new("/a/b")]);
    }
}
