//! The one thread that writes.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};
use skep_telemetry::{Chain, Counter, Durations, Gauge};
use tokio::sync::oneshot;

use crate::StoreError;

/// How many writes may wait. When that many do, the next is refused with
/// [`StoreError::QueueFull`]: whoever asked is told, instead of memory growing.
const QUEUE: usize = 8192;

/// How many writes share a transaction at most.
const BATCH: usize = 512;

/// What the writing thread counts.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Writes that wait or are being written.
    pub queued: Gauge,
    /// Writes that were refused because too many waited.
    pub refused: Counter,
    /// How long each transaction took.
    pub commits: Durations,
}

/// How long a caller waits for its receipt. A disk that takes longer is treated as broken.
const PATIENCE: Duration = Duration::from_secs(10);

type Answer<T> = oneshot::Receiver<Result<T, StoreError>>;

/// The promise of a write.
///
/// When [`Receipt::recorded`] returns `Ok`, the write survives the death of this process.
/// Dropping a receipt does not take the write back; a failure that nobody waits for is logged.
#[derive(Debug)]
#[must_use = "a write is only certain once its receipt was waited for"]
pub struct Receipt<T = ()> {
    operation: &'static str,
    /// Taken by whoever waits.
    answer: Option<Result<Answer<T>, StoreError>>,
}

impl<T> Drop for Receipt<T> {
    fn drop(&mut self) {
        if let Some(Err(error)) = &self.answer {
            tracing::error!(error = %Chain(error), "write was refused and nobody waited for it");
        }
    }
}

impl<T> Receipt<T> {
    /// Waits until the write is recorded.
    ///
    /// # Errors
    ///
    /// [`StoreError::QueueFull`] at once if the queue was full, [`StoreError::Late`] after ten
    /// seconds, and whatever the write itself ran into.
    pub async fn recorded(mut self) -> Result<T, StoreError> {
        let operation = self.operation;
        let answer = self.answer.take().expect("taken only here");
        match tokio::time::timeout(PATIENCE, answer?).await {
            Ok(Ok(result)) => result,
            Ok(Err(_closed)) => Err(StoreError::Closed { operation }),
            Err(_elapsed) => Err(StoreError::Late { operation }),
        }
    }

    /// [`Receipt::recorded`] for threads outside a runtime. Waits for as long as it takes.
    ///
    /// # Errors
    ///
    /// As [`Receipt::recorded`], but never late.
    ///
    /// # Panics
    ///
    /// If called on a thread of an asynchronous runtime.
    pub fn recorded_blocking(mut self) -> Result<T, StoreError> {
        let operation = self.operation;
        let answer = self.answer.take().expect("taken only here");
        answer?
            .blocking_recv()
            .unwrap_or(Err(StoreError::Closed { operation }))
    }
}

/// One queued write. It runs in a savepoint, so that its failure undoes nothing but itself, and
/// is answered after the commit of the whole batch.
trait Job: Send {
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError>;
    fn finish(self: Box<Self>, commit: Result<(), StoreError>);
}

struct Write<T, F> {
    operation: &'static str,
    work: Option<F>,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Write<T, F>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let work = self.work.take().expect("a job is run once");
        let result = work(connection);
        let outcome = result.as_ref().map(|_| ()).map_err(Clone::clone);
        self.result = Some(result);
        outcome
    }

    fn finish(self: Box<Self>, commit: Result<(), StoreError>) {
        let operation = self.operation;
        let result = match (self.result, commit) {
            (Some(Err(error)), _) | (_, Err(error)) => Err(error),
            (Some(Ok(value)), Ok(())) => Ok(value),
            (None, Ok(())) => Err(StoreError::Closed { operation }),
        };
        if let Err(Err(error)) = self.reply.send(result) {
            tracing::error!(error = %Chain(&error), "write failed and nobody waited for it");
        }
    }
}

/// The queue in front of the writing thread.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Option<SyncSender<Box<dyn Job>>>,
    metrics: Arc<Metrics>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(crate) fn start(
        connection: Connection,
        dirty: SyncSender<()>,
    ) -> Result<Self, std::io::Error> {
        let (queue, jobs) = sync_channel(QUEUE);
        let metrics = Arc::<Metrics>::default();
        let counted = Arc::clone(&metrics);
        let thread = std::thread::Builder::new()
            .name("skep-store-writer".to_owned())
            .spawn(move || run(connection, &jobs, &dirty, &counted))?;
        Ok(Self {
            queue: Some(queue),
            metrics,
            thread: Mutex::new(Some(thread)),
        })
    }

    pub(crate) fn submit<T, F>(&self, operation: &'static str, work: F) -> Receipt<T>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Write {
            operation,
            work: Some(work),
            result: None,
            reply,
        });
        let queue = self
            .queue
            .as_ref()
            .expect("the queue is taken only in drop");
        // Before it is sent, so that nobody can leave who has not entered.
        self.metrics.queued.enter();
        let sent = queue.try_send(job);
        let answer = match sent {
            Ok(()) => Ok(answer),
            Err(refused) => {
                self.metrics.queued.leave();
                self.metrics.refused.add_one();
                Err(match refused {
                    TrySendError::Full(_) => StoreError::QueueFull { operation },
                    TrySendError::Disconnected(_) => StoreError::Closed { operation },
                })
            }
        };
        Receipt {
            operation,
            answer: Some(answer),
        }
    }
}

impl Writer {
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

impl Drop for Writer {
    /// Waits until everything queued is written.
    fn drop(&mut self) {
        drop(self.queue.take());
        let thread = self.thread.get_mut().map(Option::take);
        if let Ok(Some(thread)) = thread
            && thread.join().is_err()
        {
            tracing::error!("the writer of the record panicked");
        }
    }
}

fn run(
    mut connection: Connection,
    jobs: &Receiver<Box<dyn Job>>,
    dirty: &SyncSender<()>,
    metrics: &Metrics,
) {
    while let Ok(first) = jobs.recv() {
        let mut batch = vec![first];
        batch.extend(jobs.try_iter().take(BATCH - 1));
        let start = Instant::now();
        let commit = commit(&mut connection, &mut batch);
        metrics.commits.record(start.elapsed());
        for job in batch {
            metrics.queued.leave();
            job.finish(commit.clone());
        }
        match dirty.try_send(()) {
            // A full channel means that a checkpoint is already due.
            Ok(()) | Err(TrySendError::Full(()) | TrySendError::Disconnected(())) => {}
        }
    }
}

fn commit(connection: &mut Connection, batch: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
    let failed = |source| StoreError::of("commit to the record", source);
    let mut transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    for job in batch {
        let savepoint = transaction.savepoint().map_err(failed)?;
        // A failed job keeps its own error; dropping the savepoint undoes what it did.
        if job.run(&savepoint).is_ok() {
            savepoint.commit().map_err(failed)?;
        }
    }
    transaction.commit().map_err(failed)
}
