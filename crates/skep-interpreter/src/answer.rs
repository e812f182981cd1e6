//! The body of an execution's answer.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use skep_kernels::{Execution, Update};
use skep_wire::interpreter::OutputForm;
use tokio::time::{Instant, Sleep};

use crate::line::Lines;

/// Length of silence after which a keepalive is sent.
const SILENCE: Duration = Duration::from_secs(5);

/// Updates that are written together if they are there already.
const TOGETHER: usize = 16;

/// Lines, each when it happens, and a sign of life in every silence, also while the execution
/// waits for its turn. Nothing is read from the execution before the caller has taken what was
/// read before.
pub(crate) struct Answer {
    execution: Execution,
    pieces: VecDeque<Bytes>,
    silence: Pin<Box<Sleep>>,
    updates: Vec<Update>,
    form: OutputForm,
    ended: bool,
}

impl Answer {
    pub(crate) fn new(execution: Execution, form: OutputForm) -> Self {
        Self {
            execution,
            pieces: VecDeque::new(),
            silence: Box::pin(tokio::time::sleep(SILENCE)),
            updates: Vec::new(),
            form,
            ended: false,
        }
    }

    /// The lines of what has happened, or of the silence.
    fn poll_lines(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let received = {
            let updates = &mut self.updates;
            self.execution
                .updates
                .poll_recv_many(context, updates, TOGETHER)
        };
        let mut lines = Lines::new(self.form);
        match received {
            Poll::Ready(0) => {
                // Without the last line the caller would take this for a success.
                return Poll::Ready(Err(io::Error::other("the execution was lost")));
            }
            Poll::Ready(_) => {
                for update in self.updates.drain(..) {
                    self.ended |= matches!(update, Update::Ended(_));
                    lines.push(&update);
                }
            }
            Poll::Pending => {
                if self.silence.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                lines.push_keepalive();
            }
        }
        self.silence.as_mut().reset(Instant::now() + SILENCE);
        self.pieces.extend(lines.into_pieces());
        Poll::Ready(Ok(()))
    }
}

impl http_body::Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let this = self.get_mut();
        loop {
            if let Some(piece) = this.pieces.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(piece))));
            }
            if this.ended {
                return Poll::Ready(None);
            }
            match this.poll_lines(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Some(Err(error))),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
