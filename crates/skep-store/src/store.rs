//! Opening, closing, and the two ways in.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;

use crate::checkpoint::{self, Checkpointer};
use crate::readers::Readers;
use crate::reserve::Reserve;
use crate::writer::{Metrics, WhenFull, Writer, write_something};
use crate::{
    Builds, Checkpoints, Deliveries, Events, IdentityKeys, Keys, Receipt, Sandboxes, Secrets,
    ServerKeys, StoreError, Tags, Teams, Templates, Volumes, Webhooks, migrations,
};

/// Time that SQLite waits for another process (`skep key`, say) to finish its own write.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The database. Cheap to clone; the last clone to go closes it, after all queued writes.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    // Dropped in this order: the writer empties its queue, and by hanging up ends the
    // checkpointer; the last connection to close leaves everything in the one file.
    writer: Writer,
    _checkpointer: Checkpointer,
    readers: Readers,
    /// False as long as no checkpoint was ever recorded: every create asks for one, and few have any.
    has_checkpoints: Arc<AtomicBool>,
    /// The same of templates.
    has_templates: Arc<AtomicBool>,
    /// The same of webhooks, for whoever looks for something to send.
    has_webhooks: Arc<AtomicBool>,
    /// Fires when there may be new events.
    news: watch::Sender<()>,
    /// The file itself. Closing any descriptor of it would give up the locks that SQLite holds
    /// on it for this process, so it goes last.
    _file: Arc<File>,
}

impl Store {
    /// Opens the database at `path`, makes it if there is none, and brings it up to date.
    ///
    /// The file holds access tokens, so it is made readable for its owner alone.
    ///
    /// # Errors
    ///
    /// [`StoreError::Open`], [`StoreError::TooNew`] or [`StoreError::Migrate`].
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let unusable = |source: std::io::Error| StoreError::Open {
            path: path.to_owned(),
            source: Arc::new(source),
        };
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(unusable)?;
        let file = Arc::new(file);
        let mut connection = connect(path)?;
        migrations::migrate(&mut connection, path)?;
        let has_checkpoints = crate::checkpoints::exist(&connection)?;
        let has_templates = crate::templates::exist(&connection)?;
        let has_webhooks = crate::webhooks::exist(&connection)?;
        let (dirty, checkpoints) = sync_channel(1);
        let reserve = Reserve::new(Arc::clone(&file), path);
        let checkpointer =
            Checkpointer::start(connect(path)?, reserve, checkpoints).map_err(unusable)?;
        let writer = Writer::start(connection, dirty).map_err(unusable)?;
        Ok(Self {
            inner: Arc::new(Inner {
                writer,
                _checkpointer: checkpointer,
                readers: Readers::new(path),
                has_checkpoints: Arc::new(AtomicBool::new(has_checkpoints)),
                has_templates: Arc::new(AtomicBool::new(has_templates)),
                has_webhooks: Arc::new(AtomicBool::new(has_webhooks)),
                news: watch::Sender::new(()),
                _file: file,
            }),
        })
    }

    /// Access to teams, their limits and standing.
    pub fn teams(&self) -> Teams<'_> {
        Teams(self)
    }

    /// The file of the database.
    pub fn path(&self) -> &Path {
        self.inner.readers.path()
    }

    /// Access to API keys, of which only digests are kept.
    pub fn keys(&self) -> Keys<'_> {
        Keys(self)
    }

    /// Sandboxes, the living and the ended.
    pub fn sandboxes(&self) -> Sandboxes<'_> {
        Sandboxes(self)
    }

    /// Events of sandboxes.
    pub fn events(&self) -> Events<'_> {
        Events(self)
    }

    pub(crate) fn news(&self) -> &watch::Sender<()> {
        &self.inner.news
    }

    /// Webhooks of teams.
    pub fn webhooks(&self) -> Webhooks<'_> {
        Webhooks(self)
    }

    /// Events on their way to webhooks.
    pub fn deliveries(&self) -> Deliveries<'_> {
        Deliveries(self)
    }

    /// The keys that sign identity tokens.
    pub fn identity_keys(&self) -> IdentityKeys<'_> {
        IdentityKeys(self)
    }

    /// Secrets of teams, sealed.
    pub fn secrets(&self) -> Secrets<'_> {
        Secrets(self)
    }

    /// Checkpoints of sandboxes that are kept.
    pub fn checkpoints(&self) -> Checkpoints<'_> {
        Checkpoints(self)
    }

    /// Templates that teams have built, or are building.
    pub fn templates(&self) -> Templates<'_> {
        Templates(self)
    }

    /// Builds of templates, with their logs.
    pub fn builds(&self) -> Builds<'_> {
        Builds(self)
    }

    /// Tags of templates, and the builds that they mean.
    pub fn tags(&self) -> Tags<'_> {
        Tags(self)
    }

    /// The volumes.
    pub fn volumes(&self) -> Volumes<'_> {
        Volumes(self)
    }

    /// Keys of the server itself.
    pub fn server_keys(&self) -> ServerKeys<'_> {
        ServerKeys(self)
    }

    /// Returns true if there may be templates of teams.
    pub(crate) fn may_have_templates(&self) -> bool {
        self.inner.has_templates.load(Ordering::Acquire)
    }

    /// The flag to be set before a template can be found.
    pub(crate) fn has_templates(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.inner.has_templates)
    }

    /// Returns true if there may be webhooks.
    pub(crate) fn may_have_webhooks(&self) -> bool {
        self.inner.has_webhooks.load(Ordering::Acquire)
    }

    /// The flag to be set before a webhook can be found.
    pub(crate) fn has_webhooks(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.inner.has_webhooks)
    }

    /// Returns true if there may be checkpoints.
    pub(crate) fn may_have_checkpoints(&self) -> bool {
        self.inner.has_checkpoints.load(Ordering::Acquire)
    }

    /// The flag to be set before a checkpoint can be found.
    pub(crate) fn has_checkpoints(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.inner.has_checkpoints)
    }

    /// Returns true if the disk takes what is written, as far as the last write could tell.
    pub fn is_writable(&self) -> bool {
        !self.metrics().is_failing()
    }

    /// Metrics of the database.
    pub fn metrics(&self) -> &Metrics {
        self.inner.writer.metrics()
    }

    /// Waits until everything written so far survives even a loss of power.
    ///
    /// # Errors
    ///
    /// Any [`StoreError`]; what is not on the disk then is still in the log.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.written().recorded().await?;
        let operation = "bring the database to the disk";
        self.read(operation, checkpoint::checkpoint_all).await
    }

    /// Brings everything written so far to the disk, so that it survives even a loss of power. Waits for
    /// nobody who reads, as [`Store::flush`] does.
    pub fn sync(&self) -> Receipt {
        let operation = "bring the log of the database to the disk";
        self.inner.writer.sync(operation, move |connection| {
            write_something(connection).map_err(|source| StoreError::of(operation, source))
        })
    }

    /// The receipt of everything queued before.
    fn written(&self) -> Receipt {
        self.write("wait for earlier writes", |_| Ok(()))
    }

    /// Queues a write that may be refused if the disk is full.
    pub(crate) fn write<T, F>(&self, operation: &'static str, work: F) -> Receipt<T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let writer = &self.inner.writer;
        writer.submit(operation, WhenFull::Refuse, work)
    }

    /// Queues a write of what has happened already: if the disk is full it is kept until there
    /// is room.
    pub(crate) fn write_retained<T, F>(&self, operation: &'static str, work: F) -> Receipt<T>
    where
        T: Send + 'static,
        F: Fn(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let writer = &self.inner.writer;
        writer.submit(operation, WhenFull::Retain, work)
    }

    /// Runs `query` on a thread that may block.
    ///
    /// A dropped call lets the query finish and forgets its result.
    pub(crate) async fn read<T, F>(
        &self,
        operation: &'static str,
        query: F,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let closed = StoreError::Closed { operation };
        let Ok(_turn) = self.inner.readers.turns().acquire().await else {
            return Err(closed);
        };
        let store = self.clone();
        let reading = tokio::task::spawn_blocking(move || store.inner.readers.read(query));
        reading.await.unwrap_or(Err(closed))
    }
}

/// A connection as all of ours are: it logs ahead, and leaves the disk to the checkpointer.
pub(crate) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let prepare = || {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        // With a write-ahead log this commits without an fsync: a write survives the process at
        // once, and the host after the next checkpoint.
        connection.pragma_update(None, "synchronous", "normal")?;
        // Else every so many pages a writer would do a checkpoint itself, and wait for the disk.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(connection)
    };
    prepare().map_err(|source: rusqlite::Error| StoreError::Open {
        path: path.to_owned(),
        source: Arc::new(source),
    })
}
