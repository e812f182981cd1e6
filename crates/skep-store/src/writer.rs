//! The one thread that writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Connection, TransactionBehavior};
use skep_telemetry::{Chain, Counter, Durations, Gauge};
use tokio::sync::oneshot;

use crate::StoreError;

/// Limit on waiting writes. When that many wait, the next is refused with
/// [`StoreError::QueueFull`]: the caller is told, instead of memory growing.
const QUEUE: usize = 8192;

/// Limit on the writes that share a transaction.
const BATCH: usize = 512;

/// Interval at which a write that the disk did not take is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Time for which a store that is closed goes on trying.
const LAST_TRIES: Duration = Duration::from_secs(5);

/// Metrics of the writing thread.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Writes that wait or are being written.
    pub queued: Gauge,
    /// Writes that were refused because too many waited.
    pub refused: Counter,
    /// Duration of each transaction.
    pub commits: Durations,
    /// Transactions that the disk did not take.
    pub failed: Counter,
    /// Writes that the disk did not take and that are tried again until it does. They are
    /// queued, too.
    pub retained: Gauge,
    /// True if the disk did not take the last transaction.
    is_failing: AtomicBool,
}

impl Metrics {
    /// Returns true if the disk does not take what is written. Reading goes on.
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }
}

/// Fate of a write that the disk does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// The caller gets an error at once, and nothing has happened.
    Refuse,
    /// It has happened already and only has to be written down: it is kept, in its order, and
    /// tried again until the disk takes it.
    Retain,
}

/// Time limit for a caller's receipt. A disk that takes longer is treated as broken.
const RECEIPT_TIMEOUT: Duration = Duration::from_secs(10);

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
        match tokio::time::timeout(RECEIPT_TIMEOUT, answer?).await {
            Ok(Ok(result)) => result,
            Ok(Err(_closed)) => Err(StoreError::Closed { operation }),
            Err(_elapsed) => Err(StoreError::Late { operation }),
        }
    }
}

/// One queued write. It runs in a savepoint, so that its failure undoes nothing but itself, and
/// is answered after the commit of the whole batch.
trait Job: Send {
    /// Runs again from the start when the transaction it was part of has failed.
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError>;
    fn when_full(&self) -> WhenFull;
    /// True if its transaction, and with it all before, is on the disk when it is committed.
    fn is_synced(&self) -> bool;
    fn finish(self: Box<Self>, commit: Result<(), StoreError>);
}

struct Write<T, F> {
    operation: &'static str,
    when_full: WhenFull,
    is_synced: bool,
    work: F,
    result: Option<Result<T, StoreError>>,
    reply: oneshot::Sender<Result<T, StoreError>>,
}

impl<T, F> Job for Write<T, F>
where
    T: Send,
    F: Fn(&Connection) -> Result<T, StoreError> + Send,
{
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let result = (self.work)(connection);
        let outcome = result.as_ref().map(|_| ()).map_err(Clone::clone);
        self.result = Some(result);
        outcome
    }

    fn when_full(&self) -> WhenFull {
        self.when_full
    }

    fn is_synced(&self) -> bool {
        self.is_synced
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
    thread: Option<JoinHandle<()>>,
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
            thread: Some(thread),
        })
    }

    pub(crate) fn submit<T, F>(
        &self,
        operation: &'static str,
        when_full: WhenFull,
        work: F,
    ) -> Receipt<T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.enqueue(operation, (when_full, false), work)
    }

    /// Queues work after which everything that was queued so far is on the disk.
    pub(crate) fn sync<T, F>(&self, operation: &'static str, work: F) -> Receipt<T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.enqueue(operation, (WhenFull::Refuse, true), work)
    }

    fn enqueue<T, F>(
        &self,
        operation: &'static str,
        (when_full, is_synced): (WhenFull, bool),
        work: F,
    ) -> Receipt<T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let job = Box::new(Write {
            operation,
            when_full,
            is_synced,
            work,
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
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer of the database panicked");
        }
    }
}

fn run(
    mut connection: Connection,
    jobs: &Receiver<Box<dyn Job>>,
    dirty: &SyncSender<()>,
    metrics: &Metrics,
) {
    let mut retained = Vec::new();
    let mut gives_up_at = None;
    loop {
        let (mut batch, is_open) = next_batch(jobs, std::mem::take(&mut retained), metrics);
        if batch.is_empty() && !is_open {
            return;
        }
        let start = Instant::now();
        let commit = commit_as_asked(&mut connection, &mut batch);
        metrics.commits.record(start.elapsed());
        note(metrics, &commit);
        if !is_open {
            gives_up_at.get_or_insert(start + LAST_TRIES);
        }
        let is_last_try = gives_up_at.is_some_and(|deadline| start >= deadline);
        let is_tried_again = commit.as_ref().is_err_and(StoreError::is_of_disk) && !is_last_try;
        // Those that are retained stay in their order, and the next batch puts them before all
        // later ones: an end must not be written before the start it belongs to.
        let (kept, done): (Vec<_>, Vec<_>) = (batch.into_iter())
            .partition(|job| is_tried_again && job.when_full() == WhenFull::Retain);
        let count = u64::try_from(kept.len()).unwrap_or(u64::MAX);
        metrics.retained.set(count);
        retained = kept;
        for job in done {
            metrics.queued.leave();
            job.finish(commit.clone());
        }
        match dirty.try_send(()) {
            // A full channel means that a checkpoint is already due.
            Ok(()) | Err(TrySendError::Full(()) | TrySendError::Disconnected(())) => {}
        }
    }
}

/// Takes the next writes, the retained first, and returns them and whether more can come. Waits for
/// the first; for a while only, if the disk fails: then the next transaction finds out whether it
/// still does.
fn next_batch(
    jobs: &Receiver<Box<dyn Job>>,
    retained: Vec<Box<dyn Job>>,
    metrics: &Metrics,
) -> (Vec<Box<dyn Job>>, bool) {
    let first = if !metrics.is_failing() {
        jobs.recv()
            .map_err(|_closed| RecvTimeoutError::Disconnected)
    } else if retained.len() < QUEUE {
        jobs.recv_timeout(RETRY)
    } else {
        // Enough is kept. The queue fills up, and whoever comes then is told.
        std::thread::park_timeout(RETRY);
        Err(RecvTimeoutError::Timeout)
    };
    let mut batch = retained;
    match first {
        Ok(first) => {
            batch.push(first);
            batch.extend(jobs.try_iter().take(BATCH - 1));
            (batch, true)
        }
        Err(RecvTimeoutError::Timeout) => (batch, true),
        Err(RecvTimeoutError::Disconnected) => {
            if !batch.is_empty() {
                std::thread::park_timeout(RETRY);
            }
            (batch, false)
        }
    }
}

/// Counts what became of a transaction. An operator is told when the disk begins to refuse and
/// when it takes again, and not in between.
fn note(metrics: &Metrics, commit: &Result<(), StoreError>) {
    let failure = commit.as_ref().err().filter(|error| error.is_of_disk());
    let was_failing = metrics
        .is_failing
        .swap(failure.is_some(), Ordering::Relaxed);
    match failure {
        Some(error) => {
            metrics.failed.add_one();
            if !was_failing {
                tracing::error!(
                    error = %Chain(error),
                    "the disk does not take the database; what happened is kept in memory and \
                     written when it does"
                );
            }
        }
        None if was_failing => tracing::info!("the disk takes the database again"),
        None => {}
    }
}

/// Commits a batch, and waits for the disk if one of it asks for that.
fn commit_as_asked(
    connection: &mut Connection,
    batch: &mut [Box<dyn Job>],
) -> Result<(), StoreError> {
    let failed = |source| StoreError::of("change how the database is written", source);
    if !batch.iter().any(|job| job.is_synced()) {
        return commit(connection, batch);
    }
    // With this the log is synced at the end of the transaction, and with it all that it has from
    // others.
    (connection.pragma_update(None, "synchronous", "full")).map_err(failed)?;
    let committed = commit(connection, batch);
    (connection.pragma_update(None, "synchronous", "normal")).map_err(failed)?;
    committed
}

fn commit(connection: &mut Connection, batch: &mut [Box<dyn Job>]) -> Result<(), StoreError> {
    let failed = |source| StoreError::of("commit to the database", source);
    // Takes the lock for writing now, for which SQLite waits. A transaction that begins as a reader
    // would be refused at once when it first writes after somebody else has.
    let mut transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failed)?;
    if batch.is_empty() {
        write_something(&transaction).map_err(failed)?;
    }
    for job in batch {
        let savepoint = transaction.savepoint().map_err(failed)?;
        match job.run(&savepoint) {
            Ok(()) => savepoint.commit().map_err(failed)?,
            // It is no failure of this job alone.
            Err(error) if error.is_of_disk() => return Err(error),
            // A failed job keeps its own error; dropping the savepoint undoes what it did.
            Err(_) => {}
        }
    }
    transaction.commit().map_err(failed)
}

/// Changes the file without changing what it says, to find out whether the disk takes it.
pub(crate) fn write_something(connection: &Connection) -> rusqlite::Result<()> {
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    connection.pragma_update(None, "user_version", version)
}
