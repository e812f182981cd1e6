//! A connection to a sandbox that can be closed with a reset.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::reset_on_close::{ResetOnClose, close};

/// A connection to a sandbox, below HTTP.
///
/// One that is given up in the middle of a request is closed with a reset: what the sandbox has
/// not read would else stay in the kernel, and is nobody's, until the sandbox reads or ends.
#[derive(Debug)]
pub(super) struct UpstreamSocket {
    stream: TcpStream,
    reset: ResetOnClose,
}

impl UpstreamSocket {
    pub(super) fn new(stream: TcpStream, reset: ResetOnClose) -> Self {
        Self { stream, reset }
    }
}

impl Drop for UpstreamSocket {
    fn drop(&mut self) {
        close(&self.stream, &self.reset);
    }
}

impl AsyncRead for UpstreamSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for UpstreamSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
