//! Bodies of answers: a file of the cache, or one that comes meanwhile.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::try_unfold;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::fetch::{Found, Progress};
use crate::store::Content;

/// Bytes that are read at once.
const READ_BYTES: u64 = 128 * 1024;

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// A body that is there.
pub(crate) fn whole(content: impl Into<Bytes>) -> Body {
    let body = Full::new(content.into()).map_err(|never| match never {});
    body.boxed_unsync()
}

/// A body that is sent.
struct Sending {
    content: Arc<Content>,
    position: u64,
    /// End of what is there, and whether more comes.
    end: End,
    /// The sandbox's turn lasts until all of it has been sent.
    _turn: OwnedSemaphorePermit,
}

enum End {
    At(u64),
    Coming(watch::Receiver<Progress>),
}

/// The body of a file, and its size if that is known.
pub(crate) fn of(found: Found, turn: OwnedSemaphorePermit) -> (Body, Option<u64>) {
    let (content, end, length) = match found {
        Found::Stored(stored) => {
            let bytes = stored.bytes;
            (Arc::new(stored.content), End::At(bytes), Some(bytes))
        }
        Found::Coming(coming) => {
            let content = Arc::clone(&coming.source.content);
            let length = coming.source.length;
            (content, End::Coming(coming.progress), length)
        }
    };
    let sending = Sending {
        content,
        position: 0,
        end,
        _turn: turn,
    };
    let chunks = try_unfold(sending, |mut sending| async move {
        let chunk = sending.next().await?;
        Ok::<_, io::Error>(chunk.map(|chunk| (chunk, sending)))
    });
    let frames = chunks.map(|chunk| chunk.map(Frame::data));
    (StreamBody::new(frames).boxed_unsync(), length)
}

impl Sending {
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        let end = match &mut self.end {
            End::At(end) => *end,
            End::Coming(progress) => until_more(progress, self.position).await?,
        };
        let bytes = end.saturating_sub(self.position).min(READ_BYTES);
        if bytes == 0 {
            return Ok(None);
        }
        let (content, position) = (Arc::clone(&self.content), self.position);
        let reading = tokio::task::spawn_blocking(move || content.read(position, bytes));
        let chunk = reading.await.map_err(io::Error::other)??;
        self.position += bytes;
        Ok(Some(chunk.into()))
    }
}

/// Waits until there is more than a position, or no more comes. A fetch that fails is an error, by which
/// the connection is cut: the client must not take what it has for all of it.
async fn until_more(progress: &mut watch::Receiver<Progress>, position: u64) -> io::Result<u64> {
    let has_more = |state: &Progress| match state {
        Progress::Asked => false,
        Progress::Coming(_, ready) => *ready > position,
        Progress::Done(..) | Progress::Failed(_) => true,
    };
    // As long as the fetch may take.
    let state = progress
        .wait_for(has_more)
        .await
        .map_err(io::Error::other)?;
    match &*state {
        Progress::Coming(_, ready) | Progress::Done(_, ready) => Ok(*ready),
        Progress::Failed(error) => Err(io::Error::other(error.clone())),
        Progress::Asked => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
