//! The output of a kernel that does not wait for its reader.
//!
//! A task reads always. What nobody has taken yet waits here, unread but for its length. When
//! that is more than a mark the kernel's processes are stopped, and they go on when half of it
//! has been taken. User code can let its kernel go on by itself, so there is a second mark
//! from which on nothing is read any more.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use rustix::process::Signal;
use skep_jupyter::zmtp::Received;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::socket::Socket;
use crate::process::Processes;

/// Queue size at which the kernel is stopped (`SIGSTOP`). What it has sent already still comes.
const HIGH_MARK: usize = 4 << 20;

/// Queue size at which a stopped kernel goes on.
const LOW_MARK: usize = HIGH_MARK / 2;

/// Queue size at which nothing more is read. One message may be on top of it.
const LAST_MARK: usize = 2 * HIGH_MARK;

/// Cost of a queued message beside its bytes.
const MESSAGE_COST: usize = 512;

/// The waiting output, and the task that collects it.
pub(super) struct Output {
    shared: Arc<Shared>,
    finish: CancellationToken,
    /// Ends the task.
    _reader: DropGuard,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Signalled when a message was added.
    added: Notify,
    /// Signalled when a message was taken.
    taken: Notify,
    processes: Arc<dyn Processes>,
    pid: u32,
}

#[derive(Default)]
struct Queue {
    messages: VecDeque<(Received, usize)>,
    bytes: usize,
    ended: bool,
    is_stopped: bool,
    /// It was interrupted, and must be able to hear that.
    is_released: bool,
}

impl Output {
    /// Begins to read.
    pub(super) fn collect(socket: Socket, processes: Arc<dyn Processes>, pid: u32) -> Self {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            added: Notify::new(),
            taken: Notify::new(),
            processes,
            pid,
        });
        let finish = CancellationToken::new();
        let read = Arc::clone(&shared).read(socket, finish.clone());
        skep_telemetry::spawn("kernel output", read);
        Self {
            shared,
            _reader: finish.clone().drop_guard(),
            finish,
        }
    }

    /// Waits for the next message; `None` when there will be no more.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when this is dropped.
    pub(super) async fn next(&self) -> Option<Received> {
        loop {
            let added = self.shared.added.notified();
            if let Some(answer) = self.shared.take() {
                return answer;
            }
            added.await;
        }
    }

    /// Lets a stopped kernel go on, so that it can hear an interrupt.
    pub(super) fn release(&self) {
        let mut queue = self.shared.queue.lock();
        queue.is_released = true;
        self.shared.go_on(&mut queue);
    }

    /// The process has ended: what it has left in the socket is all that comes.
    pub(super) fn finish(&self) {
        self.finish.cancel();
    }
}

impl Shared {
    async fn read(self: Arc<Self>, mut socket: Socket, finish: CancellationToken) {
        loop {
            let received = async {
                self.room().await;
                socket.receive().await
            };
            tokio::select! {
                biased;
                () = finish.cancelled() => {
                    for message in socket.rest() {
                        self.add(message);
                    }
                    break;
                }
                received = received => match received {
                    Ok(message) => self.add(message),
                    Err(_closed) => break,
                },
            }
        }
        self.queue.lock().ended = true;
        self.added.notify_one();
    }

    async fn room(&self) {
        loop {
            let taken = self.taken.notified();
            if self.queue.lock().bytes < LAST_MARK {
                return;
            }
            taken.await;
        }
    }

    fn add(&self, message: Received) {
        let mut queue = self.queue.lock();
        let bytes = MESSAGE_COST + weight(&message);
        queue.bytes += bytes;
        queue.messages.push_back((message, bytes));
        if queue.bytes > HIGH_MARK && !queue.is_stopped && !queue.is_released {
            queue.is_stopped = true;
            self.signal(Signal::STOP);
        }
        drop(queue);
        self.added.notify_one();
    }

    /// The next message if there is one, `Some(None)` if there will be no more.
    fn take(&self) -> Option<Option<Received>> {
        let mut queue = self.queue.lock();
        let Some((message, bytes)) = queue.messages.pop_front() else {
            return queue.ended.then_some(None);
        };
        queue.bytes -= bytes;
        if queue.bytes < LOW_MARK {
            queue.is_released = false;
            self.go_on(&mut queue);
        }
        drop(queue);
        self.taken.notify_one();
        Some(Some(message))
    }

    fn go_on(&self, queue: &mut Queue) {
        if std::mem::take(&mut queue.is_stopped) {
            self.signal(Signal::CONT);
        }
    }

    fn signal(&self, signal: Signal) {
        if let Err(error) = self.processes.signal(self.pid, signal) {
            tracing::debug!(%error, "kernel cannot be stopped or continued");
        }
    }
}

fn weight(message: &Received) -> usize {
    match message {
        Received::Message(frames) => frames.iter().map(Bytes::len).sum(),
        Received::TooLarge { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use skep_jupyter::zmtp::{Role, encode, opening};
    use tokio::io::AsyncWriteExt;
    use tokio::net::{UnixListener, UnixStream};

    use super::*;
    use crate::process::none::NoProcesses;

    const PIECE: usize = 100 << 10;

    /// The output of a peer that has said hello, and that peer.
    async fn connected(processes: &Arc<NoProcesses>) -> (Output, UnixStream) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("k");
        let listener = UnixListener::bind(&path).unwrap();
        let socket = Socket::connect(&path, Role::Subscriber, "").await.unwrap();
        let (mut peer, _) = listener.accept().await.unwrap();
        peer.write_all(&opening(Role::Dealer, "")).await.unwrap();
        let processes = Arc::clone(processes) as _;
        (Output::collect(socket, processes, 1), peer)
    }

    /// Writes pieces until the reader does not take any more, or has taken `most`.
    async fn flood(peer: &mut UnixStream, most: usize) -> usize {
        let piece = encode(&[Bytes::from(vec![b'x'; PIECE])]);
        for taken in 0..most {
            let write = peer.write_all(&piece);
            let patience = std::time::Duration::from_secs(1);
            if tokio::time::timeout(patience, write).await.is_err() {
                return taken * PIECE;
            }
        }
        most * PIECE
    }

    #[tokio::test]
    async fn a_kernel_that_goes_on_although_it_was_stopped_is_not_read_without_end() {
        let processes = Arc::new(NoProcesses::default());
        let (output, mut peer) = connected(&processes).await;
        let taken = flood(&mut peer, 1000).await;
        assert!(taken >= LAST_MARK - PIECE, "only {taken} bytes are taken");
        assert!(taken < LAST_MARK + (2 << 20), "{taken} bytes are taken");
        assert_eq!(processes.signals(), [Signal::STOP]);
        while output.shared.queue.lock().bytes >= LOW_MARK {
            assert!(output.next().await.is_some());
        }
        assert_eq!(processes.signals(), [Signal::STOP, Signal::CONT]);
    }

    #[tokio::test]
    async fn an_interrupted_kernel_is_not_stopped_before_it_was_heard() {
        let processes = Arc::new(NoProcesses::default());
        let (output, mut peer) = connected(&processes).await;
        output.release();
        flood(&mut peer, HIGH_MARK / PIECE + 2).await;
        assert_eq!(processes.signals(), []);
    }

    #[tokio::test]
    async fn what_an_ended_process_left_is_read_and_then_nothing() {
        let processes = Arc::new(NoProcesses::default());
        let (output, mut peer) = connected(&processes).await;
        // The peer is kept: others may hold the socket of a process that has ended.
        peer.write_all(&encode(&[Bytes::from_static(b"last")]))
            .await
            .unwrap();
        output.finish();
        let last = Received::Message(vec![Bytes::from_static(b"last")]);
        assert_eq!(output.next().await, Some(last));
        assert_eq!(output.next().await, None);
    }
}
