//! A body on its way into a file.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};

use super::target::Target;
use crate::filesystem::{FileError, blocking};
use crate::sandbox::users::User;

/// Size of one write, and the largest size that counts as small.
const PIECE: usize = 256 << 10;

/// Errors of receiving a body into a file.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReceiveError {
    /// The client left, or sent something that cannot be decoded.
    #[error("the body broke off")]
    Body(#[source] io::Error),
    #[error(transparent)]
    File(#[from] FileError),
}

/// Writes `body` to `path`, owned by `user`, with exactly this metadata.
///
/// # Cancel safety
///
/// Dropped or failed in the middle, it leaves what was at `path` before.
pub(super) async fn receive<S>(
    path: String,
    user: Arc<User>,
    metadata: Arc<BTreeMap<String, String>>,
    mut body: S,
) -> Result<(), ReceiveError>
where
    S: Stream<Item = io::Result<Bytes>> + Unpin,
{
    let (mut piece, mut is_complete) = fill(&mut body).await?;
    if is_complete {
        let stored = blocking(move || Target::open(&path, &user)?.store(&piece, &metadata));
        return Ok(stored.await?);
    }
    let mut target = blocking(move || {
        let mut target = Target::open(&path, &user)?;
        target.append(&piece)?;
        Ok(target)
    })
    .await?;
    while !is_complete {
        (piece, is_complete) = fill(&mut body).await?;
        target = blocking(move || {
            target.append(&piece)?;
            Ok(target)
        })
        .await?;
    }
    Ok(blocking(move || target.finish(&metadata)).await?)
}

/// The next piece, and whether the body ended with it.
async fn fill<S>(body: &mut S) -> Result<(BytesMut, bool), ReceiveError>
where
    S: Stream<Item = io::Result<Bytes>> + Unpin,
{
    let mut piece = BytesMut::new();
    while piece.len() < PIECE {
        match body.next().await {
            Some(frame) => piece.extend_from_slice(&frame.map_err(ReceiveError::Body)?),
            None => return Ok((piece, true)),
        }
    }
    Ok((piece, false))
}
