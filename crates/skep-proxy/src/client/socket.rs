//! A client's socket that can be closed with a reset.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::buffers::ClientBuffers;
use crate::client::connection::ActivityTracker;
use crate::reset_on_close::{ResetOnClose, close};

/// A client's connection, below TLS and HTTP.
///
/// When [`ResetOnClose`] is armed, closing it sends a reset and no orderly end: the Python SDK
/// of HTTP/1.1 looks after its sandbox only if its connection was reset.
#[derive(Debug)]
pub(crate) struct ClientSocket {
    stream: TcpStream,
    reset: ResetOnClose,
    activity: Arc<ActivityTracker>,
    buffers: ClientBuffers,
}

/// Time after which a silent client is probed.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);

impl ClientSocket {
    /// Prepares an accepted stream.
    pub(crate) fn new(
        stream: TcpStream,
        reset: ResetOnClose,
        activity: Arc<ActivityTracker>,
    ) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        // A client that vanished without a word would otherwise hold its stream for ever.
        rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
        rustix::net::sockopt::set_tcp_keepidle(&stream, KEEPALIVE_IDLE)?;
        Ok(Self {
            stream,
            reset,
            activity,
            buffers: ClientBuffers::Kernel,
        })
    }

    /// Fits the buffers to what has become known of the client, before they are used again.
    fn fit_buffers(&mut self) {
        let known = self.activity.is_authenticated();
        self.buffers
            .fit(&self.stream, self.activity.is_anonymous(), known);
    }

    fn reset_error() -> io::Error {
        io::Error::new(io::ErrorKind::ConnectionReset, "the sandbox has ended")
    }
}

impl Drop for ClientSocket {
    fn drop(&mut self) {
        close(&self.stream, &self.reset);
    }
}

impl AsyncRead for ClientSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.fit_buffers();
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(context, buffer);
        if buffer.filled().len() > before {
            self.activity.bytes_arrived(Instant::now());
        }
        result
    }
}

impl AsyncWrite for ClientSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.reset.is_armed() {
            return Poll::Ready(Err(Self::reset_error()));
        }
        self.fit_buffers();
        let written = Pin::new(&mut self.stream).poll_write(context, buffer);
        self.activity.blocked(written.is_pending());
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.reset.is_armed() {
            return Poll::Ready(Err(Self::reset_error()));
        }
        self.fit_buffers();
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, buffers);
        self.activity.blocked(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.reset.is_armed() {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
