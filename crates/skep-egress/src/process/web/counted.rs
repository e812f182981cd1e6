//! A body that is noted when it has ended.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::Noted;

/// A body that is noted when it has ended, or nobody reads on.
pub(super) struct Counted {
    body: Incoming,
    _noted: Noted,
}

impl Counted {
    pub(super) fn new(body: Incoming, noted: Noted) -> Self {
        Self {
            body,
            _noted: noted,
        }
    }
}

impl Body for Counted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
