//! The standard error of agents and zygotes.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Limit on what a process may write to its standard error. Agents are quiet; this is for the
/// last lines before an end.
const BYTES: u64 = 64 << 10;

/// The standard error of a process, in memory: a file on disk would have to be bounded by
/// somebody, and a pipe would break when the server is restarted.
#[derive(Debug)]
pub(crate) struct Stderr {
    memory: File,
}

impl Stderr {
    pub(crate) fn new() -> io::Result<Self> {
        let memory = skep_linux::bounded_file("agent-stderr", BYTES)?.into();
        Ok(Self { memory })
    }

    /// Memory that belongs to `owner`, because an image of a sandbox holds nothing of users that it
    /// does not have.
    pub(crate) fn of(owner: u32) -> io::Result<Self> {
        let stderr = Self::new()?;
        std::os::unix::fs::fchown(&stderr.memory, Some(owner), Some(owner))?;
        Ok(stderr)
    }

    /// The end of the process.
    pub(crate) fn share(&self) -> io::Result<OwnedFd> {
        Ok(self.memory.try_clone()?.into())
    }

    /// Text that was written, for the log of the server.
    pub(crate) fn text(&self) -> String {
        let text = self.read();
        text.unwrap_or_else(|error| format!("(unreadable: {error})"))
    }

    fn read(&self) -> io::Result<String> {
        let mut bytes = vec![0; usize::try_from(BYTES).map_err(io::Error::other)?];
        let length = self.memory.read_at(&mut bytes, 0)?;
        let text = bytes[..length].split(|byte| *byte == 0).next();
        let text = String::from_utf8_lossy(text.unwrap_or_default());
        Ok(text.trim().to_owned())
    }
}
