//! The cache: files on the disk, of which those that were used longest ago make room for others.
//!
//! ```text
//! <directory>/<two digits>/<key>   a file: the length of its head, the head as JSON, its content
//! <directory>/incoming/<number>    one that is not complete, or not verified
//! ```
//!
//! A file comes to its name by a rename when it is complete and verified. Its time of modification is
//! when a registry was last asked about it, its time of access when it was used last.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};

use crate::Metrics;

const INCOMING: &str = "incoming";
/// The largest head of a file.
const HEAD_BYTES: u32 = 16 * 1024;

/// Name of a file in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key([u8; 32]);

/// Knowledge of a file beside its content.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) content_type: Option<String>,
    pub(crate) etag: Option<String>,
    pub(crate) last_modified: Option<String>,
}

/// A file of the cache, which stays readable if it makes room for others meanwhile.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) head: Head,
    pub(crate) content: Content,
    /// Size of the content.
    pub(crate) bytes: u64,
    /// Time since a registry was asked about it.
    pub(crate) age: Duration,
}

/// Place at which the content of a file is read.
#[derive(Debug)]
pub(crate) struct Content {
    file: File,
    /// Offset at which it begins.
    offset: u64,
}

/// A file that is not in the cache yet. It goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Draft {
    store: Arc<Store>,
    path: PathBuf,
    file: File,
    /// Offset at which its content begins.
    offset: u64,
    /// Bytes in the file.
    bytes: u64,
}

/// The cache of a server.
#[derive(Debug)]
pub(crate) struct Store {
    directory: PathBuf,
    /// Most bytes of all files, incomplete ones included.
    limit: u64,
    files: Mutex<Files>,
    drafts: AtomicU64,
    metrics: Arc<Metrics>,
}

#[derive(Debug, Default)]
struct Files {
    entries: HashMap<Key, Entry>,
    /// Keys in the order in which they were used.
    by_use: BTreeMap<u64, Key>,
    last_use: u64,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    used: u64,
    bytes: u64,
}

impl Key {
    /// The key of a thing that these words name.
    pub(crate) fn of(words: &[&str]) -> Self {
        // None of them has a separator in it.
        let text = words.join("\n");
        let digest = digest(&SHA256, text.as_bytes());
        Self((digest.as_ref().try_into()).expect("a SHA-256 has 32 bytes"))
    }

    fn parse(text: &str) -> Option<Self> {
        hex::decode(text).ok()?.try_into().ok().map(Self)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Store {
    /// Opens the cache in a directory and removes what is incomplete, or too much. Blocks.
    pub(crate) fn open(directory: PathBuf, limit: u64, metrics: Arc<Metrics>) -> io::Result<Self> {
        let incoming = directory.join(INCOMING);
        match fs::remove_dir_all(&incoming) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        fs::create_dir_all(&incoming)?;
        let mut files = Files::default();
        for (key, bytes) in found(&directory)? {
            files.insert(key, bytes);
        }
        let store = Self {
            directory,
            limit,
            files: Mutex::new(files),
            drafts: AtomicU64::new(0),
            metrics,
        };
        store.make_room(&mut store.files.lock(), 0);
        Ok(store)
    }

    /// The file of a key, if it is there. Blocks.
    pub(crate) fn find(&self, key: Key) -> io::Result<Option<Stored>> {
        if !self.files.lock().use_now(key) {
            return Ok(None);
        }
        let opened = File::open(self.path(key)).and_then(Stored::read);
        match opened {
            Ok(stored) => Ok(Some(stored)),
            Err(error) => {
                // Gone, or damaged: another one takes its place.
                self.remove(key);
                if error.kind() == io::ErrorKind::NotFound {
                    return Ok(None);
                }
                Err(error)
            }
        }
    }

    /// Notes that a registry has said that a file is still what it has. Blocks.
    pub(crate) fn confirm(&self, key: Key) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.path(key))?;
        file.set_modified(SystemTime::now())
    }

    /// Begins a file. Blocks.
    pub(crate) fn draft(self: &Arc<Self>, head: &Head) -> Result<Draft, StoreError> {
        let number = self.drafts.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(INCOMING).join(number.to_string());
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)?;
        let mut draft = Draft {
            store: Arc::clone(self),
            path,
            file,
            offset: 0,
            bytes: 0,
        };
        let head = serde_json::to_vec(head).map_err(io::Error::from)?;
        let length = u32::try_from(head.len()).map_err(io::Error::other)?;
        draft.append(&length.to_le_bytes())?;
        draft.append(&head)?;
        draft.offset = draft.bytes;
        Ok(draft)
    }

    /// Forgets a file. Blocks.
    pub(crate) fn remove(&self, key: Key) {
        let mut files = self.files.lock();
        if files.take(key).is_some() {
            self.unlink(key);
        }
        self.metrics.bytes.set(files.bytes);
    }

    fn path(&self, key: Key) -> PathBuf {
        let name = key.to_string();
        self.directory.join(&name[..2]).join(name)
    }

    /// Lets files go until so many more bytes fit. False if they never do.
    fn make_room(&self, files: &mut Files, more: u64) -> bool {
        while files.bytes.saturating_add(more) > self.limit {
            let Some((_, oldest)) = files.by_use.pop_first() else {
                return false;
            };
            files.take(oldest);
            self.metrics.evicted.add_one();
            self.unlink(oldest);
        }
        self.metrics.bytes.set(files.bytes);
        true
    }

    fn unlink(&self, key: Key) {
        if let Err(error) = fs::remove_file(self.path(key))
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "a file of the mirror's cache is not removed");
        }
    }
}

/// The files of a cache with their sizes, those that were used longest ago first.
fn found(directory: &Path) -> io::Result<Vec<(Key, u64)>> {
    let mut found = Vec::new();
    for shelf in fs::read_dir(directory)? {
        let shelf = shelf?;
        if shelf.file_name() == INCOMING || !shelf.file_type()?.is_dir() {
            continue;
        }
        for entry in fs::read_dir(shelf.path())? {
            let entry = entry?;
            let name = entry.file_name();
            if let Some(key) = name.to_str().and_then(Key::parse) {
                let metadata = entry.metadata()?;
                found.push((metadata.accessed()?, key, metadata.len()));
            }
        }
    }
    found.sort_by_key(|(used, _, _)| *used);
    Ok(found
        .into_iter()
        .map(|(_, key, bytes)| (key, bytes))
        .collect())
}

/// A file cannot be kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// It is larger than the cache may be, together with what comes at the same time.
    #[error("the mirror's cache is too small for it")]
    TooSmall,
    /// The disk does not take it.
    #[error("the mirror's cache cannot be written")]
    Disk(#[from] io::Error),
}

impl Files {
    fn insert(&mut self, key: Key, bytes: u64) {
        self.take(key);
        self.last_use += 1;
        let used = self.last_use;
        self.entries.insert(key, Entry { used, bytes });
        self.by_use.insert(used, key);
        self.bytes += bytes;
    }

    fn take(&mut self, key: Key) -> Option<Entry> {
        let entry = self.entries.remove(&key)?;
        self.by_use.remove(&entry.used);
        self.bytes -= entry.bytes;
        Some(entry)
    }

    fn use_now(&mut self, key: Key) -> bool {
        let taken = self.take(key);
        taken.is_some_and(|entry| {
            self.insert(key, entry.bytes);
            true
        })
    }
}

impl Stored {
    fn read(mut file: File) -> io::Result<Self> {
        let mut length = [0; 4];
        file.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length);
        if length > HEAD_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut head = Vec::new();
        (&file).take(length.into()).read_to_end(&mut head)?;
        let head = serde_json::from_slice(&head)?;
        let metadata = file.metadata()?;
        file.set_times(FileTimes::new().set_accessed(SystemTime::now()))?;
        let offset = u64::from(length) + 4;
        Ok(Self {
            head,
            content: Content { file, offset },
            bytes: metadata.len().saturating_sub(offset),
            // A clock that went back makes it young for a while.
            age: metadata.modified()?.elapsed().unwrap_or_default(),
        })
    }

    /// Its whole content. Blocks.
    pub(crate) fn read_all(&self) -> io::Result<Vec<u8>> {
        self.content.read(0, self.bytes)
    }
}

impl Content {
    /// So many bytes from a position. Blocks.
    pub(crate) fn read(&self, position: u64, bytes: u64) -> io::Result<Vec<u8>> {
        let size = usize::try_from(bytes).map_err(io::Error::other)?;
        let mut content = vec![0; size];
        (self.file).read_exact_at(&mut content, self.offset + position)?;
        Ok(content)
    }
}

impl Draft {
    /// Adds bytes. Blocks.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let count = u64::try_from(bytes.len()).map_err(io::Error::other)?;
        {
            let mut files = self.store.files.lock();
            if !self.store.make_room(&mut files, count) {
                return Err(StoreError::TooSmall);
            }
            files.bytes += count;
        }
        self.bytes += count;
        Ok(self.file.write_all(bytes)?)
    }

    /// Its content, for readers while it is written.
    pub(crate) fn content(&self) -> io::Result<Content> {
        Ok(Content {
            file: self.file.try_clone()?,
            offset: self.offset,
        })
    }

    /// Gives it its name, in place of another one. Blocks until the disk has it, because a name whose
    /// content was lost with the power would be believed.
    pub(crate) fn commit(self, key: Key) -> io::Result<()> {
        self.file.sync_data()?;
        let path = self.store.path(key);
        if let Some(shelf) = path.parent() {
            fs::create_dir_all(shelf)?;
        }
        let mut files = self.store.files.lock();
        fs::rename(&self.path, &path)?;
        // Counted as a draft until this value is dropped.
        files.insert(key, self.bytes);
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        let mut files = self.store.files.lock();
        files.bytes -= self.bytes;
        self.store.metrics.bytes.set(files.bytes);
        drop(files);
        // After a commit there is no such file any more.
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, "an incomplete file of the mirror's cache is not removed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(directory: &Path, limit: u64) -> Arc<Store> {
        let metrics = Arc::default();
        Arc::new(Store::open(directory.to_owned(), limit, metrics).unwrap())
    }

    fn put(store: &Arc<Store>, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let mut draft = store.draft(&Head::default())?;
        draft.append(content)?;
        Ok(draft.commit(Key::of(&[name]))?)
    }

    fn get(store: &Store, name: &str) -> Option<Vec<u8>> {
        let stored = store.find(Key::of(&[name])).unwrap()?;
        Some(stored.read_all().unwrap())
    }

    #[test]
    fn what_was_used_longest_ago_makes_room_and_a_restart_knows_it() {
        let directory = tempfile::tempdir().unwrap();
        let first = store(directory.path(), 3000);
        for name in ["a", "b"] {
            put(&first, name, &[1; 1000]).unwrap();
        }
        assert!(get(&first, "a").is_some());
        put(&first, "c", &[2; 1000]).unwrap();
        assert_eq!(get(&first, "b"), None);
        assert!(get(&first, "a").is_some() && get(&first, "c").is_some());
        let second = store(directory.path(), 1500);
        assert_eq!(get(&second, "a"), None);
        assert_eq!(get(&second, "c"), Some(vec![2; 1000]));
        assert!(matches!(
            put(&second, "d", &[0; 2000]),
            Err(StoreError::TooSmall)
        ));
        assert_eq!(second.files.lock().bytes, 0);
    }

    #[test]
    fn nothing_is_left_of_what_is_not_committed() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path(), 3000);
        let mut draft = store.draft(&Head::default()).unwrap();
        draft.append(b"half of it").unwrap();
        drop(draft);
        assert_eq!(
            fs::read_dir(directory.path().join(INCOMING))
                .unwrap()
                .count(),
            0
        );
        assert_eq!(store.files.lock().bytes, 0);
    }

    #[test]
    fn a_damaged_file_is_forgotten() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(directory.path(), 3000);
        put(&store, "a", b"content").unwrap();
        fs::write(store.path(Key::of(&["a"])), [255; 9]).unwrap();
        store.find(Key::of(&["a"])).unwrap_err();
        assert!(store.find(Key::of(&["a"])).unwrap().is_none());
    }
}
