//! The port to sandboxes in which steps are carried out.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use skep_image::ContentKey;
use skep_types::{LayerKey, Resources, TeamId, TemplateId};

type Source = Box<dyn std::error::Error + Send + Sync>;

/// Port that lends sandboxes to builds.
pub trait Sandboxes: fmt::Debug + Send + Sync {
    /// Starts a sandbox for a build. It is in no record and has no route, so a server that is killed
    /// leaves nothing that the next one does not sweep away.
    ///
    /// # Cancel safety
    ///
    /// None: the caller drives it to its end.
    ///
    /// # Errors
    ///
    /// [`OpenError`]; nothing of it is left.
    fn open(&self, order: SandboxOrder) -> BoxFuture<'_, Result<Arc<dyn BuildSandbox>, OpenError>>;

    /// Removes what is kept for sandboxes and was not used since `before`. Blocks.
    ///
    /// # Errors
    ///
    /// Whatever the file system says.
    fn forget_unused(&self, before: SystemTime) -> io::Result<()> {
        let _ = before;
        Ok(())
    }
}

/// A sandbox for a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxOrder {
    /// Layers of its root, the lowest first.
    pub layers: Vec<LayerKey>,
    /// Team that pays for it.
    pub team: TeamId,
    /// Template that it is for.
    pub template: TemplateId,
    /// Its limits.
    pub resources: Resources,
    /// Builds that it may share downloads of packages with.
    pub scope: ContentKey,
}

/// A sandbox in which a step is carried out.
pub trait BuildSandbox: fmt::Debug + Send + Sync {
    /// Runs a command and returns when it has ended, or its time is over and it was killed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the call leaves the command running, until the sandbox is closed.
    ///
    /// # Errors
    ///
    /// [`RunError`]; a command that fails is none.
    fn run<'a>(
        &'a self,
        command: &'a Command,
        output: Arc<dyn Output>,
    ) -> BoxFuture<'a, Result<Exit, RunError>>;

    /// Variables by which commands of a user find what is kept for them.
    fn variables(&self, user: &str) -> Vec<(&'static str, String)> {
        let _ = user;
        Vec::new()
    }

    /// Writes a file as root, from the beginning of `content`.
    ///
    /// # Errors
    ///
    /// [`TransferError`].
    fn write(&self, path: String, content: File) -> BoxFuture<'_, Result<(), TransferError>>;

    /// Copies what was changed in it into a directory, as a layer of at most `limit` bytes. It can
    /// only be closed from then on. Returns the bytes.
    ///
    /// # Errors
    ///
    /// [`SealError`].
    fn seal(&self, into: PathBuf, limit: u64) -> BoxFuture<'_, Result<u64, SealError>>;

    /// Ends it, with all that runs in it. What cannot be removed is tried again by others.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A command in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Program and arguments.
    pub arguments: Vec<String>,
    /// User that runs it.
    pub user: String,
    /// Its directory; the user's home if there is none.
    pub directory: Option<String>,
    /// Variables beside those that every process has.
    pub environment: BTreeMap<String, String>,
    /// Time after which it is killed.
    pub timeout: Duration,
}

/// Receiver of a command's output.
pub trait Output: Send + Sync {
    /// Takes some bytes, cut anywhere.
    fn write(&self, stream: Stream, bytes: &[u8]);
}

/// A stream of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The name of the stream in logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// The end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The words for it, such as `exit status 1` or `signal: killed`.
    pub status: String,
}

impl Exit {
    /// Returns true if the command succeeded.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }
}

/// Failure to start a sandbox.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The host has no room for another one. Later there may be.
    #[error("no room for another sandbox")]
    NoRoom,
    /// It could not be started.
    #[error("cannot start a sandbox for the build")]
    Failed(#[source] Source),
}

/// Failure to run a command.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The agent refused: there is no such user, or no such directory.
    #[error("{code}: {message}")]
    Refused {
        /// Its code, such as `unauthenticated`.
        code: String,
        /// Its words, for the caller.
        message: String,
    },
    /// It took too long and was killed.
    #[error("the command took longer than {} s", .0.as_secs())]
    TimedOut(Duration),
    /// The sandbox does not answer: it has ended, or the host is overloaded.
    #[error("the sandbox of the build does not answer")]
    Lost(#[source] Source),
}

/// Failure to write a file.
#[derive(Debug, thiserror::Error)]
#[error("cannot write `{path}` in the sandbox of the build")]
pub struct TransferError {
    /// The file.
    pub path: String,
    /// The error behind it.
    pub source: Source,
}

/// Failure to make a layer of a sandbox's changes.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// There is more than the layer may have.
    #[error("the changes take more than {} MiB", .0 >> 20)]
    TooLarge(u64),
    /// They could not be copied.
    #[error("cannot copy the changes of a step")]
    Failed(#[source] Source),
}
