//! A connection to a host, whose bytes are counted and held back.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::desk::Desk;
use super::meter::{Held, Meter};

/// Bytes that pass at a time, where they are held back.
const PIECE: usize = 4 * 1024;

/// Counts of a connection.
#[derive(Debug)]
pub(super) struct Traffic {
    desk: Arc<Desk>,
    sent: AtomicU64,
    received: AtomicU64,
    meter: Mutex<Option<Arc<Meter>>>,
}

impl Traffic {
    pub(super) fn new(desk: Arc<Desk>) -> Arc<Self> {
        Arc::new(Self {
            desk,
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            meter: Mutex::new(None),
        })
    }

    /// Bytes sent and received so far.
    pub(super) fn so_far(&self) -> (u64, u64) {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (load(&self.sent), load(&self.received))
    }

    /// Counts for another rule from now on, or for none.
    pub(super) fn count_for(&self, meter: Option<Arc<Meter>>) {
        *self.meter.lock() = meter;
    }

    /// Tells the server what it has not heard yet.
    pub(super) fn settle(&self) {
        let meter = self.meter.lock().clone();
        if let Some((rule, bytes)) = meter.and_then(|meter| meter.rest()) {
            self.desk.spent(rule, bytes);
        }
    }

    fn may_pass(&self) -> Result<bool, Held> {
        match &*self.meter.lock() {
            Some(meter) => meter.may_pass(Instant::now()).map(|()| true),
            None => Ok(false),
        }
    }

    fn passed(&self, counter: &AtomicU64, bytes: usize) {
        let count = u64::try_from(bytes).unwrap_or(u64::MAX);
        counter.fetch_add(count, Ordering::Relaxed);
        let meter = self.meter.lock().clone();
        if let Some((rule, bytes)) = meter.and_then(|meter| meter.passed(bytes)) {
            self.desk.spent(rule, bytes);
        }
    }
}

/// A connection to a host, whose bytes are counted and held back.
#[derive(Debug)]
pub(super) struct Upstream {
    stream: TcpStream,
    traffic: Arc<Traffic>,
    reading: Option<Pin<Box<Sleep>>>,
    writing: Option<Pin<Box<Sleep>>>,
}

impl Upstream {
    pub(super) fn new(stream: TcpStream, traffic: Arc<Traffic>) -> Self {
        Self {
            stream,
            traffic,
            reading: None,
            writing: None,
        }
    }
}

/// Waits until something may pass; true if it is counted.
fn wait(
    traffic: &Traffic,
    waiting: &mut Option<Pin<Box<Sleep>>>,
    context: &mut Context<'_>,
) -> Poll<io::Result<bool>> {
    loop {
        if let Some(sleep) = waiting.as_mut() {
            ready!(sleep.as_mut().poll(context));
            *waiting = None;
        }
        match traffic.may_pass() {
            Ok(is_counted) => return Poll::Ready(Ok(is_counted)),
            Err(Held::For(time)) => *waiting = Some(Box::pin(sleep(time))),
            Err(Held::Spent) => return Poll::Ready(Err(io::ErrorKind::QuotaExceeded.into())),
        }
    }
}

impl AsyncRead for Upstream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let is_counted = ready!(wait(&this.traffic, &mut this.reading, context))?;
        let filled = if is_counted {
            let mut space = [0; PIECE];
            let room = buffer.remaining().min(PIECE);
            let mut piece = ReadBuf::new(&mut space[..room]);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut piece))?;
            buffer.put_slice(piece.filled());
            piece.filled().len()
        } else {
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
            buffer.filled().len() - before
        };
        this.traffic.passed(&this.traffic.received, filled);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Upstream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let is_counted = ready!(wait(&this.traffic, &mut this.writing, context))?;
        let most = if is_counted { PIECE } else { usize::MAX };
        let piece = &bytes[..bytes.len().min(most)];
        let written = ready!(Pin::new(&mut this.stream).poll_write(context, piece))?;
        this.traffic.passed(&this.traffic.sent, written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
