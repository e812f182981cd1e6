//! Files and directories of the sandbox, and the RPC service over them.
//!
//! The contract has two ways to files: this service, which lists, moves, removes and watches, and
//! the plain HTTP routes in `http/files`, which carry content up and down and use what is here.
//!
//! Everything here works with root's rights and blocks, so it runs on the blocking pool. The
//! user of a request decides how paths are read and who owns what is made.

pub(crate) mod entry;
mod list;
mod parents;
mod remove;
pub(crate) mod service;
mod size;
mod strict_clients;
mod view;
pub(crate) mod watch;

use std::io;

use connectrpc::{ConnectError, ErrorCode};
use rustix::io::Errno;
use skep_telemetry::Chain;

use crate::sandbox::path::PathError;
use crate::sandbox::users::UserError;

pub(crate) use list::list;
pub(crate) use parents::{NewDirectories, make_parents};
pub(crate) use remove::remove;
pub(crate) use view::View;

/// Errors of operations on files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("invalid username: '{name}'")]
    User { name: String, source: UserError },
    #[error("path cannot be resolved")]
    Path(#[source] PathError),
    #[error("file not found: {path}")]
    NotFound { path: String },
    #[error("source file not found: {path}")]
    SourceNotFound { path: String },
    #[error("path is a file: {path}")]
    IsFile { path: String },
    #[error("path is a directory: {path}")]
    IsDirectory { path: String },
    #[error("path is not a directory: {path}")]
    NotADirectory { path: String },
    #[error("path is not a regular file: {path}")]
    NotRegular { path: String },
    #[error("directory already exists: {path}")]
    DirectoryExists { path: String },
    #[error("too many levels of symbolic links: {path}")]
    Loop { path: String },
    #[error("cannot watch path on network filesystem: {path}")]
    Network { path: String },
    /// A description of the tree would take more of the agent's memory than an answer may.
    #[error(
        "more than {entries} entries, or {bytes} bytes of them, under {path}; list a part of it"
    )]
    TooMuch {
        path: String,
        entries: usize,
        bytes: usize,
    },
    #[error("too many watches; remove some")]
    TooManyWatches,
    /// The disk, its inodes or the quota of the sandbox are used up.
    #[error("not enough disk space available")]
    NoSpace(#[source] io::Error),
    /// The operation cannot be done to this file, whoever asks.
    #[error("cannot {operation} '{path}'")]
    Unfit {
        operation: &'static str,
        path: String,
        source: io::Error,
    },
    /// The kernel refuses even root: the agent's own process, a filesystem that is mounted
    /// read-only.
    #[error("cannot {operation} '{path}'")]
    Denied {
        operation: &'static str,
        path: String,
        source: io::Error,
    },
    #[error("cannot {operation} '{path}'")]
    Io {
        operation: &'static str,
        path: String,
        source: io::Error,
    },
    /// A bug in here; the panic itself is in the log.
    #[error("the operation broke off")]
    Broken,
}

impl FileError {
    /// Turns the kernel's answer for `path` into what it means.
    pub(crate) fn io(operation: &'static str, path: &str, source: io::Error) -> Self {
        let path = path.to_owned();
        match Errno::from_io_error(&source) {
            Some(Errno::NOSPC | Errno::DQUOT) => Self::NoSpace(source),
            Some(Errno::NOENT) => Self::NotFound { path },
            Some(Errno::ISDIR) => Self::IsDirectory { path },
            Some(Errno::NXIO) => Self::NotRegular { path },
            Some(Errno::LOOP) => Self::Loop { path },
            Some(
                Errno::NAMETOOLONG
                | Errno::INVAL
                | Errno::NOTDIR
                | Errno::EXIST
                | Errno::NOTEMPTY
                | Errno::BUSY
                | Errno::TXTBSY
                | Errno::XDEV
                | Errno::MLINK
                | Errno::FBIG,
            ) => Self::Unfit {
                operation,
                path,
                source,
            },
            Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Self::Denied {
                operation,
                path,
                source,
            },
            _ => Self::Io {
                operation,
                path,
                source,
            },
        }
    }
}

impl From<FileError> for ConnectError {
    fn from(error: FileError) -> Self {
        let code = match &error {
            // The contract fixes this text; the cause is that nobody is called so.
            FileError::User { .. } => {
                return Self::new(ErrorCode::Unauthenticated, error.to_string());
            }
            FileError::NotFound { .. } | FileError::SourceNotFound { .. } => ErrorCode::NotFound,
            FileError::Path(_)
            | FileError::IsFile { .. }
            | FileError::IsDirectory { .. }
            | FileError::NotADirectory { .. }
            | FileError::NotRegular { .. }
            | FileError::Unfit { .. }
            | FileError::Network { .. } => ErrorCode::InvalidArgument,
            FileError::Denied { .. } => ErrorCode::PermissionDenied,
            FileError::DirectoryExists { .. } => ErrorCode::AlreadyExists,
            FileError::Loop { .. } => ErrorCode::FailedPrecondition,
            FileError::TooMuch { .. } | FileError::TooManyWatches | FileError::NoSpace(_) => {
                ErrorCode::ResourceExhausted
            }
            FileError::Io { .. } | FileError::Broken => ErrorCode::Internal,
        };
        Self::new(code, Chain(&error).to_string())
    }
}

/// Runs `work` where it may block.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(answer) => answer,
        Err(error) => {
            tracing::error!(%error, "file operation panicked");
            Err(FileError::Broken)
        }
    }
}
