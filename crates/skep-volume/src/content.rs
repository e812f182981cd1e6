//! The files of a volume, as the server handles them.
//!
//! Sandboxes change these files at any moment, as root of theirs, and the server works on them with
//! root's rights. Three rules keep it from being led astray; the agent keeps the same ones inside a
//! sandbox.
//!
//! * **A path is resolved by the kernel, beneath the volume's root**, never through a magic link and
//!   never onto another mount. A link that stays beneath works; one that leaves leads nowhere.
//! * **What follows is done to the descriptor, or to a single name in a directory that is held
//!   open**, without following a link.
//! * **What is new is made in a directory that no sandbox sees**, is given its owner and mode there,
//!   and is moved to its place in one step. What is to go is moved there first.

mod change;
mod list;
mod sweep;
mod upload;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use jiff::Timestamp;
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, readlinkat, statat,
};
use rustix::io::Errno;
use skep_linux::open_resolved;
use skep_types::VolumeId;

pub use list::MOST_ENTRIES;
pub use upload::{Upload, WriteMode};

use crate::{ContentError, VolumePath};

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);

/// Owner and mode of something new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    /// Owner, as sandboxes see it.
    pub uid: u32,
    /// Group, as sandboxes see it.
    pub gid: u32,
    /// Permissions, as `chmod` takes them.
    pub mode: u32,
}

/// Changes of owner and mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attributes {
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New permissions.
    pub mode: Option<u32>,
}

/// Something in a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name; `/` for the root.
    pub name: String,
    /// Path in the volume.
    pub path: String,
    /// Kind of the entry; of a link that leads to something, the kind of its target.
    pub kind: EntryKind,
    /// Bytes in it.
    pub size: u64,
    /// Permissions, as `chmod` takes them.
    pub mode: u32,
    /// Owner, as sandboxes see it.
    pub uid: u32,
    /// Group, as sandboxes see it.
    pub gid: u32,
    /// Time of the last reading.
    pub accessed: Timestamp,
    /// Time of the last writing.
    pub modified: Timestamp,
    /// Time of the last change of anything.
    pub changed: Timestamp,
    /// The text of a link.
    pub target: Option<String>,
}

/// Kinds of things in a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A plain file.
    File,
    /// A directory.
    Directory,
    /// A link that leads nowhere in the volume, or was not followed: it takes too long.
    Symlink,
    /// A pipe, a socket or a device.
    Other,
}

/// A file that is read.
#[derive(Debug)]
pub struct Download {
    /// The file, at its beginning.
    pub file: File,
    /// Number of bytes to read.
    pub size: u64,
}

/// The files of one volume.
#[derive(Debug)]
pub struct Content {
    root: OwnedFd,
    /// Directory that no sandbox sees.
    staging: OwnedFd,
    /// Beginning of the names in it, which no earlier server has used: what was left may be there.
    prefix: String,
    /// Numbers of names in it.
    next: AtomicU64,
    /// Set when the server stops: what takes long is left to the next one.
    stopping: Arc<AtomicBool>,
    /// Set when the volume is let go of: what is left is left to its next opening.
    is_closed: AtomicBool,
}

impl Content {
    /// The files below `root`. What is in `staging`, a directory of the same file system, is left of
    /// earlier servers: nobody else works on it but sandboxes that worked there before.
    pub(crate) fn new(root: OwnedFd, staging: OwnedFd, stopping: Arc<AtomicBool>) -> Self {
        Self {
            root,
            staging,
            // Random, as the ids of volumes are.
            prefix: VolumeId::random().to_string(),
            next: AtomicU64::new(0),
            stopping,
            is_closed: AtomicBool::new(false),
        }
    }

    /// Describes what is at a path.
    ///
    /// # Errors
    ///
    /// [`ContentError`].
    pub fn stat(&self, path: &VolumePath) -> Result<Entry, ContentError> {
        let failed = || ContentError::of("look at", path);
        let Some((above, name)) = path.split() else {
            let stat = fstat(&self.root).map_err(|errno| failed()(errno.into()))?;
            return Ok(describe(path, stat, None));
        };
        let parent = self.directory(&above).map_err(failed())?;
        let follow = || self.resolve(path, OFlags::PATH);
        self.entry(&parent, name, path, follow).map_err(failed())
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// [`ContentError`].
    pub fn read(&self, path: &VolumePath) -> Result<Download, ContentError> {
        let failed = || ContentError::of("read", path);
        // Looked at before it is opened: to open a pipe or a device does something.
        let found = self.resolve(path, OFlags::PATH).map_err(failed())?;
        let stat = fstat(&found).map_err(|errno| failed()(errno.into()))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(ContentError::IsDirectory(path.clone())),
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => return Err(ContentError::NotSupported(path.clone())),
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = openat(CWD, own_path(&found), flags, Mode::empty());
        let file = File::from(file.map_err(|errno| failed()(errno.into()))?);
        let size = file.metadata().map_err(failed())?.len();
        Ok(Download { file, size })
    }

    fn resolve(&self, path: &VolumePath, flags: OFlags) -> io::Result<OwnedFd> {
        let (root, path) = (self.root.as_fd(), path.relative());
        open_resolved(root, path.as_str(), flags, Mode::empty(), RESOLVE)
    }

    fn directory(&self, path: &VolumePath) -> io::Result<OwnedFd> {
        self.resolve(path, DIRECTORY)
    }

    /// Describes an entry of a directory; a link by what `follow` finds where it leads to.
    fn entry(
        &self,
        parent: &OwnedFd,
        name: &str,
        path: &VolumePath,
        follow: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> io::Result<Entry> {
        let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(describe(path, stat, None));
        }
        let target = match readlinkat(parent, name, Vec::new()) {
            Ok(target) => target.to_string_lossy().into_owned(),
            // It is something else by now.
            Err(Errno::INVAL) => return Err(Errno::NOENT.into()),
            Err(errno) => return Err(errno.into()),
        };
        let stat = match follow().and_then(|found| Ok(fstat(found)?)) {
            Ok(followed) => followed,
            Err(_leads_nowhere) => stat,
        };
        Ok(describe(path, stat, Some(target)))
    }

    /// A name in the staging directory that nobody has used.
    fn staged_name(&self) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        format!("{}-{number}", self.prefix)
    }
}

/// The path that leads to an open descriptor of this process, for calls that take only paths.
fn own_path(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn describe(path: &VolumePath, stat: Stat, target: Option<String>) -> Entry {
    let time = |seconds: i64, nanoseconds: u64| {
        let nanoseconds = i32::try_from(nanoseconds).unwrap_or_default();
        // A sandbox may set any time; those beyond what can be written are the epoch.
        Timestamp::new(seconds, nanoseconds).unwrap_or_default()
    };
    Entry {
        name: path.name().to_owned(),
        path: path.to_string(),
        kind: match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => EntryKind::File,
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => EntryKind::Symlink,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => EntryKind::Other,
        },
        size: u64::try_from(stat.st_size).unwrap_or_default(),
        mode: stat.st_mode & 0o777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        accessed: time(stat.st_atime, stat.st_atime_nsec),
        modified: time(stat.st_mtime, stat.st_mtime_nsec),
        changed: time(stat.st_ctime, stat.st_ctime_nsec),
        target,
    }
}
