//! Debian's archives: passed on as they are, because apt verifies all of it by Debian's signature.

use std::sync::Arc;

use crate::Access;
use crate::digest::Digest;
use crate::error::FetchError;
use crate::fetch::{Fetcher, FileOrder, Found, IndexOrder};
use crate::names::ArchivePath;
use crate::upstream::Upstream;

/// A file of an archive. Lists of packages may change and are asked for again after a while, unless they are called
/// by their digest. Packages do not change; `anew` asks for one that the client could not use.
pub(crate) async fn file(
    fetcher: &Arc<Fetcher>,
    upstream: &Arc<Upstream>,
    (path, anew): (&ArchivePath, bool),
    access: Access,
) -> Result<Found, FetchError> {
    let upstream = Arc::clone(upstream);
    let url = upstream.at(path.components());
    let digest = path
        .sha256()
        .map(|digest| Digest::sha256(digest).ok_or(FetchError::Unknown))
        .transpose()?;
    if digest.is_some() || path.is_of_pool() {
        let order = FileOrder {
            upstream,
            url,
            digest,
            anew,
        };
        return fetcher.file(order, access).await;
    }
    let order = IndexOrder {
        upstream,
        url,
        accept: None,
        read: |_, _, _| Ok(None),
    };
    fetcher.index(order, access).await.map(Found::Stored)
}
