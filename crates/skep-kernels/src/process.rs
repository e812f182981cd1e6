//! Processes, as far as kernels need them. In a sandbox only its first process can wait for
//! children, so whoever is that process lends this.

#[cfg(test)]
pub(crate) mod none;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::Signal;

use crate::kernel::Exit;
use crate::meter::Meter;

/// Starts and signals processes of the sandbox's user.
pub trait Processes: Send + Sync + 'static {
    /// Starts a program with these standard descriptors and no others.
    fn start(&self, command: Command, standard: [OwnedFd; 3])
    -> BoxFuture<'_, io::Result<Started>>;

    /// Has the same process as [`Processes::start`] by a fork of one that is prepared for it;
    /// `None` if nothing is. Without a fork the descriptors are gone, too: somebody else may have
    /// got them, so whoever starts the program makes new ones.
    ///
    /// # Errors
    ///
    /// If the fork was tried and failed.
    fn fork(
        &self,
        command: Command,
        standard: [OwnedFd; 3],
    ) -> BoxFuture<'_, io::Result<Option<Started>>> {
        drop((command, standard));
        async { Ok(None) }.boxed()
    }

    /// Takes over a process that a kernel of this sandbox has forked, as if it had been started by
    /// [`Processes::start`]. The number is what the kernel of the host has said of a sender;
    /// nothing else about the process is known.
    ///
    /// # Errors
    ///
    /// If it is not what a kernel forks: an orphan of the sandbox's user that leads its group,
    /// and that nobody has taken over.
    fn adopt(&self, _pid: u32) -> BoxFuture<'_, io::Result<Started>> {
        async { Err(io::ErrorKind::Unsupported.into()) }.boxed()
    }

    /// Signals a process and its group.
    ///
    /// # Errors
    ///
    /// If it has ended.
    fn signal(&self, pid: u32, signal: Signal) -> io::Result<()>;

    /// Makes an empty directory that only the sandbox's user can enter, with a short path.
    ///
    /// # Errors
    ///
    /// If there is no place for it.
    fn make_directory(&self) -> io::Result<PathBuf>;

    /// Writes a file that only the sandbox's user can read.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    fn write_file(&self, path: &Path, content: &[u8]) -> io::Result<()>;

    /// Removes a directory of [`Processes::make_directory`] and what is in it.
    ///
    /// # Errors
    ///
    /// If something in it cannot be removed.
    fn remove_directory(&self, directory: &Path) -> io::Result<()>;

    /// Reads a file of the sandbox that is not longer than this, and nothing but a file: code in
    /// the sandbox may have put anything in its place.
    ///
    /// # Errors
    ///
    /// If there is none, it is longer, or it must not be read.
    fn read_file(&self, path: &Path, longest: u64) -> io::Result<Vec<u8>>;

    /// The names in a directory of the sandbox, as far as they are text, if there are at most
    /// `most`.
    ///
    /// # Errors
    ///
    /// If there is no directory, it holds more, or it must not be read.
    fn names_in(&self, directory: &Path, most: usize) -> io::Result<Vec<String>>;

    /// Returns true if a path of the sandbox leads to a file.
    fn is_file(&self, path: &Path) -> bool;

    /// Returns the modification time of what a path of the sandbox leads to; `None` if that is
    /// nothing.
    fn modified(&self, path: &Path) -> Option<SystemTime>;

    /// Opens what swallows everything and holds nothing, whatever is called `/dev/null` by now.
    ///
    /// # Errors
    ///
    /// If no descriptor is left.
    fn null_device(&self) -> io::Result<OwnedFd>;

    /// Returns the number of processes of this sandbox that the OOM killer has taken; `None` if
    /// that cannot be seen.
    fn out_of_memory_kills(&self) -> Option<u64>;

    /// Returns true if the sandbox needs its memory for other things than spares.
    fn is_short_of_memory(&self) -> BoxFuture<'static, bool>;

    /// Returns the settings that a process started now gets from the sandbox.
    fn inherited(&self) -> Inherited;
}

/// A command to start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments.
    pub arguments: Vec<String>,
    /// Variables beside and over the sandbox's own.
    pub environment: BTreeMap<String, String>,
    /// True if no caller needs the process yet. It is the first to be killed when there is no
    /// memory left.
    pub is_spare: bool,
}

/// Settings that processes get from the sandbox when they start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inherited {
    /// The sandbox's variables.
    pub environment: BTreeMap<String, String>,
    /// Initial working directory.
    pub directory: String,
}

/// A process that was started. It leads a process group of its own.
pub struct Started {
    /// Process id, as the sandbox sees it.
    pub pid: u32,
    /// Waits for its end. Nothing is lost when the wait is interrupted.
    pub exit: BoxFuture<'static, Exit>,
    /// Measures it and everything it starts. [`ProcessMeter`] will do where there is nothing
    /// better.
    ///
    /// [`ProcessMeter`]: crate::ProcessMeter
    pub meter: Arc<dyn Meter>,
}

impl std::fmt::Debug for Started {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Started")
            .field("pid", &self.pid)
            .field("meter", &self.meter)
            .finish_non_exhaustive()
    }
}
