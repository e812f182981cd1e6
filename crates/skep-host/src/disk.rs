//! A disk of a certain size for each sandbox: a file that holds a filesystem.
//!
//! The file is sparse, so it takes as much of the host's disk as the sandbox has written.
//! An empty one of each size is made once and copied for every sandbox.

mod ready;
mod room;
mod stack;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use parking_lot::Mutex;
use skep_linux::{copy_data, copy_sparse, share_blocks};
use skep_types::Reserve;

use crate::pool::Pool;
use ready::ReadyDisk;
pub use room::CopyReservation;
use room::CopyRoom;
pub(crate) use stack::{MountedDisk, used_by_all};

const MIB: u64 = 1 << 20;
/// A filesystem needs some of the space for itself: an inode of 256 bytes for each 8 KiB, and
/// a little more.
const INODE_RATIO: &str = "8192";
const OVERHEAD_PERCENT: u64 = 5;
const OVERHEAD: u64 = 16 * MIB;
const BLOCK: u64 = 512;

/// The empty disks that others are copied from.
#[derive(Debug)]
pub(crate) struct Disks {
    directory: PathBuf,
    /// Held while an empty disk is made, so that each size is made once.
    making: Mutex<()>,
    room: CopyRoom,
    /// Those that are mounted already, by size.
    pub(crate) ready: Pool<u32, ReadyDisk>,
}

/// Failure to create or mount a sandbox's disk.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DiskError {
    #[error("cannot {operation} `{}`", path.display())]
    File {
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// `mkfs.ext4` comes with the package `e2fsprogs`.
    #[error("cannot run mkfs.ext4")]
    NoTool(#[source] io::Error),
    #[error("mkfs.ext4 failed: {0}")]
    Tool(String),
}

impl Disks {
    /// Takes room for so many bytes in a directory.
    pub(crate) fn room_for(&self, directory: &Path, bytes: u64) -> io::Result<CopyReservation<'_>> {
        self.room.take(File::open(directory)?, bytes)
    }

    /// Disks in `directory`, of which `ready` of a size are kept mounted. Copies leave `reserve` of
    /// the file system free.
    pub(crate) fn new(
        directory: PathBuf,
        ready: usize,
        reserve: Option<Reserve>,
    ) -> io::Result<Self> {
        Self::forget_ready(&directory)?;
        Ok(Self {
            directory,
            making: Mutex::new(()),
            room: CopyRoom::new(reserve),
            ready: Pool::new(ready),
        })
    }

    /// Makes a disk at `path` on which `mebibytes` can be written. Blocks.
    pub(crate) fn make(&self, path: &Path, mebibytes: u32) -> Result<(), DiskError> {
        let empty = self.empty(mebibytes)?;
        let from = File::open(&empty).map_err(file("open", &empty))?;
        let to = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(file("make", path))?;
        copy_sparse(&from, &to).map_err(file("write", path))
    }

    /// An empty disk of this size, made if this is the first time it is asked for.
    fn empty(&self, mebibytes: u32) -> Result<PathBuf, DiskError> {
        let path = self.directory.join(format!("empty-{mebibytes}.ext4"));
        if path.exists() {
            return Ok(path);
        }
        let _one_at_a_time = self.making.lock();
        if path.exists() {
            return Ok(path);
        }
        fs::create_dir_all(&self.directory).map_err(file("make", &self.directory))?;
        // Only a finished one gets the name, so that a crash in between leaves no half.
        let unfinished = self.directory.join(format!("making-{mebibytes}.ext4"));
        format(&unfinished, mebibytes)?;
        fs::rename(&unfinished, &path).map_err(file("rename", &unfinished))?;
        Ok(path)
    }
}

/// Origin of the disk of a lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskSource {
    /// An empty one, from the pool if there is one.
    Empty,
    /// A disk with what is on a captured one. Blocks are shared where the file system can, so that it
    /// takes no time and no space; else it is copied if it is small, and lies below an empty one if not.
    Copy(PathBuf),
    /// The captured disk itself. What is captured is worth nothing from then on.
    Reuse(PathBuf),
}

/// Ways to capture a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capture {
    /// A copy, which shares nothing with the disk that could change.
    Copy,
    /// The same, for somebody who uses it at once: nobody waits until it would survive the host.
    PassingCopy,
    /// The disk itself, for a sandbox that ends: it stays when the sandbox has gone.
    Keep,
}

impl Disks {
    /// Mounts the disk of a lease at `path`, nowhere yet. Blocks.
    pub(crate) fn mount_from(
        &self,
        source: &DiskSource,
        path: &Path,
        mebibytes: u32,
    ) -> Result<MountedDisk, DiskError> {
        let top = match source {
            DiskSource::Empty => self.mount(path, mebibytes)?,
            DiskSource::Copy(image) => self.mount_copy(image, path, mebibytes)?,
            DiskSource::Reuse(image) => {
                fs::hard_link(image, path).map_err(file("link", image))?;
                stack::link_below(image, path)?;
                mount_used(path)?
            }
        };
        let below = Self::mount_below(path)?;
        Ok(MountedDisk { top, below })
    }

    /// Mounts a disk with what is on a captured one, in the cheapest way that there is.
    fn mount_copy(&self, image: &Path, path: &Path, mebibytes: u32) -> Result<OwnedFd, DiskError> {
        let above = Self::size_above(image, mebibytes)?;
        if let Some(above) = above
            && !self.share_file(image, path)?
        {
            return self.stack(image, path, above);
        }
        if above.is_none() {
            self.copy_file(image, path)?;
        }
        stack::link_below(image, path)?;
        mount_used(path)
    }

    /// Makes a file that shares the blocks of another; false, and no file, if the file system
    /// cannot.
    fn share_file(&self, from: &Path, to: &Path) -> Result<bool, DiskError> {
        let source = File::open(from).map_err(file("open", from))?;
        let target = new_file(to)?;
        let shared = share_blocks(&source, &target).map_err(file("write", to));
        if !matches!(shared, Ok(true)) {
            fs::remove_file(to).map_err(file("remove", to))?;
        }
        shared
    }

    /// Captures the disk at `path`, which nobody writes to, in a new file. Returns when that, and all that
    /// it lies on, would survive the host, if it is to. Blocks. A capture that fails leaves nothing.
    pub(crate) fn capture(&self, path: &Path, to: &Path, how: Capture) -> Result<u64, DiskError> {
        match how {
            Capture::Copy | Capture::PassingCopy => self.copy_file(path, to)?,
            Capture::Keep => fs::hard_link(path, to).map_err(file("link", path))?,
        }
        let captured = stack::link_below(path, to).and_then(|()| {
            if how != Capture::PassingCopy {
                // What it lies on may be a copy that was made in passing, and is nowhere but in memory.
                for path in stack::below(to).iter().map(PathBuf::as_path).chain([to]) {
                    let kept = File::open(path).map_err(file("open", path))?;
                    kept.sync_all().map_err(file("sync", path))?;
                }
            }
            used_by_all(to).map_err(file("look at", to))
        });
        captured.inspect_err(|_| {
            stack::unlink_below(to);
            if let Err(left) = fs::remove_file(to) {
                tracing::warn!(path = %to.display(), error = %left, "a disk is left");
            }
        })
    }

    fn copy_file(&self, from: &Path, to: &Path) -> Result<(), DiskError> {
        let source = File::open(from).map_err(file("open", from))?;
        let target = new_file(to)?;
        self.copy_if_it_fits(&source, &target).map_err(|error| {
            if let Err(left) = fs::remove_file(to) {
                tracing::warn!(path = %to.display(), error = %left, "cannot remove incomplete disk");
            }
            file("write", to)(error)
        })
    }

    /// Copies a disk that was written to, if that leaves the host enough of its own.
    fn copy_if_it_fits(&self, from: &File, to: &File) -> io::Result<()> {
        if share_blocks(from, to)? {
            return Ok(());
        }
        let _room = self.room.take(to, from.metadata()?.blocks() * BLOCK)?;
        copy_data(from, to)
    }
}

fn new_file(path: &Path) -> Result<File, DiskError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(path).map_err(file("make", path))
}

fn mount_used(path: &Path) -> Result<OwnedFd, DiskError> {
    skep_linux::mount_used_overlay_disk(path).map_err(file("mount", path))
}

/// Bytes that a disk image occupies on the host's disk.
pub(crate) fn used(path: &Path) -> io::Result<u64> {
    Ok(fs::metadata(path)?.blocks() * BLOCK)
}

fn format(path: &Path, mebibytes: u32) -> Result<(), DiskError> {
    let wanted = u64::from(mebibytes) * MIB;
    let bytes = wanted + wanted * OVERHEAD_PERCENT / 100 + OVERHEAD;
    let image = File::create(path).map_err(file("make", path))?;
    image.set_len(bytes).map_err(file("size", path))?;
    let output = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-b", "4096", "-m", "0", "-i", INODE_RATIO])
        // A disk that is thrown away with its sandbox needs no journal.
        .args(["-O", "^has_journal,^resize_inode", "-E"])
        .arg("lazy_itable_init=1,nodiscard,root_owner=0:0")
        .arg(path)
        .stdin(Stdio::null())
        .output()
        .map_err(DiskError::NoTool)?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(DiskError::Tool(said.trim().chars().take(256).collect()))
}

fn file(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DiskError {
    let path = path.to_owned();
    move |source| DiskError::File {
        operation,
        path,
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_a_whole_filesystem_and_takes_almost_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let disks = Disks::new(directory.path().join("disks"), 0, None).unwrap();
        let path = directory.path().join("disk.img");
        disks.make(&path, 10 * 1024).unwrap();
        assert!(used(&path).unwrap() < 8 * MIB, "{}", used(&path).unwrap());
        let checked = Command::new("e2fsck")
            .arg("-fn")
            .arg(&path)
            .output()
            .unwrap();
        assert!(checked.status.success(), "{checked:?}");
    }

    #[test]
    fn many_at_once_make_one_empty_disk() {
        let directory = tempfile::tempdir().unwrap();
        let disks = Disks::new(directory.path().join("disks"), 0, None).unwrap();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let path = directory.path().join(number.to_string());
                let disks = &disks;
                scope.spawn(move || disks.make(&path, 32).unwrap());
            }
        });
        assert_eq!(
            fs::read_dir(directory.path().join("disks"))
                .unwrap()
                .count(),
            1
        );
    }
}
