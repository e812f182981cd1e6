//! Watching a directory for changes.
//!
//! The kernel queues what happens; a watch turns that into the contract's events whenever
//! somebody asks or the queue fills. Reading and interpreting happen under one lock, so that
//! events keep their order whoever does it.
//!
//! The kernel watches single directories. A recursive watch follows by itself: when a directory
//! appears it is watched before its `CREATE` is told, and what was put into it in between is
//! told from a look inside.

mod kernel_event;
mod memory;
mod registry;
pub(crate) mod service;
mod tree;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::inotify;
use rustix::io::Errno;

use super::{FileError, blocking};
use crate::process::pipe_end::{MAX_PIECE, PipeEnd};
use crate::rootfs::Directory;
use crate::sandbox::users::Accounts;
use memory::Memory;
use tree::{Batch, Tree};

pub(crate) use registry::Watchers;

/// Parameters of a watch.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Absolute path of the directory.
    pub(super) path: String,
    pub(super) recursive: bool,
    pub(super) include_entry: bool,
    pub(super) allow_network_mounts: bool,
}

/// Reasons for which a watch has missed events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Gap {
    #[error("too many changes at once; some were lost")]
    Overflow,
    #[error("a new directory cannot be watched; the limit of watches is reached")]
    Limit,
}

/// A directory under watch.
#[derive(Debug)]
pub(super) struct Watch {
    channel: PipeEnd,
    /// Protects the order of events: held while the kernel's queue is read and interpreted, on
    /// the blocking pool only.
    tree: Mutex<Tree>,
    /// True if the last read stopped before the end of the queue.
    has_more: AtomicBool,
}

/// Number of pieces read from the kernel at once, which is more than its queue holds: whoever makes
/// changes as fast as they are read must not keep a reader busy for ever.
const MAX_PIECES: usize = 64;

impl Watch {
    /// Starts watching. From here on nothing is missed. Blocks.
    fn open(wanted: Wanted, accounts: Accounts, memory: &Arc<Memory>) -> Result<Self, FileError> {
        let path = wanted.path.clone();
        let failed = |errno: Errno| match errno {
            Errno::NOTDIR => FileError::NotADirectory { path: path.clone() },
            Errno::MFILE | Errno::NOSPC | Errno::NOMEM => FileError::TooManyWatches,
            errno => FileError::io("watch", &path, errno.into()),
        };
        let directory = Directory::find(path.as_str())
            .map_err(|error| failed(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        let failed_to_look = |source| FileError::io("watch", &path, source);
        if !wanted.allow_network_mounts && is_network(&directory).map_err(failed_to_look)? {
            return Err(FileError::Network { path });
        }
        let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
        let queue = inotify::init(flags).map_err(failed)?;
        let mut tree = Tree::new(directory, wanted, accounts, memory);
        tree.plant(&queue).map_err(failed)?;
        let channel =
            PipeEnd::new(queue).map_err(|source| FileError::io("watch", &path, source))?;
        Ok(Self {
            channel,
            tree: Mutex::new(tree),
            has_more: AtomicBool::new(false),
        })
    }

    /// Opens a watch on the blocking pool.
    pub(super) async fn start(
        wanted: Wanted,
        accounts: Accounts,
        memory: Arc<Memory>,
    ) -> Result<Arc<Self>, FileError> {
        blocking(move || Ok(Arc::new(Self::open(wanted, accounts, &memory)?))).await
    }

    /// Waits until something has happened.
    pub(super) async fn changed(&self) -> io::Result<()> {
        if self.has_more.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        self.channel.readable().await
    }

    /// Interprets what has happened and keeps it for [`Watch::take`].
    pub(super) async fn absorb(self: &Arc<Self>) -> Result<(), FileError> {
        let watch = Arc::clone(self);
        blocking(move || {
            watch.with_tree(|_| ());
            Ok(())
        })
        .await
    }

    /// Takes the events since the last time.
    async fn take(self: &Arc<Self>) -> Result<Result<Batch, Gap>, FileError> {
        let watch = Arc::clone(self);
        blocking(move || Ok(watch.with_tree(Tree::take))).await
    }

    fn with_tree<T>(&self, then: impl FnOnce(&mut Tree) -> T) -> T {
        let mut tree = self.tree.lock();
        let mut left = MAX_PIECES;
        loop {
            let Ok(Some(piece)) = self.channel.read_now(MAX_PIECE) else {
                tree.settle();
                break;
            };
            for event in kernel_event::parse(&piece) {
                tree.apply(self.channel.descriptor(), &event);
            }
            left -= 1;
            if left == 0 {
                self.has_more.store(true, Ordering::Release);
                break;
            }
        }
        tree.forget_names();
        then(&mut tree)
    }
}

/// Returns true if a directory is on a network filesystem, where changes made elsewhere are not
/// seen.
fn is_network(directory: &Directory) -> io::Result<bool> {
    const NFS: u64 = 0x6969;
    const CIFS: u64 = 0xff53_4d42;
    const SMB: u64 = 0x517b;
    const SMB2: u64 = 0xfe53_4d42;
    const FUSE: u64 = 0x6573_5546;
    Ok([NFS, CIFS, SMB, SMB2, FUSE].contains(&directory.filesystem_magic()?))
}

#[cfg(test)]
mod tests;
