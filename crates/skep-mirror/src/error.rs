//! Reasons for which a registry's file or index is not there.

use std::sync::Arc;

use hyper::StatusCode;

use crate::store::StoreError;

/// A failure of a request. Shared, because many may have waited for the same.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum FetchError {
    /// The registry has no such thing.
    #[error("the registry has no such thing")]
    Unknown,
    /// The sandbox may only have what the mirror has, and it does not have that.
    #[error("it is not in the mirror, and this sandbox may have nothing else")]
    NotCached,
    /// The registry answers with a status that is neither success nor absence.
    #[error("the registry answers with status {0}")]
    Status(u16),
    /// The registry cannot be reached, or breaks off.
    #[error("the registry cannot be reached")]
    Unreachable(#[source] Arc<reqwest::Error>),
    /// The registry, or what it says, takes too long.
    #[error("the registry takes too long")]
    Late,
    /// The registry leads to a host that is neither its own nor named by its index.
    #[error("the registry leads to a host that is not its own")]
    Elsewhere,
    /// The answer of the registry is larger than it may be.
    #[error("what the registry sends is too large")]
    TooLarge,
    /// The answer of the registry is no index.
    #[error("what the registry sends is no index")]
    Malformed,
    /// The file is not the one that the index promises.
    #[error("the file is not the one that the registry's index promises")]
    Mismatch,
    /// The cache does not take it.
    #[error("the mirror cannot keep it")]
    Store(#[source] Arc<StoreError>),
    /// Nobody waits for it any more.
    #[error("nobody waits for it any more")]
    Abandoned,
    /// The server stops.
    #[error("the server stops")]
    Stopping,
}

impl FetchError {
    /// Status of the answer.
    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Unknown | Self::NotCached => StatusCode::NOT_FOUND,
            Self::Status(_)
            | Self::Unreachable(_)
            | Self::Elsewhere
            | Self::TooLarge
            | Self::Malformed
            | Self::Mismatch => StatusCode::BAD_GATEWAY,
            Self::Late => StatusCode::GATEWAY_TIMEOUT,
            Self::Store(_) => StatusCode::INSUFFICIENT_STORAGE,
            Self::Abandoned | Self::Stopping => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns true if an older answer may stand in for the one that is missing.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Unknown | Self::NotCached | Self::Store(_) | Self::Abandoned | Self::Stopping => {
                false
            }
            Self::Status(_)
            | Self::Unreachable(_)
            | Self::Late
            | Self::Elsewhere
            | Self::TooLarge
            | Self::Malformed
            | Self::Mismatch => true,
        }
    }
}

impl From<StoreError> for FetchError {
    fn from(error: StoreError) -> Self {
        Self::Store(Arc::new(error))
    }
}

impl From<std::io::Error> for FetchError {
    fn from(error: std::io::Error) -> Self {
        StoreError::Disk(error).into()
    }
}

impl From<reqwest::Error> for FetchError {
    fn from(error: reqwest::Error) -> Self {
        // A URL may have a signature or a password in it.
        let error = error.without_url();
        if error.is_timeout() {
            return Self::Late;
        }
        Self::Unreachable(Arc::new(error))
    }
}
