//! The port through which control keeps files that builds copy, and the links to upload them.

mod fake;
mod link;

use std::time::SystemTime;
use std::{fmt, io};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use skep_types::{FilesHash, TeamId};

pub use fake::FakeUploads;
pub(crate) use link::LinkKey;
pub use link::{FileLink, LinkError, UploadLink};

/// Port that keeps uploaded files. Teams share none.
pub trait Uploads: fmt::Debug + Send + Sync {
    /// Returns true if a team has uploaded these files completely.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being told.
    fn is_present<'a>(
        &'a self,
        team: &'a TeamId,
        files: &'a FilesHash,
    ) -> BoxFuture<'a, io::Result<bool>>;

    /// Removes archives that no client and no build has asked for since `before`. Returns their
    /// bytes.
    ///
    /// # Errors
    ///
    /// Whatever keeps them from being looked at.
    fn forget_unused(&self, before: SystemTime) -> BoxFuture<'_, io::Result<u64>>;

    /// Takes an archive and keeps it if it is complete. One of the same name is replaced; whoever
    /// reads that one goes on reading it.
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves nothing behind.
    ///
    /// # Errors
    ///
    /// [`UploadError`]; nothing is kept.
    fn receive<'a>(
        &'a self,
        team: &'a TeamId,
        files: &'a FilesHash,
        upload: Upload,
    ) -> BoxFuture<'a, Result<(), UploadError>>;
}

/// An archive on its way.
pub struct Upload {
    /// Size that was announced, if one was.
    pub announced: Option<u64>,
    /// The bytes.
    pub body: BoxStream<'static, io::Result<Bytes>>,
}

impl fmt::Debug for Upload {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Upload");
        debug
            .field("announced", &self.announced)
            .finish_non_exhaustive()
    }
}

/// Failure to take an archive. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum UploadError {
    /// It is larger than one may be.
    #[error("the archive is larger than {limit} bytes")]
    TooLarge {
        /// Largest size of an archive.
        limit: u64,
    },
    /// It broke off, or is not what it should be. Uploading it again may help.
    #[error("the archive is broken: {0}")]
    Broken(&'static str),
    /// All archives of the team would be larger than they may be.
    #[error(
        "the archives of the team would take more than {limit} bytes of the server's disk; leave out files that the \
         build does not need, or try again when archives that builds no longer use are removed (`builds.keep_days`)"
    )]
    TeamFull {
        /// Largest size of all archives of a team.
        limit: u64,
    },
    /// The disk has no room for it now. Uploading it later may help.
    #[error("the server's disk has no room for the archive; try again later")]
    NoRoom,
    /// The disk did not take it.
    #[error("cannot keep the archive")]
    Failed(#[source] io::Error),
}
