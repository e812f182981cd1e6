//! Files and indexes of registries, fetched once for all who ask.
//!
//! A task of its own fetches each file, whoever asked for it first: those who ask meanwhile read what is
//! there of it. The last byte is given to nobody before the file is verified, so a file that is not what
//! the index promises ends for everybody as a connection that was cut.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use reqwest::header::{
    CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    LAST_MODIFIED,
};
use reqwest::{Response, StatusCode, Url};
use ring::digest::Context;
use skep_telemetry::{Chain, LogLimit, Tasks};
use tokio::sync::{Semaphore, watch};

use crate::digest::Digest;
use crate::error::FetchError;
use crate::store::{Content, Draft, Head, Key, Store, Stored};
use crate::upstream::{Clients, Upstream};
use crate::{Access, Metrics};

/// Indexes that are fetched and read at a time: each is in memory.
const INDEXES: usize = 4;
/// Files that are fetched at a time.
const DOWNLOADS: usize = 256;
/// The largest index.
const INDEX_BYTES: usize = 64 << 20;
/// Time limit for an index, and for the turn to fetch it.
const INDEX_TIMEOUT: Duration = Duration::from_mins(2);
/// Time limit for a file.
const FILE_TIMEOUT: Duration = Duration::from_hours(2);
/// Bytes that are written at once.
const WRITE_BYTES: usize = 256 * 1024;

/// A file to be found or fetched.
#[derive(Debug)]
pub(crate) struct FileOrder {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) url: Url,
    /// Digest that it is promised to have; without it whoever gets it verifies it.
    pub(crate) digest: Option<Digest>,
    /// Asks the registry although the cache has it.
    pub(crate) anew: bool,
}

/// An index to be found or fetched.
#[derive(Debug)]
pub(crate) struct IndexOrder {
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) url: Url,
    pub(crate) accept: Option<&'static str>,
    /// Makes what is kept of what the registry sends.
    pub(crate) read: Reading,
}

/// Reads what a registry sends under a URL, with its content type.
pub(crate) type Reading = fn(&Url, &str, &[u8]) -> Result<Option<Vec<u8>>, Malformed>;

/// An answer that is no index.
#[derive(Debug)]
pub(crate) struct Malformed;

/// A file that was found.
#[derive(Debug)]
pub(crate) enum Found {
    /// All of it.
    Stored(Stored),
    /// The part that is there so far.
    Coming(Coming),
}

/// A file that is being fetched.
#[derive(Debug)]
pub(crate) struct Coming {
    pub(crate) source: Arc<Source>,
    pub(crate) progress: watch::Receiver<Progress>,
}

/// The file in which one that is being fetched is written.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) head: Head,
    pub(crate) content: Arc<Content>,
    /// Size of the content, if the registry says so.
    pub(crate) length: Option<u64>,
}

/// State of a fetch.
#[derive(Debug, Clone)]
pub(crate) enum Progress {
    /// The registry has not answered.
    Asked,
    /// So many bytes may be read.
    Coming(Arc<Source>, u64),
    /// It is in the cache, and has so many bytes.
    Done(Option<Arc<Source>>, u64),
    /// It has failed.
    Failed(FetchError),
}

/// Fetches, and remembers what is being fetched.
#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) store: Arc<Store>,
    clients: Clients,
    freshness: Duration,
    running: Mutex<HashMap<Key, watch::Sender<Progress>>>,
    indexes: Semaphore,
    downloads: Semaphore,
    tasks: Tasks,
    metrics: Arc<Metrics>,
    log: LogLimit,
}

impl Fetcher {
    pub(crate) fn new(
        store: Arc<Store>,
        clients: Clients,
        freshness: Duration,
        tasks: Tasks,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            store,
            clients,
            freshness,
            running: Mutex::default(),
            indexes: Semaphore::new(INDEXES),
            downloads: Semaphore::new(DOWNLOADS),
            tasks,
            metrics,
            log: LogLimit::new(Duration::from_secs(10)),
        }
    }

    /// A file: from the cache, or as it comes.
    pub(crate) async fn file(
        self: &Arc<Self>,
        order: FileOrder,
        access: Access,
    ) -> Result<Found, FetchError> {
        let key = match &order.digest {
            // The same file is the same, wherever it comes from.
            Some(digest) => Key::of(&["file", &digest.to_string()]),
            None => Key::of(&["file", order.url.as_str()]),
        };
        let may_fetch = access == Access::Everything;
        if !(order.anew && may_fetch)
            && let Some(stored) = self.find(key).await?
        {
            self.metrics.hits.add_one();
            return Ok(Found::Stored(stored));
        }
        if !may_fetch {
            return Err(FetchError::NotCached);
        }
        let fetcher = Arc::clone(self);
        let order = Arc::new(order);
        loop {
            let (fetcher, order) = (Arc::clone(&fetcher), Arc::clone(&order));
            let mut progress = self.join(key, move |sender| async move {
                fetcher.fetch_file(key, &order, &sender).await
            });
            let state = progress
                .wait_for(|state| !matches!(state, Progress::Asked))
                .await
                .map_err(|_| FetchError::Stopping)?
                .clone();
            match state {
                Progress::Asked => return Err(FetchError::Stopping),
                Progress::Coming(source, _) | Progress::Done(Some(source), _) => {
                    return Ok(Found::Coming(Coming { source, progress }));
                }
                Progress::Done(None, _) => return self.stored(key).await.map(Found::Stored),
                // Everybody had gone when this one came.
                Progress::Failed(FetchError::Abandoned) => {}
                Progress::Failed(error) => return Err(error),
            }
        }
    }

    /// An index: from the cache as long as it is fresh, else from the registry, and an old one if that
    /// does not answer.
    pub(crate) async fn index(
        self: &Arc<Self>,
        order: IndexOrder,
        access: Access,
    ) -> Result<Stored, FetchError> {
        let accept = order.accept.unwrap_or_default();
        let key = Key::of(&["index", order.url.as_str(), accept]);
        let old = self.find(key).await?;
        let is_fresh = |stored: &Stored| stored.age < self.freshness;
        let old = match (old, access) {
            (Some(stored), _) if is_fresh(&stored) => {
                self.metrics.hits.add_one();
                return Ok(stored);
            }
            (Some(stored), Access::Cached | Access::Nothing) => {
                self.metrics.stale.add_one();
                return Ok(stored);
            }
            (None, Access::Cached | Access::Nothing) => return Err(FetchError::NotCached),
            (old, Access::Everything) => old,
        };
        let conditions = old.as_ref().map(|old| conditions(&old.head));
        let fetcher = Arc::clone(self);
        let mut progress = self.join(key, move |_| async move {
            let fetching = fetcher.fetch_index(key, &order, conditions.unwrap_or_default());
            let fetched = tokio::time::timeout(INDEX_TIMEOUT, fetching).await;
            fetched.map_err(|_| FetchError::Late)?.map(|()| (None, 0))
        });
        let is_over = |state: &Progress| matches!(state, Progress::Done(..) | Progress::Failed(_));
        let state = progress
            .wait_for(is_over)
            .await
            .map_err(|_| FetchError::Stopping)?
            .clone();
        match (state, old) {
            (Progress::Failed(error), Some(old)) if error.is_passing() => {
                self.metrics.stale.add_one();
                Ok(old)
            }
            (Progress::Failed(error), _) => Err(error),
            (Progress::Asked | Progress::Coming(..) | Progress::Done(..), _) => {
                self.stored(key).await
            }
        }
    }

    /// Waits for the fetch of a key, and starts it if there is none.
    fn join<W, F>(self: &Arc<Self>, key: Key, work: W) -> watch::Receiver<Progress>
    where
        W: FnOnce(watch::Sender<Progress>) -> F,
        F: Future<Output = Result<(Option<Arc<Source>>, u64), FetchError>> + Send + 'static,
    {
        let mut running = self.running.lock();
        if let Some(sender) = running.get(&key) {
            self.metrics.joined.add_one();
            return sender.subscribe();
        }
        self.metrics.misses.add_one();
        let (sender, receiver) = watch::channel(Progress::Asked);
        running.insert(key, sender.clone());
        let work = work(sender.clone());
        let (fetcher, stop) = (Arc::clone(self), self.tasks.stopping());
        self.tasks.spawn("fetch for the mirror", async move {
            // The guard is there before the work, which may panic.
            let _running = Running {
                fetcher: Arc::clone(&fetcher),
                key,
            };
            let ended = tokio::select! {
                ended = work => ended,
                () = stop.cancelled() => Err(FetchError::Stopping),
            };
            let state = match ended {
                Ok((source, bytes)) => Progress::Done(source, bytes),
                Err(error) => {
                    fetcher.tell(&error);
                    Progress::Failed(error)
                }
            };
            // Whoever comes now finds the file in the cache, or begins anew.
            fetcher.running.lock().remove(&key);
            sender.send_replace(state);
        });
        receiver
    }

    fn tell(&self, error: &FetchError) {
        match error {
            FetchError::Unknown
            | FetchError::NotCached
            | FetchError::Abandoned
            | FetchError::Stopping => return,
            FetchError::Malformed
            | FetchError::Mismatch
            | FetchError::TooLarge
            | FetchError::Elsewhere => {
                self.metrics.rejected.add_one();
            }
            FetchError::Status(_)
            | FetchError::Unreachable(_)
            | FetchError::Late
            | FetchError::Store(_) => {}
        }
        self.metrics.failed.add_one();
        if let Some(suppressed) = self.log.admit() {
            tracing::warn!(error = %Chain(error), suppressed, "a package could not be fetched");
        }
    }

    async fn find(&self, key: Key) -> Result<Option<Stored>, FetchError> {
        let store = Arc::clone(&self.store);
        let found = tokio::task::spawn_blocking(move || store.find(key)).await;
        match found.map_err(|_| FetchError::Stopping)? {
            Ok(found) => Ok(found),
            Err(error) => {
                // It is fetched again.
                tracing::warn!(error = %Chain(&error), "a file of the mirror's cache cannot be read");
                Ok(None)
            }
        }
    }

    async fn stored(&self, key: Key) -> Result<Stored, FetchError> {
        // So many others came meanwhile that it has made room for them already.
        let gone = || FetchError::from(crate::store::StoreError::TooSmall);
        self.find(key).await?.ok_or_else(gone)
    }

    async fn ask(
        &self,
        upstream: &Upstream,
        url: &Url,
        accept: Option<&'static str>,
        conditions: &HeaderMap,
    ) -> Result<Response, FetchError> {
        self.metrics.upstream.add_one();
        self.clients.get(upstream, url, accept, conditions).await
    }

    async fn fetch_index(
        &self,
        key: Key,
        order: &IndexOrder,
        conditions: HeaderMap,
    ) -> Result<(), FetchError> {
        let turn = self.indexes.acquire().await;
        let _turn = turn.map_err(|_| FetchError::Stopping)?;
        let mut answer = (self.ask(&order.upstream, &order.url, order.accept, &conditions)).await?;
        let store = Arc::clone(&self.store);
        if answer.status() == StatusCode::NOT_MODIFIED {
            return blocking(move || Ok(store.confirm(key)?)).await;
        }
        let mut head = head_of(&answer);
        let mut content = BytesMut::new();
        while let Some(bytes) = answer.chunk().await? {
            self.count(&bytes);
            if content.len() + bytes.len() > INDEX_BYTES {
                return Err(FetchError::TooLarge);
            }
            content.extend_from_slice(&bytes);
        }
        let (read, url) = (order.read, order.url.clone());
        blocking(move || {
            let kind = head.content_type.clone().unwrap_or_default();
            let read = read(&url, &kind, &content).map_err(|Malformed| FetchError::Malformed)?;
            let kept = match read {
                Some(own) => {
                    head.content_type = None;
                    own
                }
                None => content.to_vec(),
            };
            let mut draft = store.draft(&head)?;
            draft.append(&kept)?;
            Ok(draft.commit(key)?)
        })
        .await
    }

    async fn fetch_file(
        &self,
        key: Key,
        order: &FileOrder,
        sender: &watch::Sender<Progress>,
    ) -> Result<(Option<Arc<Source>>, u64), FetchError> {
        let fetching = self.fetch_file_for(key, order, sender);
        tokio::select! {
            fetched = tokio::time::timeout(FILE_TIMEOUT, fetching) => {
                fetched.map_err(|_| FetchError::Late)?
            }
            () = sender.closed() => Err(FetchError::Abandoned),
        }
    }

    async fn fetch_file_for(
        &self,
        key: Key,
        order: &FileOrder,
        sender: &watch::Sender<Progress>,
    ) -> Result<(Option<Arc<Source>>, u64), FetchError> {
        let turn = self.downloads.acquire().await;
        let _turn = turn.map_err(|_| FetchError::Stopping)?;
        let conditions = HeaderMap::new();
        let mut answer = (self.ask(&order.upstream, &order.url, None, &conditions)).await?;
        if answer.status() != StatusCode::OK {
            return Err(FetchError::Status(answer.status().as_u16()));
        }
        let (store, head) = (Arc::clone(&self.store), head_of(&answer));
        let length = answer.content_length();
        let mut write = blocking(move || {
            let draft = store.draft(&head)?;
            let source = Arc::new(Source {
                head,
                content: Arc::new(draft.content()?),
                length,
            });
            Ok(Write {
                draft,
                source,
                written: 0,
            })
        })
        .await?;
        let mut computed = order.digest.as_ref().map(Digest::begin);
        let mut pending = BytesMut::new();
        let mut is_over = false;
        while !is_over {
            match answer.chunk().await? {
                Some(bytes) => {
                    self.count(&bytes);
                    pending.extend_from_slice(&bytes);
                }
                None => is_over = true,
            }
            let is_late = write.written > 0 && pending.len() < WRITE_BYTES;
            if pending.is_empty() || (is_late && !is_over) {
                continue;
            }
            write = write.add(pending.split().freeze(), &mut computed).await?;
            let source = Arc::clone(&write.source);
            sender.send_replace(Progress::Coming(source, write.written.saturating_sub(1)));
        }
        if length.is_some_and(|length| length != write.written) {
            return Err(FetchError::Mismatch);
        }
        if let (Some(digest), Some(computed)) = (&order.digest, computed)
            && !digest.is_of(computed)
        {
            return Err(FetchError::Mismatch);
        }
        let Write {
            draft,
            source,
            written,
        } = write;
        blocking(move || Ok(draft.commit(key)?)).await?;
        Ok((Some(source), written))
    }

    fn count(&self, bytes: &Bytes) {
        let count = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.metrics.fetched.add(count);
    }
}

/// A fetch that is remembered until it has ended, however it does.
struct Running {
    fetcher: Arc<Fetcher>,
    key: Key,
}

impl Drop for Running {
    fn drop(&mut self) {
        // After a panic. Otherwise it is gone, or another one is there, which has not ended: only the
        // one whose every sender is here would be.
        if std::thread::panicking() {
            self.fetcher.running.lock().remove(&self.key);
        }
    }
}

/// A file that is written.
struct Write {
    draft: Draft,
    source: Arc<Source>,
    written: u64,
}

impl Write {
    async fn add(
        mut self,
        bytes: Bytes,
        computed: &mut Option<Context>,
    ) -> Result<Self, FetchError> {
        let mut context = computed.take();
        let (write, context) = blocking(move || {
            self.draft.append(&bytes)?;
            if let Some(context) = &mut context {
                context.update(&bytes);
            }
            self.written += u64::try_from(bytes.len()).map_err(std::io::Error::other)?;
            Ok((self, context))
        })
        .await?;
        *computed = context;
        Ok(write)
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|panic| FetchError::from(std::io::Error::other(panic)))?
}

fn head_of(answer: &Response) -> Head {
    let text = |name: HeaderName| {
        let value = answer.headers().get(name)?.to_str().ok()?;
        // A registry chooses them.
        (value.len() <= 1024).then(|| value.to_owned())
    };
    Head {
        content_type: text(CONTENT_TYPE),
        etag: text(ETAG),
        last_modified: text(LAST_MODIFIED),
    }
}

/// Asks for what has changed since.
fn conditions(head: &Head) -> HeaderMap {
    let mut conditions = HeaderMap::new();
    let pairs = [
        (IF_NONE_MATCH, &head.etag),
        (IF_MODIFIED_SINCE, &head.last_modified),
    ];
    for (name, value) in pairs {
        let value = value.as_deref().map(HeaderValue::from_str);
        if let Some(Ok(value)) = value {
            conditions.insert(name, value);
        }
    }
    conditions
}
