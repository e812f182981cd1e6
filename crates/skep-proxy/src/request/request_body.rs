//! Bodies of clients' requests.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use skep_telemetry::Tasks;

use crate::client::connection::Sending;

/// Time for which the rest of a body is read after it was answered.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// A client's request body, or none.
///
/// It has no trailers, as no recipient may count on any (RFC 9110, 6.5): headers that came late
/// would pass by everything that is withheld from a sandbox.
///
/// Whoever answers may drop it unread. Over HTTP/1.1 its rest is then read and thrown away for
/// a while: closing the connection under a client that is still sending would destroy the
/// answer before it reads it.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Option<Incoming>,
    drain: Option<Tasks>,
    /// Watches that somebody takes it.
    sending: Option<Sending>,
}

impl RequestBody {
    pub(crate) fn new(
        incoming: Incoming,
        multiplexed: bool,
        tasks: &Tasks,
        sending: Sending,
    ) -> Self {
        Self {
            sending: Some(sending),
            incoming: Some(incoming),
            // HTTP/2 tells the client to stop sending instead.
            drain: (!multiplexed).then(|| tasks.clone()),
        }
    }

    pub(crate) fn empty() -> Self {
        Self {
            incoming: None,
            drain: None,
            sending: None,
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let rest = self.incoming.take().filter(|body| !body.is_end_stream());
        let (Some(mut rest), Some(tasks)) = (rest, self.drain.take()) else {
            return;
        };
        if tasks.stopping().is_cancelled() || tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        tasks.spawn("drain request", async move {
            let all = async { while let Some(Ok(_)) = rest.frame().await {} };
            if tokio::time::timeout(DRAIN_TIMEOUT, all).await.is_err() {
                tracing::debug!("client kept sending after the answer");
            }
        });
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let Self {
            incoming, sending, ..
        } = &mut *self;
        let Some(body) = incoming else {
            return Poll::Ready(None);
        };
        // Who asks for more has room for it.
        if let Some(sending) = sending {
            sending.is_taken();
        }
        loop {
            match ready!(Pin::new(&mut *body).poll_frame(context)) {
                Some(Ok(frame)) if frame.is_trailers() => {}
                frame => {
                    if let (Some(sending), Some(Ok(_))) = (sending, &frame) {
                        sending.waits();
                    }
                    return Poll::Ready(frame);
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        let empty = || SizeHint::with_exact(0);
        self.incoming.as_ref().map_or_else(empty, Body::size_hint)
    }
}
