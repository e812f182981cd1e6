//! The output of a kernel that does not wait for its reader.
//!
//! A task reads always. What nobody has taken yet waits here, and when that is more than a
//! mark the kernel's processes are stopped; they go on when half of it has been taken.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use rustix::process::Signal;
use skep_jupyter::Envelope;
use skep_jupyter::signed::Session;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::socket::Socket;
use crate::process::Processes;

/// From here on the kernel is stopped. What it has sent already still comes.
const HIGH_MARK: usize = 8 << 20;

/// From here on it goes on.
const LOW_MARK: usize = HIGH_MARK / 2;

/// The waiting output, and the task that collects it.
pub(super) struct Output {
    shared: Arc<Shared>,
    /// Ends the task.
    _reader: DropGuard,
}

struct Shared {
    waiting: Mutex<Waiting>,
    changed: Notify,
    processes: Arc<dyn Processes>,
    pid: u32,
    stopped: AtomicBool,
}

#[derive(Default)]
struct Waiting {
    envelopes: VecDeque<(Envelope, usize)>,
    bytes: usize,
    ended: bool,
}

impl Output {
    /// Begins to read.
    pub(super) fn collect(
        mut socket: Socket,
        session: Arc<Session>,
        processes: Arc<dyn Processes>,
        pid: u32,
    ) -> Self {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            changed: Notify::new(),
            processes,
            pid,
            stopped: AtomicBool::new(false),
        });
        let stop = CancellationToken::new();
        let (collector, stopping) = (Arc::clone(&shared), stop.clone());
        skep_telemetry::spawn("kernel output", async move {
            let read = async {
                while let Ok(frames) = socket.receive().await {
                    collector.add(&session, &frames);
                }
            };
            tokio::select! {
                () = stopping.cancelled() => {}
                () = read => {}
            }
            collector.lock().ended = true;
            collector.changed.notify_one();
        });
        Self {
            shared,
            _reader: stop.drop_guard(),
        }
    }

    /// Waits for the next message; `None` when there will be no more.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when this is dropped.
    pub(super) async fn next(&self) -> Option<Envelope> {
        loop {
            if let Some(answer) = self.try_next() {
                return answer;
            }
            self.shared.changed.notified().await;
        }
    }

    /// The next message if there is one, `Some(None)` if there will be no more.
    fn try_next(&self) -> Option<Option<Envelope>> {
        let mut waiting = self.shared.lock();
        let Some((envelope, bytes)) = waiting.envelopes.pop_front() else {
            return waiting.ended.then_some(None);
        };
        waiting.bytes -= bytes;
        if waiting.bytes < LOW_MARK {
            self.shared.go_on();
        }
        Some(Some(envelope))
    }

    /// Lets a stopped kernel go on, so that it can hear a signal.
    pub(super) fn release(&self) {
        self.shared.go_on();
    }
}

impl Shared {
    fn add(&self, session: &Session, frames: &[Bytes]) {
        let envelopes = match session.read(frames) {
            Ok(envelopes) => envelopes,
            Err(error) => {
                tracing::debug!(%error, "a kernel published something that is no message");
                return;
            }
        };
        let size: usize = frames.iter().map(Bytes::len).sum();
        let mut waiting = self.lock();
        for envelope in envelopes {
            // The pieces of one message share its bytes.
            let bytes = size.min(96 << 10);
            waiting.bytes += bytes;
            waiting.envelopes.push_back((envelope, bytes));
        }
        if waiting.bytes > HIGH_MARK && !self.stopped.swap(true, Ordering::SeqCst) {
            self.signal(Signal::STOP);
        }
        drop(waiting);
        self.changed.notify_one();
    }

    fn go_on(&self) {
        if self.stopped.swap(false, Ordering::SeqCst) {
            self.signal(Signal::CONT);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Err(error) = self.processes.signal(self.pid, signal) {
            tracing::debug!(%error, "kernel cannot be stopped or continued");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
