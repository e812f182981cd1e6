//! Input to a process, from all its callers.
//!
//! A process may never read its input, so writing can wait for ever. One task per process does
//! the waiting: writes of all callers happen in the order of arrival, and one whose caller has
//! given up is abandoned, so that the next gets its turn.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use crate::process::pipe_end::PipeEnd;

/// Writes that wait for their turn; callers beyond wait to be queued.
const QUEUE: usize = 8;

/// Destination of the input of a process.
#[derive(Debug)]
pub(super) enum Input {
    /// A pipe to standard input.
    Stdin(mpsc::Sender<Request>),
    /// The keyboard of its terminal.
    Terminal(mpsc::Sender<Request>),
    /// The process was started without input.
    None,
}

#[derive(Debug)]
pub(super) enum Request {
    Write {
        data: Bytes,
        done: oneshot::Sender<io::Result<()>>,
    },
    Close {
        done: oneshot::Sender<io::Result<()>>,
    },
}

impl Input {
    pub(super) fn stdin(channel: PipeEnd) -> Self {
        Self::Stdin(start(Arc::new(channel)))
    }

    pub(super) fn terminal(channel: Arc<PipeEnd>) -> Self {
        Self::Terminal(start(channel))
    }
}

fn start(channel: Arc<PipeEnd>) -> mpsc::Sender<Request> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    skep_telemetry::spawn("process input", feed(channel, receiver));
    sender
}

/// Writes `data` and returns when the process could have read all of it.
pub(super) async fn write(queue: &mpsc::Sender<Request>, data: Bytes) -> io::Result<()> {
    ask(queue, |done| Request::Write { data, done }).await
}

/// Lets the process read the end of its input, after what was written before.
pub(super) async fn close(queue: &mpsc::Sender<Request>) -> io::Result<()> {
    ask(queue, |done| Request::Close { done }).await
}

async fn ask(
    queue: &mpsc::Sender<Request>,
    request: impl FnOnce(oneshot::Sender<io::Result<()>>) -> Request,
) -> io::Result<()> {
    let (done, answer) = oneshot::channel();
    let closed = || io::Error::new(io::ErrorKind::BrokenPipe, "the input is closed");
    queue
        .send(request(done))
        .await
        .map_err(|_closed| closed())?;
    answer.await.map_err(|_closed| closed())?
}

/// Ends, and with it closes the channel, when asked to or when the process is forgotten.
async fn feed(channel: Arc<PipeEnd>, mut queue: mpsc::Receiver<Request>) {
    while let Some(request) = queue.recv().await {
        match request {
            Request::Write { data, mut done } => {
                let written = tokio::select! {
                    written = channel.write_all(&data) => written,
                    () = done.closed() => continue,
                };
                tell(done, written);
            }
            Request::Close { done } => {
                drop(channel);
                return tell(done, Ok(()));
            }
        }
    }
}

fn tell(done: oneshot::Sender<io::Result<()>>, answer: io::Result<()>) {
    if done.send(answer).is_err() {
        tracing::debug!("the caller left before its input was written");
    }
}
