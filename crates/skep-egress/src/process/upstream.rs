//! A connection to a host, and what was said on it.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use super::desk::Desk;
use crate::message::Connection;

/// Bytes that were said on a connection.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    /// Bytes sent and received so far.
    pub(super) fn so_far(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.sent), load(&self.received))
    }
}

/// A connection to a host, or a pipe to the process that has one.
pub(super) enum Stream {
    Host(TcpStream),
    Pipe(UnixStream),
}

impl Stream {
    pub(super) fn new(socket: OwnedFd, is_pipe: bool) -> io::Result<Self> {
        Ok(if is_pipe {
            Self::Pipe(UnixStream::from_std(socket.into())?)
        } else {
            Self::Host(TcpStream::from_std(socket.into())?)
        })
    }
}

/// The right to a connection. The server hears when it is over.
pub(super) struct Held {
    desk: Arc<Desk>,
    connection: Connection,
}

impl Held {
    pub(super) fn new(desk: Arc<Desk>, connection: Connection) -> Self {
        Self { desk, connection }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.desk.done(self.connection);
    }
}

/// A connection to a host.
pub(super) struct Upstream {
    stream: Stream,
    traffic: Arc<Traffic>,
    held: Held,
    /// Rule that allows it; none if its address is allowed.
    pub(super) rule: Option<String>,
}

impl Upstream {
    pub(super) fn new(stream: Stream, held: Held, rule: Option<String>) -> Self {
        Self {
            stream,
            traffic: Arc::default(),
            held,
            rule,
        }
    }

    pub(super) fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// The pipe, if it is one.
    pub(super) fn into_pipe(self) -> Option<(UnixStream, Held)> {
        match self.stream {
            Stream::Pipe(pipe) => Some((pipe, self.held)),
            Stream::Host(_) => None,
        }
    }
}

/// Adds to a count what was read or written.
fn count(counter: &AtomicU64, bytes: usize) {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    counter.fetch_add(bytes, Ordering::Relaxed);
}

impl AsyncRead for Upstream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = match &mut self.stream {
            Stream::Host(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Pipe(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        count(&self.traffic.received, buffer.filled().len() - before);
        read
    }
}

impl AsyncWrite for Upstream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = match &mut self.stream {
            Stream::Host(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Pipe(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        if let Poll::Ready(Ok(written)) = &written {
            count(&self.traffic.sent, *written);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Host(stream) => Pin::new(stream).poll_flush(context),
            Stream::Pipe(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Host(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Pipe(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
