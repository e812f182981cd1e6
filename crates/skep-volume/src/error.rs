//! Failures of volumes and of work on their files.

use std::io;

use rustix::io::Errno;

use crate::VolumePath;

/// Failure of work on a whole volume.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// A file of the host could not be handled.
    #[error("cannot {operation}")]
    Host {
        /// Operation that failed.
        operation: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// `mkfs.ext4` comes with the package `e2fsprogs`.
    #[error("cannot run mkfs.ext4")]
    NoTool(#[source] io::Error),
    /// The tool did not like something.
    #[error("mkfs.ext4 failed: {0}")]
    Tool(String),
    /// The host's disk has not enough room beside what is reserved.
    #[error("the host has no room for {0} bytes more")]
    NoRoom(u64),
}

impl VolumeError {
    pub(crate) fn host(operation: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Host { operation, source }
    }
}

/// Failure of work on the files of a volume. Unless it says otherwise, nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// There is nothing at this path, or a link on the way leads out of the volume.
    #[error("there is nothing at '{0}'")]
    NotFound(VolumePath),
    /// There is something already.
    #[error("'{0}' exists already")]
    Exists(VolumePath),
    /// A file would have to be a directory.
    #[error("'{0}' leads through something that is no directory")]
    ThroughFile(VolumePath),
    /// A directory cannot be read or written as a file.
    #[error("'{0}' is a directory")]
    IsDirectory(VolumePath),
    /// A pipe, a socket or a device: not a thing to be read.
    #[error("'{0}' is neither a file nor a directory")]
    NotSupported(VolumePath),
    /// The volume itself stays.
    #[error("the root of a volume cannot be deleted; delete the volume")]
    Root,
    /// A listing would be longer than anybody can hold.
    #[error("'{path}' has more than {most} entries; ask for a smaller depth or a part of it")]
    TooMany {
        /// Path that was to be listed.
        path: VolumePath,
        /// Limit on the number of entries.
        most: usize,
    },
    /// The volume is full.
    #[error("the volume is full")]
    Full,
    /// The host's disk is.
    #[error("the host of the volume is full")]
    HostFull,
    /// The system refused. Some of it may have been done.
    #[error("cannot {operation} '{path}'")]
    System {
        /// Operation that failed.
        operation: &'static str,
        /// The path as it was asked for.
        path: VolumePath,
        /// The system's answer.
        source: io::Error,
    },
}

impl ContentError {
    /// Says what an error of the system means for work on a path.
    pub(crate) fn of(operation: &'static str, path: &VolumePath) -> impl FnOnce(io::Error) -> Self {
        let path = path.clone();
        move |source| match Errno::from_io_error(&source) {
            // XDEV is a link that leads out, LOOP one that leads nowhere.
            Some(Errno::NOENT | Errno::XDEV | Errno::LOOP) => Self::NotFound(path),
            Some(Errno::NOTDIR) => Self::ThroughFile(path),
            Some(Errno::EXIST | Errno::NOTEMPTY) => Self::Exists(path),
            Some(Errno::ISDIR) => Self::IsDirectory(path),
            Some(Errno::NOSPC | Errno::DQUOT) => Self::Full,
            Some(_) | None => Self::System {
                operation,
                path,
                source,
            },
        }
    }
}
