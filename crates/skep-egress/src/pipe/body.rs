//! Bodies that come out of a pipe, and go into one.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::{SinkExt as _, Stream as _, StreamExt as _};
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame as Part, SizeHint};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;
use tokio_util::codec::{FramedRead, FramedWrite};

use super::head::{read_trailers, write_trailers};
use super::{Frame, FrameError, Frames, MOST_DATA};

/// A pipe that is read frame by frame.
pub(crate) type Source = FramedRead<OwnedReadHalf, Frames>;

/// A body that comes out of a pipe.
#[derive(Debug)]
pub(crate) struct PipeBody {
    source: Option<Source>,
    /// Bytes that are to come, if that is known. A body that is longer or shorter is broken off.
    left: Option<u64>,
    trailers: Trailers,
    /// Gets the pipe when the body has been read, for the next message.
    back: Option<oneshot::Sender<(Source, Ended)>>,
}

/// Headers behind a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trailers {
    /// They are a part of it.
    Kept,
    /// There are none: some hosts read them as if they stood before it.
    None,
}

/// The pipe behind a body, once that has been read.
#[derive(Debug)]
pub(crate) struct Back(oneshot::Receiver<(Source, Ended)>);

/// The frame after which nothing more belongs to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    WasRead,
    Follows,
}

impl PipeBody {
    pub(crate) fn new(source: Source, length: Option<u64>, trailers: Trailers) -> (Self, Back) {
        let (back, receiver) = oneshot::channel();
        let body = Self {
            source: Some(source),
            left: length,
            trailers,
            back: Some(back),
        };
        (body, Back(receiver))
    }

    fn give_back(&mut self, ended: Ended) {
        if let (Some(source), Some(back)) = (self.source.take(), self.back.take()) {
            // Nobody wants it, if that fails.
            drop(back.send((source, ended)));
        }
    }
}

impl Body for PipeBody {
    type Data = Bytes;
    type Error = FrameError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Part<Bytes>, FrameError>>> {
        let Some(source) = self.source.as_mut() else {
            return Poll::Ready(None);
        };
        let frame = ready!(Pin::new(source).poll_next(context));
        let read = match frame {
            Some(Ok(Frame::Data(bytes))) => {
                let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
                match self.left.map(|left| left.checked_sub(length)) {
                    Some(None) => Err(FrameError::Invalid),
                    Some(left) => {
                        self.left = left;
                        Ok(Part::data(bytes))
                    }
                    None => Ok(Part::data(bytes)),
                }
            }
            Some(Ok(Frame::Trailers(bytes))) if self.trailers == Trailers::Kept => {
                let trailers = read_trailers(&bytes).ok_or(FrameError::Invalid);
                trailers.map(Part::trailers)
            }
            Some(Ok(Frame::End)) if self.left.unwrap_or_default() == 0 => {
                self.give_back(Ended::WasRead);
                return Poll::Ready(None);
            }
            Some(Ok(Frame::End | Frame::Trailers(_) | Frame::Head(_) | Frame::Refused(_)))
            | None => Err(FrameError::Invalid),
            Some(Err(error)) => Err(error),
        };
        if read.is_err() {
            self.source = None;
        }
        Poll::Ready(Some(read))
    }

    fn is_end_stream(&self) -> bool {
        self.source.is_none() || self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map(SizeHint::with_exact).unwrap_or_default()
    }
}

impl Drop for PipeBody {
    fn drop(&mut self) {
        // Whoever writes a body of known length does not ask whether anything follows it.
        if self.left == Some(0) {
            self.give_back(Ended::Follows);
        }
    }
}

impl Back {
    /// The pipe, when the body has been read to its end; `None` if it never is.
    pub(crate) async fn wait(self) -> Option<Source> {
        let (mut source, ended) = self.0.await.ok()?;
        if ended == Ended::Follows {
            match source.next().await {
                Some(Ok(Frame::End)) => {}
                Some(_) | None => return None,
            }
        }
        Some(source)
    }
}

/// Writes a body into a pipe, to its end, and gives the pipe back; `None` if one of the two is broken
/// off, and the other side sees that then.
pub(crate) async fn pump<B>(
    mut body: B,
    writer: OwnedWriteHalf,
    trailers: Trailers,
) -> Option<OwnedWriteHalf>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut writer = FramedWrite::new(writer, Frames);
    while let Some(part) = body.frame().await {
        match part.ok()?.into_data() {
            Ok(mut data) => {
                while !data.is_empty() {
                    let piece = data.split_to(data.len().min(MOST_DATA));
                    writer.send(Frame::Data(piece)).await.ok()?;
                }
            }
            Err(part) => {
                if let (Ok(headers), Trailers::Kept) = (part.into_trailers(), trailers) {
                    let headers = write_trailers(&headers)?;
                    writer.send(Frame::Trailers(headers)).await.ok()?;
                }
            }
        }
    }
    writer.send(Frame::End).await.ok()?;
    Some(writer.into_inner())
}
