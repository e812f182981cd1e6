//! The changes of a sandbox, copied from its disk as a layer.
//!
//! Everything here was written by the sandbox and stands still: nothing of it is followed, and nothing
//! of it is believed but what a layer may have.

mod attributes;

use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps};
use rustix::io::Errno;

use skep_isolation::Apart;

use crate::plan::LAUNCH_FILES;

/// Most entries of one layer: each costs an inode of the host.
const MOST_ENTRIES: u64 = 2_000_000;

/// Failure to copy what a sandbox has changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CopyError {
    #[error("cannot {operation} `{}`", path.display())]
    Files {
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// It is larger than a layer may be.
    #[error("the changes take more than {0} bytes")]
    TooLarge(u64),
    #[error("the changes have more than {MOST_ENTRIES} files")]
    TooMany,
}

/// Copies the changes on a disk, whose sandbox stands, into an empty directory, without those of a
/// directory that is kept apart. Returns the bytes of all files. Blocks.
pub(crate) fn copy(
    disk: &OwnedFd,
    into: &Path,
    limit: u64,
    apart: Option<&Apart>,
) -> Result<u64, CopyError> {
    // A detached mount has no path but this one.
    let disk = Path::new("/proc/self/fd").join(disk.as_raw_fd().to_string());
    // Its ids are shown as those of the sandbox on the host. The root of the disk is root's, and no
    // sandbox reaches it.
    let root = fs::metadata(&disk).map_err(failed("look at", &disk))?;
    let upper = disk.join(skep_linux::UPPER);
    let mut copier = Copier::new(&root, limit);
    copier.without = apart.map(|apart| apart.name);
    copier.tree(&upper, into)?;
    if let Some(apart) = apart {
        copy_apart(&root, &upper.join(apart.name), apart)?;
    }
    Ok(copier.bytes)
}

/// Copies what is kept apart, if it was changed.
fn copy_apart(root: &Metadata, from: &Path, apart: &Apart) -> Result<(), CopyError> {
    // What is there instead of a directory is nothing to keep.
    let copied = match fs::symlink_metadata(from) {
        Ok(found) if found.is_dir() => Copier::new(root, apart.limit).tree(from, &apart.into),
        Ok(_) | Err(_) => Ok(()),
    };
    if let Err(error) = copied {
        tracing::debug!(%error, "changes that are kept apart are not copied");
        fs::remove_dir_all(&apart.into).map_err(failed("remove", &apart.into))?;
    }
    Ok(())
}

struct Copier {
    first_user: u32,
    first_group: u32,
    /// The first copy of each file with several names.
    links: HashMap<u64, PathBuf>,
    bytes: u64,
    entries: u64,
    limit: u64,
    /// A name in the root that is left out.
    without: Option<&'static str>,
}

impl Copier {
    /// Copies what is on a disk with this root.
    fn new(root: &Metadata, limit: u64) -> Self {
        Self {
            first_user: root.uid(),
            first_group: root.gid(),
            links: HashMap::new(),
            bytes: 0,
            entries: 0,
            limit,
            without: None,
        }
    }

    fn tree(&mut self, from: &Path, into: &Path) -> Result<(), CopyError> {
        let mut waiting = vec![PathBuf::new()];
        let mut directories = Vec::new();
        while let Some(directory) = waiting.pop() {
            let source = from.join(&directory);
            for entry in fs::read_dir(&source).map_err(failed("list", &source))? {
                let entry = entry.map_err(failed("list", &source))?;
                let name = directory.join(entry.file_name());
                let is_apart = self.without.is_some_and(|apart| name == Path::new(apart));
                if is_apart || is_of_launch(&name) {
                    continue;
                }
                self.entries += 1;
                if self.entries > MOST_ENTRIES {
                    return Err(CopyError::TooMany);
                }
                let found = entry.metadata().map_err(failed("look at", &entry.path()))?;
                let target = into.join(&name);
                if found.is_dir() {
                    fs::create_dir(&target).map_err(failed("make", &target))?;
                    waiting.push(name);
                } else {
                    self.entry(&entry.path(), &found, &target)?;
                }
            }
            directories.push(directory);
        }
        // The lowest first: what is put into a directory changes its time.
        for directory in directories.iter().rev() {
            let source = from.join(directory);
            let found = fs::symlink_metadata(&source).map_err(failed("look at", &source))?;
            self.dress(&source, &found, &into.join(directory))?;
        }
        Ok(())
    }

    fn entry(&mut self, from: &Path, found: &Metadata, to: &Path) -> Result<(), CopyError> {
        let kind = found.file_type();
        if kind.is_file() {
            if found.nlink() > 1 {
                if let Some(first) = self.links.get(&found.ino()) {
                    return fs::hard_link(first, to).map_err(failed("link", to));
                }
                self.links.insert(found.ino(), to.to_owned());
            }
            self.content(from, found.len(), to)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(from).map_err(failed("read", from))?;
            std::os::unix::fs::symlink(target, to).map_err(failed("make", to))?;
        } else if kind.is_char_device() && found.rdev() == 0 {
            // So an overlay says that there is nothing of this name.
            let made = rustix::fs::mknodat(CWD, to, FileType::CharacterDevice, Mode::empty(), 0);
            return made.map_err(|error| failed("make", to)(error.into()));
        } else {
            // A socket or a pipe is nothing without its processes, and a layer has no devices.
            return Ok(());
        }
        self.dress(from, found, to)
    }

    fn content(&mut self, from: &Path, length: u64, to: &Path) -> Result<(), CopyError> {
        let mut source = File::open(from).map_err(failed("open", from))?;
        let mut options = OpenOptions::new();
        let mut target = (options.write(true).create_new(true).mode(0o600))
            .open(to)
            .map_err(failed("make", to))?;
        target.set_len(length).map_err(failed("size", to))?;
        let mut position = 0;
        while position < length {
            let start = match rustix::fs::seek(&source, rustix::fs::SeekFrom::Data(position)) {
                Ok(start) => start,
                // There are only holes left.
                Err(Errno::NXIO) => break,
                Err(error) => return Err(failed("read", from)(error.into())),
            };
            let end = rustix::fs::seek(&source, rustix::fs::SeekFrom::Hole(start))
                .map_err(|error| failed("read", from)(error.into()))?;
            self.bytes += end - start;
            if self.bytes > self.limit {
                return Err(CopyError::TooLarge(self.limit));
            }
            source
                .seek(SeekFrom::Start(start))
                .and_then(|_| target.seek(SeekFrom::Start(start)))
                .and_then(|_| io::copy(&mut (&source).take(end - start), &mut target))
                .map_err(failed("write", to))?;
            position = end;
        }
        Ok(())
    }

    /// Gives a copy its owner, mode, attributes and times, in an order in which none undoes another.
    fn dress(&self, from: &Path, found: &Metadata, to: &Path) -> Result<(), CopyError> {
        let user = found.uid().checked_sub(self.first_user);
        let group = found.gid().checked_sub(self.first_group);
        // Whoever is nobody in the sandbox stays so.
        let nobody = 65_534;
        std::os::unix::fs::lchown(
            to,
            Some(user.unwrap_or(nobody)),
            Some(group.unwrap_or(nobody)),
        )
        .map_err(failed("give", to))?;
        if !found.is_symlink() {
            let mode = fs::Permissions::from_mode(found.mode() & 0o7777);
            fs::set_permissions(to, mode).map_err(failed("change the mode of", to))?;
            attributes::copy(from, to, self.first_user, self.first_group)
                .map_err(failed("copy the attributes of", from))?;
        }
        let time = |seconds, nanoseconds| Timespec {
            tv_sec: seconds,
            tv_nsec: nanoseconds,
        };
        let times = Timestamps {
            last_access: time(found.atime(), found.atime_nsec()),
            last_modification: time(found.mtime(), found.mtime_nsec()),
        };
        rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| failed("date", to)(error.into()))
    }
}

/// Returns true if a launch writes this file anyway.
fn is_of_launch(name: &Path) -> bool {
    let mut files = LAUNCH_FILES.iter();
    files.any(|file| Path::new(file.trim_start_matches('/')) == name)
}

fn failed(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CopyError {
    let path = path.to_owned();
    move |source| CopyError::Files {
        operation,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk, as far as a copy looks at it.
    fn disk() -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let upper = directory.path().join(skep_linux::UPPER);
        fs::create_dir_all(upper.join("etc")).unwrap();
        (directory, upper)
    }

    fn copied(disk: &Path, limit: u64) -> (tempfile::TempDir, Result<u64, CopyError>) {
        let into = tempfile::tempdir().unwrap();
        let disk = OwnedFd::from(File::open(disk).unwrap());
        let result = copy(&disk, into.path(), limit, None);
        (into, result)
    }

    #[test]
    fn what_is_kept_apart_is_in_no_layer() {
        let (disk, upper) = disk();
        fs::create_dir_all(upper.join("kept/a")).unwrap();
        fs::write(upper.join("kept/a/file"), "x").unwrap();
        fs::write(upper.join("etc/file"), "x").unwrap();
        fs::hard_link(upper.join("kept/a/file"), upper.join("etc/linked")).unwrap();
        let (into, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let disk = OwnedFd::from(File::open(disk.path()).unwrap());
        let mut apart = Apart {
            name: "kept",
            into: beside.path().to_owned(),
            limit: 1 << 20,
        };
        copy(&disk, into.path(), 1 << 20, Some(&apart)).unwrap();
        assert!(!into.path().join("kept").exists());
        assert!(into.path().join("etc/linked").exists());
        assert!(beside.path().join("a/file").exists());

        // More than may be kept is nothing to fail for.
        let (into, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        apart = Apart {
            into: beside.path().to_owned(),
            limit: 0,
            ..apart
        };
        copy(&disk, into.path(), 1 << 20, Some(&apart)).unwrap();
        assert!(into.path().join("etc/file").exists());
        assert!(!beside.path().exists());
    }

    #[test]
    fn a_copy_has_the_files_their_modes_links_and_times() {
        let (disk, upper) = disk();
        fs::write(upper.join("etc/hosts"), "of the launch").unwrap();
        fs::write(upper.join("etc/passwd"), "x").unwrap();
        fs::set_permissions(upper.join("etc/passwd"), fs::Permissions::from_mode(0o4750)).unwrap();
        fs::hard_link(upper.join("etc/passwd"), upper.join("again")).unwrap();
        std::os::unix::fs::symlink("/etc/shadow", upper.join("link")).unwrap();
        let sparse = File::create(upper.join("sparse")).unwrap();
        sparse.set_len(1 << 30).unwrap();
        let (into, result) = copied(disk.path(), 1 << 20);
        assert!(result.unwrap() <= 8192);
        let into = into.path();
        assert!(!into.join("etc/hosts").exists());
        let passwd = fs::metadata(into.join("etc/passwd")).unwrap();
        assert_eq!(passwd.mode() & 0o7777, 0o4750);
        assert_eq!(
            passwd.ino(),
            fs::metadata(into.join("again")).unwrap().ino()
        );
        let before = fs::metadata(upper.join("etc/passwd")).unwrap();
        assert_eq!(passwd.modified().unwrap(), before.modified().unwrap());
        assert_eq!(
            fs::read_link(into.join("link")).unwrap(),
            Path::new("/etc/shadow")
        );
        let sparse = fs::metadata(into.join("sparse")).unwrap();
        assert_eq!((sparse.len(), sparse.blocks()), (1 << 30, 0));
    }

    #[test]
    fn what_is_larger_than_the_limit_is_refused() {
        let (disk, upper) = disk();
        fs::write(upper.join("large"), vec![1; 1 << 20]).unwrap();
        let (_into, result) = copied(disk.path(), 4096);
        assert!(
            matches!(result, Err(CopyError::TooLarge(4096))),
            "{result:?}"
        );
    }
}
