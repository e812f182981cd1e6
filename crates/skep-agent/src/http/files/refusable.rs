//! Bodies whose upload may be refused in the middle.
//!
//! A server that answers and closes while the client still sends has the kernel reset the
//! connection, and the client then often loses the answer. So what is left of a refused body
//! is read and thrown away for a while, beside the answer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::sync::oneshot;

/// Time for which a refused client may go on sending before it is cut off.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);

/// A body that comes back to its [`Refusal`] if it is dropped before its end.
#[derive(Debug)]
pub(super) struct RefusableBody {
    body: Option<BodyDataStream>,
    back: Option<oneshot::Sender<BodyDataStream>>,
}

/// The unread rest of a body, if there is one.
#[derive(Debug)]
pub(super) struct Refusal(oneshot::Receiver<BodyDataStream>);

pub(super) fn refusable(body: Body) -> (RefusableBody, Refusal) {
    let (sender, receiver) = oneshot::channel();
    (
        RefusableBody {
            body: Some(body.into_data_stream()),
            back: Some(sender),
        },
        Refusal(receiver),
    )
}

impl Refusal {
    /// Reads what is left, after the body was dropped.
    pub(super) fn drain(mut self) {
        let Ok(mut body) = self.0.try_recv() else {
            return;
        };
        skep_telemetry::spawn("drain refused upload", async move {
            let read_all = async { while let Some(Ok(_)) = body.next().await {} };
            if tokio::time::timeout(DRAIN_TIMEOUT, read_all).await.is_err() {
                tracing::debug!("a refused client goes on sending and is cut off");
            }
        });
    }
}

impl Stream for RefusableBody {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let polled = std::task::ready!(body.poll_next_unpin(context));
        if !matches!(polled, Some(Ok(_))) {
            self.body = None;
        }
        Poll::Ready(polled.map(|frame| frame.map_err(io::Error::other)))
    }
}

impl Drop for RefusableBody {
    fn drop(&mut self) {
        if let (Some(body), Some(back)) = (self.body.take(), self.back.take()) {
            // With nobody there to take it back the connection is gone as well.
            drop(back.send(body));
        }
    }
}
