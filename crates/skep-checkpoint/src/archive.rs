//! Files in the memory file systems of a process tree: `/dev`, `/dev/shm`, `/run`.
//!
//! CRIU would archive them from within the tree's user namespace, where no mount namespace may be
//! made. So they are packed from outside, while the tree stands, and unpacked into fresh mounts
//! before it is restored. Names are the tree's and are trusted in nothing: every path is resolved
//! below its mount, without links.
//!
//! Devices are left out: whoever makes the mounts makes those.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek as _, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat, Timespec, Timestamps, Uid,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// Longest head of an entry. A file with so many holes that its own would be longer is not packed.
const LONGEST_HEAD: u32 = 64 << 10;
/// Limit on the heads of an archive. They hold names, which a sandbox can make long and many.
const MOST_HEADS: u64 = 128 << 20;
/// Limit on the names that are kept in memory while a file system is walked.
const MOST_NAMES: usize = 32 << 20;
/// Memory that a name takes beside its bytes.
const NAME: usize = 64;

/// One thing in a file system. The data of a file follows it, segment by segment.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    /// Number of the mount.
    mount: usize,
    /// Path below the mount, in hexadecimal: a name need not be text.
    path: String,
    kind: Kind,
    mode: u32,
    owner: (u32, u32),
    changed: (i64, i64),
}

#[derive(Debug, Serialize, Deserialize)]
enum Kind {
    Directory,
    File {
        size: u64,
        /// Offsets and lengths of what is no hole.
        segments: Vec<(u64, u64)>,
    },
    /// Another name of a file before it.
    Link(String),
    Symlink(String),
    Pipe,
    Socket,
}

/// Failure to pack or unpack memory file systems.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The archive cannot be written or read.
    #[error("cannot {0} the archive of memory file systems")]
    Archive(&'static str, #[source] io::Error),
    /// A file in it cannot be read or made.
    #[error("cannot {operation} `{}`", path.display())]
    File {
        /// The operation.
        operation: &'static str,
        /// Path below its mount.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Writes what is on `mounts` to a new file. Ids are counted from `first_id`.
///
/// # Errors
///
/// [`ArchiveError`].
pub fn pack(mounts: &[OwnedFd], first_id: u32, to: &Path) -> Result<(), ArchiveError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let file = options
        .open(to)
        .map_err(|source| ArchiveError::Archive("make", source))?;
    let mut packer = Packer {
        to: BufWriter::new(file),
        first_id,
        heads: 0,
    };
    for (number, mount) in mounts.iter().enumerate() {
        packer.pack_mount(number, mount)?;
    }
    let flushed = packer.to.flush();
    flushed.map_err(|source| ArchiveError::Archive("write", source))
}

struct Packer {
    to: BufWriter<File>,
    first_id: u32,
    /// Bytes of the heads that were written.
    heads: u64,
}

impl Packer {
    fn pack_mount(&mut self, number: usize, mount: &OwnedFd) -> Result<(), ArchiveError> {
        let device = rustix::fs::fstat(mount)
            .map_err(about("look at", Path::new(".")))?
            .st_dev;
        let mut links: HashMap<u64, PathBuf> = HashMap::new();
        let mut waiting = vec![PathBuf::new()];
        let mut names = 0;
        while let Some(path) = waiting.pop() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            let directory =
                open_below(mount.as_fd(), &path, flags).map_err(about("open", &path))?;
            let stat = rustix::fs::fstat(&directory).map_err(about("look at", &path))?;
            self.put(number, &path, &stat, Kind::Directory)?;
            for entry in Dir::read_from(&directory).map_err(about("list", &path))? {
                let entry = entry.map_err(about("list", &path))?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes());
                if name == "." || name == ".." {
                    continue;
                }
                let below = path.join(name);
                let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(about("look at", &below))?;
                // Another mount lies there.
                if stat.st_dev != device {
                    continue;
                }
                let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                if is_directory || stat.st_nlink > 1 {
                    names += below.as_os_str().len() + NAME;
                }
                if names > MOST_NAMES {
                    return Err(about("keep the names below", &path)(too_much()));
                }
                if is_directory {
                    waiting.push(below);
                } else if let Some(first) = links.get(&stat.st_ino) {
                    let kind = Kind::Link(encode(first));
                    self.put(number, &below, &stat, kind)?;
                } else {
                    if stat.st_nlink > 1 {
                        links.insert(stat.st_ino, below.clone());
                    }
                    self.pack_leaf(number, directory.as_fd(), name, &below, &stat)?;
                }
            }
        }
        Ok(())
    }

    fn pack_leaf(
        &mut self,
        number: usize,
        directory: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
        stat: &Stat,
    ) -> Result<(), ArchiveError> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let file = rustix::fs::openat(directory, name, flags, Mode::empty());
                let file = File::from(file.map_err(about("open", path))?);
                let size = file.metadata().map_err(about("look at", path))?.len();
                let segments = segments(&file, size).map_err(about("read", path))?;
                let kind = Kind::File {
                    size,
                    segments: segments.clone(),
                };
                self.put(number, path, stat, kind)?;
                let copied =
                    segments
                        .into_iter()
                        .try_for_each(|(offset, length)| -> io::Result<()> {
                            (&file).seek(SeekFrom::Start(offset))?;
                            let copied = io::copy(&mut (&file).take(length), &mut self.to)?;
                            if copied == length {
                                Ok(())
                            } else {
                                Err(io::ErrorKind::UnexpectedEof.into())
                            }
                        });
                copied.map_err(about("read", path))
            }
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(directory, name, Vec::new())
                    .map_err(about("read", path))?;
                let kind = Kind::Symlink(hex::encode(target.to_bytes()));
                self.put(number, path, stat, kind)
            }
            FileType::Fifo => self.put(number, path, stat, Kind::Pipe),
            FileType::Socket => self.put(number, path, stat, Kind::Socket),
            FileType::Directory
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Ok(()),
        }
    }

    fn put(
        &mut self,
        mount: usize,
        path: &Path,
        stat: &Stat,
        kind: Kind,
    ) -> Result<(), ArchiveError> {
        // What is nobody's inside belongs to root there.
        let inside = |id: u32| id.saturating_sub(self.first_id);
        let entry = Entry {
            mount,
            path: encode(path),
            kind,
            mode: stat.st_mode & 0o7777,
            owner: (inside(stat.st_uid), inside(stat.st_gid)),
            changed: (
                stat.st_mtime,
                i64::try_from(stat.st_mtime_nsec).unwrap_or_default(),
            ),
        };
        let written = (|| -> io::Result<()> {
            let head = serde_json::to_vec(&entry)?;
            let length = u32::try_from(head.len()).map_err(io::Error::other)?;
            self.heads += u64::from(length);
            if length > LONGEST_HEAD || self.heads > MOST_HEADS {
                return Err(too_much());
            }
            self.to.write_all(&length.to_le_bytes())?;
            self.to.write_all(&head)
        })();
        written.map_err(|source| ArchiveError::Archive("write", source))
    }
}

/// Error of file systems that hold more than an archive may.
fn too_much() -> io::Error {
    io::Error::new(
        io::ErrorKind::FileTooLarge,
        "memory file systems hold too many names or holes",
    )
}

/// Parts of a file that are no holes.
fn segments(file: &File, size: u64) -> io::Result<Vec<(u64, u64)>> {
    let mut segments = Vec::new();
    let mut offset = 0;
    while offset < size {
        let start = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start))?.min(size);
        segments.push((start, end - start));
        offset = end;
    }
    Ok(segments)
}

/// Makes what is in an archive on these mounts, which have only what their maker puts there. Ids
/// are counted from `first_id`.
///
/// # Errors
///
/// [`ArchiveError`].
pub fn unpack(archive: File, mounts: &[OwnedFd], first_id: u32) -> Result<(), ArchiveError> {
    let mut from = BufReader::new(archive);
    let unreadable = |source| ArchiveError::Archive("read", source);
    let mut directories = Vec::new();
    while let Some(entry) = next(&mut from).map_err(unreadable)? {
        let path = decode(&entry.path).map_err(unreadable)?;
        let mount = mounts
            .get(entry.mount)
            .ok_or_else(|| unreadable(io::ErrorKind::InvalidData.into()))?;
        make(mount.as_fd(), &path, &entry, &mut from, first_id).map_err(about("make", &path))?;
        if matches!(entry.kind, Kind::Directory) {
            directories.push((entry, path));
        }
    }
    // Deepest first, because making something in a directory changes its times.
    for (entry, path) in directories.iter().rev() {
        let mount = mounts[entry.mount].as_fd();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = open_below(mount, path, flags).map_err(about("open", path))?;
        let timed = rustix::fs::futimens(&directory, &times(entry));
        timed.map_err(about("set the times of", path))?;
    }
    Ok(())
}

fn next(from: &mut impl Read) -> io::Result<Option<Entry>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_le_bytes(length);
    if length > LONGEST_HEAD {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut head = vec![0; usize::try_from(length).map_err(io::Error::other)?];
    from.read_exact(&mut head)?;
    Ok(Some(serde_json::from_slice(&head)?))
}

fn make(
    mount: BorrowedFd<'_>,
    path: &Path,
    entry: &Entry,
    data: &mut impl Read,
    first_id: u32,
) -> io::Result<()> {
    let id = |id: u32| first_id.checked_add(id).ok_or(io::ErrorKind::InvalidData);
    let owner = (
        Some(Uid::from_raw(id(entry.owner.0)?)),
        Some(Gid::from_raw(id(entry.owner.1)?)),
    );
    let mode = Mode::from_raw_mode(entry.mode);
    let Some(name) = path.file_name() else {
        // The root of the mount.
        let root = open_below(mount, path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        rustix::fs::fchown(&root, owner.0, owner.1)?;
        return Ok(rustix::fs::fchmod(&root, mode)?);
    };
    let parent = path.parent().unwrap_or(Path::new(""));
    let parent = open_below(mount, parent, OFlags::PATH | OFlags::DIRECTORY)?;
    if !matches!(entry.kind, Kind::Directory) {
        remove(parent.as_fd(), name)?;
    }
    match &entry.kind {
        Kind::Directory => {
            let directory = make_directory(parent.as_fd(), name, mode)?;
            rustix::fs::fchown(&directory, owner.0, owner.1)?;
            // Of the descriptor and not of the name, which may have been a link that the maker of
            // the mount has put there: it would lead out of the mount, and into this process.
            return Ok(rustix::fs::fchmod(&directory, mode)?);
        }
        Kind::File { size, segments } => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            let file = File::from(rustix::fs::openat(&parent, name, flags, mode)?);
            file.set_len(*size)?;
            segments
                .iter()
                .try_for_each(|segment| fill(&file, *segment, data))?;
            rustix::fs::fchown(&file, owner.0, owner.1)?;
            // After the owner, whose change takes some bits away.
            rustix::fs::fchmod(&file, mode)?;
            return Ok(rustix::fs::futimens(&file, &times(entry))?);
        }
        Kind::Link(first) => {
            let first = decode(first)?;
            let above = open_below(
                mount,
                first.parent().unwrap_or(Path::new("")),
                OFlags::PATH | OFlags::DIRECTORY,
            )?;
            let old = first.file_name().ok_or(io::ErrorKind::InvalidData)?;
            rustix::fs::linkat(&above, old, &parent, name, AtFlags::empty())?;
            return Ok(());
        }
        Kind::Symlink(target) => {
            let target = hex::decode(target).map_err(io::Error::other)?;
            rustix::fs::symlinkat(OsStr::from_bytes(&target), &parent, name)?;
        }
        Kind::Pipe => rustix::fs::mknodat(&parent, name, FileType::Fifo, mode, 0)?,
        Kind::Socket => rustix::fs::mknodat(&parent, name, FileType::Socket, mode, 0)?,
    }
    let flags = AtFlags::SYMLINK_NOFOLLOW;
    rustix::fs::chownat(&parent, name, owner.0, owner.1, flags)?;
    if !matches!(entry.kind, Kind::Symlink(_)) {
        // A pipe or a socket, which was made just now in place of whatever was there.
        rustix::fs::chmodat(&parent, name, mode, AtFlags::empty())?;
    }
    Ok(rustix::fs::utimensat(&parent, name, &times(entry), flags)?)
}

/// Removes what the maker of the mount has put at a name.
fn remove(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
    let removed = match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR),
        removed => removed,
    };
    match removed {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Makes a directory, in place of whatever was there, and opens it. One that is there stays.
fn make_directory(parent: BorrowedFd<'_>, name: &OsStr, mode: Mode) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let open = || open_below(parent, Path::new(name), flags);
    match open() {
        Ok(directory) => return Ok(directory),
        Err(Errno::NOENT) => {}
        Err(Errno::NOTDIR | Errno::LOOP) => remove(parent, name)?,
        Err(error) => return Err(error.into()),
    }
    rustix::fs::mkdirat(parent, name, mode)?;
    Ok(open()?)
}

fn fill(file: &File, (offset, length): (u64, u64), data: &mut impl Read) -> io::Result<()> {
    const CHUNK: u64 = 64 << 10;
    let mut done = 0;
    let mut buffer = Vec::new();
    while done < length {
        buffer.resize(
            usize::try_from(CHUNK.min(length - done)).map_err(io::Error::other)?,
            0,
        );
        data.read_exact(&mut buffer)?;
        file.write_all_at(&buffer, offset + done)?;
        done += buffer.len() as u64;
    }
    Ok(())
}

fn times(entry: &Entry) -> Timestamps {
    let changed = Timespec {
        tv_sec: entry.changed.0,
        tv_nsec: entry.changed.1,
    };
    Timestamps {
        last_access: changed,
        last_modification: changed,
    }
}

/// Opens a path below a mount that leads through no link and into no other mount.
fn open_below(mount: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(mount, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn encode(path: &Path) -> String {
    hex::encode(path.as_os_str().as_bytes())
}

fn decode(text: &str) -> io::Result<PathBuf> {
    let bytes = hex::decode(text).map_err(io::Error::other)?;
    Ok(PathBuf::from(OsStr::from_bytes(&bytes)))
}

fn about<E: Into<io::Error>>(
    operation: &'static str,
    path: &Path,
) -> impl FnOnce(E) -> ArchiveError {
    let path = path.to_owned();
    move |source| ArchiveError::File {
        operation,
        path,
        source: source.into(),
    }
}

#[cfg(test)]
mod tests;
