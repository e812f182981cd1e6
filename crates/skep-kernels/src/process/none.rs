//! Processes for tests that need none.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use rustix::process::Signal;

use super::{Command, Inherited, Processes, Started};
use crate::fake::plain_files;

/// Starts nothing, and remembers what was signalled to processes that are none.
#[derive(Debug, Default)]
pub(crate) struct NoProcesses(Mutex<Vec<Signal>>);

impl NoProcesses {
    pub(crate) fn signals(&self) -> Vec<Signal> {
        self.0.lock().clone()
    }
}

impl Processes for NoProcesses {
    fn start(
        &self,
        _command: Command,
        _standard: [OwnedFd; 3],
    ) -> BoxFuture<'_, io::Result<Started>> {
        async { Err(io::ErrorKind::Unsupported.into()) }.boxed()
    }

    fn signal(&self, _pid: u32, signal: Signal) -> io::Result<()> {
        self.0.lock().push(signal);
        Ok(())
    }

    fn make_directory(&self) -> io::Result<PathBuf> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write_file(&self, _path: &Path, _content: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn remove_directory(&self, _directory: &Path) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn read_file(&self, path: &Path, longest: u64) -> io::Result<Vec<u8>> {
        let content = std::fs::read(path)?;
        if content.len() as u64 > longest {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(content)
    }

    fn names_in(&self, directory: &Path, most: usize) -> io::Result<Vec<String>> {
        plain_files::names_in(directory, most)
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn modified(&self, path: &Path) -> Option<SystemTime> {
        plain_files::modified(path)
    }

    fn null_device(&self) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn out_of_memory_kills(&self) -> Option<u64> {
        None
    }

    fn is_short_of_memory(&self) -> BoxFuture<'static, bool> {
        async { false }.boxed()
    }

    fn inherited(&self) -> Inherited {
        Inherited::default()
    }
}
