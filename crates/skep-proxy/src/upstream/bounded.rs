//! Bounds on the work that a service makes by what it answers.
//!
//! hyper reads in loops that end when there is nothing to read. It skips interim answers (1xx)
//! in one, and the length of a chunk may have any number of zeros in front. A service that
//! always has more to send would keep a thread of the runtime for itself, and with a few
//! requests all of them: nobody would be answered, and no sandbox would end in time.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::SendRequest;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::request::request_body::RequestBody;

/// The most interim answers to one request. Real services give one or two; one that says every
/// few seconds that it is still busy (102) may do so for minutes.
pub(crate) const INTERIM_MAX: usize = 100;

/// Number of bytes read before other tasks get their turn.
const TURN: usize = 512 * 1024;

/// Number of interim answers to the request under way, for both halves of a connection.
///
/// hyper counts on the task that reads, so the count is never behind what was read.
type InterimCount = Arc<AtomicUsize>;

/// The sending half of a bounded connection.
#[derive(Debug)]
pub(super) struct BoundedSender {
    sender: SendRequest<RequestBody>,
    interim: InterimCount,
}

impl BoundedSender {
    pub(super) fn new(sender: SendRequest<RequestBody>, interim: InterimCount) -> Self {
        Self { sender, interim }
    }

    pub(super) fn is_ready(&self) -> bool {
        self.sender.is_ready()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Sends a request and waits for the head of its final answer.
    pub(super) async fn send(
        &mut self,
        mut request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Box<TrySendError<Request<RequestBody>>>> {
        self.interim.store(0, Ordering::Relaxed);
        let interim = Arc::clone(&self.interim);
        hyper::ext::on_informational(&mut request, move |_answer| {
            interim.fetch_add(1, Ordering::Relaxed);
        });
        let sending = self.sender.try_send_request(request);
        sending.await.map_err(Box::new)
    }
}

/// A connection to a service that is read in turns, and no further when the service has given
/// too many interim answers.
#[derive(Debug)]
pub(super) struct BoundedIo<I> {
    io: I,
    interim: InterimCount,
    /// Bytes read in this turn.
    read: usize,
}

impl<I> BoundedIo<I> {
    pub(super) fn new(io: I) -> (Self, InterimCount) {
        let interim = InterimCount::default();
        let bounded = Self {
            io,
            interim: Arc::clone(&interim),
            read: 0,
        };
        (bounded, interim)
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for BoundedIo<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.interim.load(Ordering::Relaxed) > INTERIM_MAX {
            return Poll::Ready(Err(io::Error::other("too many interim answers")));
        }
        if self.read >= TURN {
            self.read = 0;
            // The socket was not asked, so nothing else would wake this task after the others.
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        if read.is_pending() {
            self.read = 0;
        }
        ready!(read)?;
        self.read += buffer.filled().len() - before;
        Poll::Ready(Ok(()))
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for BoundedIo<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    const PIECE: usize = 64 * 1024;
    const ENOUGH: usize = 100 * TURN;

    /// A service that always has more to send.
    struct Endless;

    impl AsyncRead for Endless {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let room = buffer.initialize_unfilled();
            room.fill(b'0');
            let room = room.len();
            buffer.advance(room);
            Poll::Ready(Ok(()))
        }
    }

    /// Bytes that a loop reads until it lets others run, or has read enough.
    fn read_in_one_turn(io: &mut (impl AsyncRead + Unpin)) -> usize {
        let mut context = Context::from_waker(Waker::noop());
        let mut piece = vec![0; PIECE];
        let mut total = 0;
        while total < ENOUGH {
            let mut buffer = ReadBuf::new(&mut piece);
            match Pin::new(&mut *io).poll_read(&mut context, &mut buffer) {
                Poll::Ready(read) => read.unwrap(),
                Poll::Pending => break,
            }
            total += buffer.filled().len();
        }
        total
    }

    #[test]
    fn a_service_that_always_has_more_to_send_is_read_in_turns() {
        let (mut bounded, _interim) = BoundedIo::new(Endless);
        for _ in 0..3 {
            let read = read_in_one_turn(&mut bounded);
            assert!((TURN..TURN + PIECE).contains(&read), "{read}");
        }
        assert_eq!(read_in_one_turn(&mut Endless), ENOUGH, "the control");
    }

    #[test]
    fn nothing_is_read_after_too_many_interim_answers() {
        let (mut bounded, interim) = BoundedIo::new(Endless);
        let mut context = Context::from_waker(Waker::noop());
        let mut piece = vec![0; PIECE];
        let mut read = |answers| {
            interim.store(answers, Ordering::Relaxed);
            let mut buffer = ReadBuf::new(&mut piece);
            Pin::new(&mut bounded).poll_read(&mut context, &mut buffer)
        };
        assert!(matches!(read(INTERIM_MAX), Poll::Ready(Ok(()))));
        assert!(matches!(read(INTERIM_MAX + 1), Poll::Ready(Err(_))));
    }
}
