//! Moving what is committed from the log into the file, with the disk's confirmation.
//!
//! This is the only place that waits for the disk. It has a thread and a connection of its own,
//! so that neither writers nor readers wait with it.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use skep_telemetry::Chain;

use crate::StoreError;
use crate::reserve::Reserve;

/// Age that the newest write may reach before the disk has it for certain.
pub const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);

/// Time limit for others to end a checkpoint of theirs.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between two looks whether they have.
const BUSY_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(crate) struct Checkpointer {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Checkpointer {
    pub(crate) fn start(
        connection: Connection,
        mut reserve: Reserve,
        dirty: Receiver<()>,
    ) -> Result<Self, std::io::Error> {
        let (stop, stopped) = sync_channel(0);
        let thread = std::thread::Builder::new()
            .name("skep-store-checkpoint".to_owned())
            .spawn(move || run(&connection, &mut reserve, &dirty, &stopped))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the checkpointer of the database panicked");
        }
    }
}

fn run(
    connection: &Connection,
    reserve: &mut Reserve,
    dirty: &Receiver<()>,
    stopped: &Receiver<()>,
) {
    let mut was_failing = false;
    // The writer holds the other end of `dirty` and is dropped first, which ends this loop.
    while dirty.recv().is_ok() {
        match stopped.recv_timeout(CHECKPOINT_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
        let checkpointed = checkpoint(connection, Mode::Passive);
        // A full disk fails it every second, and the writer says so already.
        if let Err(error) = &checkpointed
            && !was_failing
        {
            tracing::warn!(error = %Chain(error), "checkpoint of the database failed, will try again");
        }
        was_failing = checkpointed.is_err();
        reserve.top_up();
    }
}

pub(crate) enum Mode {
    /// Does what it can without waiting for anybody.
    Passive,
    /// Waits for readers and writers until everything is on the disk.
    Full,
}

/// Brings everything to the disk. Blocks.
///
/// # Errors
///
/// [`StoreError::Busy`] if somebody else held the database for all of the time.
pub(crate) fn checkpoint_all(connection: &Connection) -> Result<(), StoreError> {
    let end = Instant::now() + BUSY_TIMEOUT;
    loop {
        // SQLite waits for readers and writers, but not for another checkpoint: that of our own
        // thread every second, or that of `skep key`, would be the end of this one.
        match checkpoint(connection, Mode::Full) {
            Err(StoreError::Busy { .. }) if Instant::now() < end => {}
            done => return done,
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "on a thread for blocking work, and the kernel does not tell when the lock is free"
        )]
        std::thread::sleep(BUSY_INTERVAL);
    }
}

pub(crate) fn checkpoint(connection: &Connection, mode: Mode) -> Result<(), StoreError> {
    let operation = "bring the database to the disk";
    let statement = match mode {
        Mode::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
        Mode::Full => "PRAGMA wal_checkpoint(FULL)",
    };
    let busy: bool = connection
        .query_row(statement, [], |row| row.get(0))
        .map_err(|source| StoreError::of(operation, source))?;
    match (mode, busy) {
        (Mode::Full, true) => Err(StoreError::Busy { operation }),
        (Mode::Full, false) | (Mode::Passive, _) => Ok(()),
    }
}
