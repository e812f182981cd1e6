//! A connection to a host, and what was said on it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

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

/// A connection to a host. The server hears when it is over.
#[derive(Debug)]
pub(super) struct Upstream {
    stream: TcpStream,
    traffic: Arc<Traffic>,
    desk: Arc<Desk>,
    connection: Connection,
    /// Rule that allows it.
    pub(super) rule: String,
}

impl Upstream {
    pub(super) fn new(
        stream: TcpStream,
        desk: Arc<Desk>,
        connection: Connection,
        rule: String,
    ) -> Self {
        Self {
            stream,
            traffic: Arc::default(),
            desk,
            connection,
            rule,
        }
    }

    pub(super) fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.desk.done(self.connection);
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
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
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
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if let Poll::Ready(Ok(written)) = &written {
            count(&self.traffic.sent, *written);
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
