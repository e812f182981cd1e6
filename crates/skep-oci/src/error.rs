//! Reasons for which an image cannot be had.

use std::io;

use skep_image::StoreError;

use crate::ReferenceError;

/// An image could not be pulled.
#[derive(Debug, thiserror::Error)]
#[error("image `{reference}`: {reason}")]
pub struct PullError {
    /// Reference as the caller wrote it.
    pub reference: String,
    /// The reason.
    #[source]
    pub reason: PullReason,
}

/// Reason for which an image could not be pulled. Its text may be shown to the caller.
#[derive(Debug, thiserror::Error)]
pub enum PullReason {
    /// The reference is none.
    #[error("the reference cannot be read: {0}")]
    Reference(ReferenceError),
    /// The registry has the repository but not this version of it.
    #[error("not found: there is no such image or tag")]
    NotFound,
    /// The registry does not have the repository.
    #[error("repository not found")]
    RepositoryNotFound,
    /// The registry wants credentials, or others than these.
    #[error("access denied: authentication failed ({0})")]
    Authentication(String),
    /// The credentials are good but may not read this image.
    #[error("access denied: no permission to read it")]
    Permission,
    /// The registry answers with a status that says nothing else.
    #[error("the registry returned status {0}")]
    Status(u16),
    /// It is larger than this server allows.
    #[error("its size is over the limit of {} MiB", .0 >> 20)]
    TooLarge(u64),
    /// It has more layers than this server allows.
    #[error("it has more than {0} layers")]
    TooManyLayers(usize),
    /// There is none for this host.
    #[error("it is not there for linux/{0}, which this host needs")]
    Platform(&'static str),
    /// The registry is at an address that the operator has not allowed.
    #[error("registry `{0}` is at a private address; the operator can allow it under [registries]")]
    PrivateRegistry(String),
    /// The registry cannot be reached, or hangs up.
    #[error("registry `{registry}` cannot be reached ({cause})")]
    Unreachable {
        /// Host of the registry.
        registry: String,
        /// Innermost cause, in the words of the client.
        cause: String,
    },
    /// The content does not match its digest.
    #[error("the registry sent something else than {0}")]
    Digest(String),
    /// The content is not an image.
    #[error("the registry sent what is not an image: {0}")]
    Malformed(&'static str),
    /// A layer cannot be unpacked.
    #[error("layer {layer} cannot be unpacked: {cause}")]
    Layer {
        /// Digest of the layer, shortened.
        layer: String,
        /// Description of the fault.
        cause: String,
    },
    /// The disk has no room for it beside its reserve. Later it may have.
    #[error("the server's disk has no room for it; try again later")]
    NoRoom,
    /// It took too long.
    #[error("it did not arrive within {0} minutes")]
    TimedOut(u64),
    /// The platform failed; the text is not for callers.
    #[error("it could not be stored")]
    Store(#[from] StoreError),
    /// The platform failed; the text is not for callers.
    #[error("it could not be stored ({action})")]
    System {
        /// Operation that was tried, as a verb.
        action: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl PullReason {
    /// Returns true if the registry itself is to blame, and may do better later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable { .. } => true,
            Self::Status(status) => *status == 429 || *status >= 500,
            Self::Reference(_)
            | Self::NotFound
            | Self::RepositoryNotFound
            | Self::Authentication(_)
            | Self::Permission
            | Self::TooLarge(_)
            | Self::TooManyLayers(_)
            | Self::Platform(_)
            | Self::PrivateRegistry(_)
            | Self::Digest(_)
            | Self::Malformed(_)
            | Self::Layer { .. }
            | Self::NoRoom
            | Self::TimedOut(_)
            | Self::Store(_)
            | Self::System { .. } => false,
        }
    }

    pub(crate) fn system(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { action, source }
    }
}
