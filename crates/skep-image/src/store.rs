//! The store of layers, which a layer enters whole or not at all.
//!
//! ```text
//! layers/<key>/root       the files of a layer
//! layers/<key>/layer.json what is known about it
//! building/<key>.<random> a layer that is being made; nobody reads it
//! locks/<key>             held by whoever makes that layer
//! logs/<key>.log          what the last attempt to make it printed
//! images/<name>.json      which layers a template consists of
//! steps/<key>.json        the result of a step of somebody's build
//! ```
//!
//! What callers build is in a store of its own, which lies above the one of the built-in templates.
//!
//! A layer is made in `building/` and renamed into `layers/` when it is complete and on disk.
//! A crash leaves something in `building/` that the next build removes.

mod collect;
mod lock;
mod seal;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use skep_telemetry::Chain;
use skep_types::{LayerKey, random_bytes};

use crate::key::ContentKey;

pub use collect::Collected;
pub(crate) use lock::{Lock, LockOutcome};

/// Failure to read or change the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The filesystem refused. The store is as it was before, apart from things in `building/`
    /// that the next build removes.
    #[error("cannot {action} `{}`", path.display())]
    Files {
        /// The operation that was tried, as a verb.
        action: &'static str,
        /// File or directory of the operation.
        path: PathBuf,
        /// The filesystem's reason.
        source: io::Error,
    },
    /// A file of the store does not contain what it should. Removing it and building again
    /// helps.
    #[error("`{}` is damaged", path.display())]
    Damaged {
        /// The damaged file.
        path: PathBuf,
        /// The error of the parser.
        source: serde_json::Error,
    },
    /// Something is mounted in a directory that is to be deleted, and deleting would go on in
    /// what is mounted there. Unmounting it by hand helps.
    #[error("`{}` is not deleted because `{}` is mounted in it", path.display(), mount.display())]
    Mounted {
        /// The directory that is not deleted.
        path: PathBuf,
        /// The mount point inside it.
        mount: PathBuf,
    },
    /// The layer uses an overlay feature that a sandbox's mount would not understand.
    #[error("the layer's `{}` is a redirect of the overlay filesystem", path.display())]
    Redirect {
        /// The redirected directory.
        path: PathBuf,
    },
}

impl StoreError {
    pub(crate) fn files(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Files {
            action,
            path,
            source,
        }
    }
}

/// Metadata of a finished layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRecord {
    /// Title of the step that made it.
    pub title: String,
    /// Size of the layer on disk.
    pub bytes: u64,
}

/// A directory with layers in it.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    dir: PathBuf,
    /// Held for a look at something that is to be used, and for taking something away that is not.
    uses: Arc<Mutex<()>>,
}

/// A layer that is being made. Dropped before [`Draft::commit`], it disappears.
#[derive(Debug)]
pub(crate) struct Draft {
    dir: PathBuf,
    key: ContentKey,
}

impl Store {
    /// Opens the store in `dir`, which is made if it is not there.
    pub(crate) fn open(dir: &Path) -> Result<Self, StoreError> {
        for name in ["layers", "building", "locks", "logs", "images", "steps"] {
            let path = dir.join(name);
            // Layers hold programs that run as root whoever starts them, and drafts may hold
            // passwords of a mirror: nobody else has business here.
            make_dir(&path, 0o700)?;
        }
        let dir = fs::canonicalize(dir).map_err(StoreError::files("open", dir))?;
        Ok(Self {
            dir,
            uses: Arc::default(),
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Directory of a layer's files, whether it exists yet or not.
    pub(crate) fn layer_root(&self, key: &LayerKey) -> PathBuf {
        self.dir.join("layers").join(key.to_string()).join("root")
    }

    /// Metadata of a layer; `None` if it has not been made.
    pub(crate) fn layer(&self, key: &ContentKey) -> Result<Option<LayerRecord>, StoreError> {
        let path = self.layer_record(key);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(StoreError::files("read", path)(error)),
        };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|source| StoreError::Damaged { path, source })
    }

    /// Notes that a file of the store is used now, which keeps it from being collected. One that is
    /// gone stays so.
    pub(crate) fn touch(&self, path: &Path) -> Result<(), StoreError> {
        let now = SystemTime::now();
        let touched = fs::File::options()
            .write(true)
            .open(path)
            .and_then(|file| file.set_modified(now));
        match touched {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::files("date", path)(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Metadata of a layer that is used from now on; `None` if it has not been made.
    pub(crate) fn use_layer(&self, key: &ContentKey) -> Result<Option<LayerRecord>, StoreError> {
        let _nothing_goes = self.uses.lock();
        self.touch(&self.layer_record(key))?;
        self.layer(key)
    }

    /// Calls `look` while nothing is collected.
    pub(crate) fn while_nothing_goes<T>(&self, look: impl FnOnce() -> T) -> T {
        let _nothing_goes = self.uses.lock();
        look()
    }

    pub(crate) fn layer_record(&self, key: &ContentKey) -> PathBuf {
        let directory = self.dir.join("layers").join(key.to_string());
        directory.join("layer.json")
    }

    /// File for the output of a step.
    pub(crate) fn log_path(&self, key: &ContentKey) -> PathBuf {
        self.dir.join("logs").join(format!("{key}.log"))
    }

    /// Starts a layer. The caller holds the lock of its key.
    pub(crate) fn draft(&self, key: &ContentKey) -> Result<Draft, StoreError> {
        // A name of its own: a process of a build that was killed may still write to its
        // draft while it dies.
        let name = format!("{key}.{}", hex::encode(random_bytes::<4>()));
        let dir = self.dir.join("building").join(name);
        let draft = Draft { dir, key: *key };
        for name in ["root", "work", "scratch"] {
            // The root of the highest layer is the root of the sandbox, so its mode must not
            // depend on the mask that the server was started with.
            make_dir(&draft.dir.join(name), 0o755)?;
        }
        Ok(draft)
    }

    /// Completes a layer: from here on every build finds it.
    pub(crate) fn commit(&self, draft: Draft, title: &str) -> Result<LayerRecord, StoreError> {
        let bytes = seal::seal(&draft.root())?;
        for name in ["work", "scratch"] {
            remove_tree(&draft.dir.join(name))?;
        }
        let record = LayerRecord {
            title: title.to_owned(),
            bytes,
        };
        let path = draft.dir.join("layer.json");
        let text = serde_json::to_vec_pretty(&record).expect("a record of a text and a number");
        fs::write(&path, text).map_err(StoreError::files("write", &path))?;
        // The rename must not reach the disk before the files do, or a power cut would leave a
        // layer that looks complete.
        let directory =
            fs::File::open(&draft.dir).map_err(StoreError::files("open", &draft.dir))?;
        rustix::fs::syncfs(&directory)
            .map_err(|error| StoreError::files("write to disk", &draft.dir)(error.into()))?;
        let target = self.dir.join("layers").join(draft.key.to_string());
        fs::rename(&draft.dir, &target).map_err(StoreError::files("put in place", &target))?;
        Ok(record)
    }

    /// Removes drafts whose builder is gone.
    pub(crate) fn sweep(&self) -> Result<(), StoreError> {
        for name in self.names_in("building")? {
            let Some(key) = name.split('.').next().and_then(|key| key.parse().ok()) else {
                continue;
            };
            // Whoever makes this layer holds its lock, so nobody does.
            if let LockOutcome::Held(_lock) = self.try_lock(&key)? {
                let path = self.dir.join("building").join(&name);
                if let Err(error) = remove_tree(&path) {
                    tracing::warn!(error = %Chain(&error), "unfinished layer could not be removed");
                }
            }
        }
        Ok(())
    }

    /// Takes the right to make a layer, if nobody has it.
    pub(crate) fn try_lock(&self, key: &ContentKey) -> Result<LockOutcome, StoreError> {
        Lock::try_exclusive(&self.dir.join("locks").join(key.to_string()))
    }

    /// Takes the right to make a layer, and waits while somebody has it. For layers that take
    /// no time to make.
    pub(crate) fn lock(&self, key: &ContentKey) -> Result<Lock, StoreError> {
        Lock::exclusive(&self.dir.join("locks").join(key.to_string()))
    }

    /// Replaces a file of the store in one move.
    pub(crate) fn replace_file(&self, path: &Path, content: &[u8]) -> Result<(), StoreError> {
        use io::Write as _;

        // Two builders may be threads of one process.
        static DRAFTS: AtomicU64 = AtomicU64::new(0);
        let number = DRAFTS.fetch_add(1, Ordering::Relaxed);
        let draft = path.with_extension(format!("{}.{number}.new", std::process::id()));
        let mut file = fs::File::create(&draft).map_err(StoreError::files("create", &draft))?;
        file.write_all(content)
            .and_then(|()| file.sync_all())
            .map_err(StoreError::files("write", &draft))?;
        fs::rename(&draft, path).map_err(StoreError::files("put in place", path))
    }

    pub(crate) fn names_in(&self, directory: &str) -> Result<Vec<String>, StoreError> {
        let path = self.dir.join(directory);
        let mut names = Vec::new();
        for entry in fs::read_dir(&path).map_err(StoreError::files("list", &path))? {
            let entry = entry.map_err(StoreError::files("list", &path))?;
            // Names that are not text are not ours.
            names.extend(entry.file_name().into_string().ok());
        }
        names.sort();
        Ok(names)
    }
}

impl Draft {
    /// Directory into which the files of the layer are put.
    pub(crate) fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// The overlay's working directory.
    pub(crate) fn work(&self) -> PathBuf {
        self.dir.join("work")
    }

    /// A place for what the step needs but the layer does not keep.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.dir.join("scratch")
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a commit there is nothing left under this name.
        if let Err(error) = remove_tree(&self.dir) {
            tracing::warn!(error = %Chain(&error), "unfinished layer could not be removed");
        }
    }
}

fn make_dir(path: &Path, mode: u32) -> Result<(), StoreError> {
    fs::create_dir_all(path)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(StoreError::files("make", path))
}

fn remove_tree(path: &Path) -> Result<(), StoreError> {
    // Steps and bootstraps mount in namespaces of their own. Should one ever not, what it
    // mounted may be the host's `/dev`.
    if let Some(mount) = mounts()?.into_iter().find(|mount| mount.starts_with(path)) {
        return Err(StoreError::Mounted {
            path: path.to_owned(),
            mount,
        });
    }
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::files("remove", path)(error)),
    }
}

/// Mount points of this host.
fn mounts() -> Result<Vec<PathBuf>, StoreError> {
    let table = "/proc/self/mountinfo";
    let text = fs::read_to_string(table).map_err(StoreError::files("read", table))?;
    let points = text.lines().filter_map(|line| line.split(' ').nth(4));
    Ok(points
        .map(|point| PathBuf::from(point.replace("\\040", " ")))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_threads_replace_a_file_and_each_time_it_is_the_whole_of_one() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let path = store.path("images").join("small.json");
        let contents = [vec![b'a'; 20_000], vec![b'b'; 10_000]];
        std::thread::scope(|scope| {
            for content in &contents {
                scope.spawn(|| {
                    for _ in 0..20 {
                        store.replace_file(&path, content).unwrap();
                        let found = fs::read(&path).unwrap();
                        assert!(contents.contains(&found), "{} bytes", found.len());
                    }
                });
            }
        });
        assert_eq!(store.names_in("images").unwrap(), ["small.json"]);
    }

    #[test]
    fn nothing_is_deleted_through_a_mount() {
        let refused = remove_tree(Path::new("/proc"));
        assert!(
            matches!(&refused, Err(StoreError::Mounted { mount, .. }) if mount == Path::new("/proc")),
            "{refused:?}"
        );
    }
}
