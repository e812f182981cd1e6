//! Logs of sandboxes.
//!
//! While it lives, that is a piece of memory that its agent writes and that cannot grow: a file
//! on the disk would have to be bounded by somebody, and a pipe would break with the server.
//! The memory is counted as the sandbox's. When the sandbox is removed, the lines go to a file.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use rustix::fs::OFlags;
use skep_agent_protocol::log;
use skep_types::SandboxId;

/// Name of the memory.
const NAME: &str = "sandbox-log";

/// The end of a kept log's name.
const SUFFIX: &str = ".jsonl";

/// The memory of a sandbox's log.
#[derive(Debug)]
pub(crate) struct Log {
    memory: File,
}

/// The descriptor of a process that holds the memory of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHolder {
    /// The process, by its number on the host.
    pub pid: i32,
    /// The number of its descriptor.
    pub fd: i32,
}

/// Tells the memory of one sandbox from everything else that has a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Log {
    /// New memory, for a sandbox that is about to be launched. It belongs to `owner`, because an
    /// image of the sandbox holds nothing of users that it does not have.
    pub(crate) fn new(owner: u32) -> io::Result<Self> {
        // The agent gets this file and may be anybody's, so its size is settled.
        let bytes = u64::try_from(log::BYTES).map_err(io::Error::other)?;
        let memory = skep_linux::bounded_file(NAME, bytes)?;
        std::os::unix::fs::fchown(&memory, Some(owner), Some(owner))?;
        Ok(Self {
            memory: memory.into(),
        })
    }

    /// The memory of a sandbox that an earlier server has launched; its agent still has it.
    ///
    /// The agent may have put anything in its place, so what is found is opened only if it is
    /// the very memory that was given.
    pub(crate) fn find(holder: LogHolder, identity: Identity) -> io::Result<Self> {
        let path = format!("/proc/{}/fd/{}", holder.pid, holder.fd);
        let found = File::options()
            .read(true)
            .custom_flags(OFlags::PATH.bits().cast_signed())
            .open(path)?;
        if identity_of(&found)? != identity {
            return Err(io::Error::other("it is something else now"));
        }
        // Opened through the descriptor that was compared: behind the path there may be another
        // file by now.
        let memory = File::open(format!("/proc/self/fd/{}", found.as_raw_fd()))?;
        Ok(Self { memory })
    }

    /// The memory of a sandbox that was restored: its agent has memory of the same name and size in
    /// place of what it was launched with.
    pub(crate) fn restored(holder: LogHolder) -> io::Result<Self> {
        let path = format!("/proc/{}/fd/{}", holder.pid, holder.fd);
        let found = File::options()
            .read(true)
            .custom_flags(OFlags::PATH.bits().cast_signed())
            .open(path)?;
        let own = format!("/proc/self/fd/{}", found.as_raw_fd());
        let is_memory =
            fs::read_link(&own)?.as_os_str() == format!("/memfd:{NAME} (deleted)").as_str();
        let metadata = found.metadata()?;
        let is_whole = metadata.is_file() && usize::try_from(metadata.len()) == Ok(log::BYTES);
        if !is_memory || !is_whole {
            return Err(io::Error::other("it is something else now"));
        }
        let memory = File::open(own)?;
        // One that could shrink would break its reader.
        let seals = rustix::fs::fcntl_get_seals(&memory)?;
        if !seals.contains(rustix::fs::SealFlags::SHRINK | rustix::fs::SealFlags::SEAL) {
            return Err(io::Error::other("its size is not settled"));
        }
        Ok(Self { memory })
    }

    pub(crate) fn identity(&self) -> io::Result<Identity> {
        identity_of(&self.memory)
    }

    /// The agent's end.
    pub(crate) fn share(&self) -> io::Result<OwnedFd> {
        Ok(self.memory.try_clone()?.into())
    }

    /// The lines, the oldest first.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let mut memory = vec![0; log::BYTES];
        self.memory.read_exact_at(&mut memory, 0)?;
        let mut text = log::lines(&memory).join(&b'\n');
        if !text.is_empty() {
            text.push(b'\n');
        }
        Ok(text)
    }
}

fn identity_of(file: &File) -> io::Result<Identity> {
    let metadata = file.metadata()?;
    Ok(Identity {
        device: metadata.dev(),
        inode: metadata.ino(),
    })
}

/// The logs of ended sandboxes, a file for each that has logged anything.
#[derive(Debug)]
pub(crate) struct KeptLogs {
    directory: PathBuf,
}

impl KeptLogs {
    pub(crate) fn open(directory: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    pub(crate) fn keep(&self, id: &SandboxId, text: &[u8]) -> io::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        fs::write(self.path(id), text)
    }

    pub(crate) fn read(&self, id: &SandboxId) -> io::Result<Vec<u8>> {
        match fs::read(self.path(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            read => read,
        }
    }

    /// The kept logs and their sizes in bytes.
    pub(crate) fn list(&self) -> io::Result<Vec<(SandboxId, u64)>> {
        let mut logs = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            if let Some(Ok(id)) = id.map(str::parse) {
                logs.push((id, entry.metadata()?.len()));
            }
        }
        Ok(logs)
    }

    pub(crate) fn forget(&self, id: &SandboxId) -> io::Result<()> {
        match fs::remove_file(self.path(id)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// The name is an id: it cannot leave the directory.
    fn path(&self, id: &SandboxId) -> PathBuf {
        self.directory.join(format!("{id}{SUFFIX}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_cannot_grow_and_what_is_not_it_is_not_opened() {
        let log = Log::new(0).unwrap();
        let theirs = File::from(log.share().unwrap());
        let end = u64::try_from(log::BYTES).unwrap();
        theirs.write_at(b"x", end).unwrap_err();
        theirs.set_len(0).unwrap_err();
        assert_eq!(log.read().unwrap(), b"");
        // Whatever this process has under that number, it is not memory that is gone.
        let gone = Log::new(0).unwrap().identity().unwrap();
        let own = std::process::id().cast_signed();
        let holder = LogHolder { pid: own, fd: 1 };
        Log::find(holder, gone).unwrap_err();
        Log::restored(holder).unwrap_err();
        // Found again by its kind alone, if it is of that kind.
        let fd = theirs.as_raw_fd();
        Log::restored(LogHolder { pid: own, fd }).unwrap();
        let other = File::from(skep_linux::bounded_file("other", end).unwrap());
        let fd = other.as_raw_fd();
        Log::restored(LogHolder { pid: own, fd }).unwrap_err();
    }

    #[test]
    fn what_was_said_is_kept_until_it_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let logs = KeptLogs::open(directory.path().join("logs")).unwrap();
        let id = SandboxId::random();
        assert_eq!(logs.read(&id).unwrap(), b"");
        logs.keep(&id, b"{}\n").unwrap();
        assert_eq!(logs.read(&id).unwrap(), b"{}\n");
        fs::write(directory.path().join("logs/other"), b"not ours").unwrap();
        assert_eq!(logs.list().unwrap(), [(id.clone(), 3)]);
        logs.forget(&id).unwrap();
        logs.forget(&id).unwrap();
        assert_eq!(logs.read(&id).unwrap(), b"");
    }
}
