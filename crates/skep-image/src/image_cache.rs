//! Images that were found in the catalog, remembered while it does not change.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use skep_types::TemplateImage;

/// The images of a catalog that were asked for.
///
/// Looking one up in the catalog reads files. Here it costs one look at the directory of the
/// manifests: what was found is remembered for as long as that does not change.
#[derive(Debug)]
pub struct ImageCache {
    manifests: PathBuf,
    /// Held only for a look-up or a change.
    remembered: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    as_of: Option<CatalogVersion>,
    images: HashMap<String, TemplateImage>,
}

/// A state of the directory of manifests: a template that is built or removed makes another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogVersion {
    inode: u64,
    changed: SystemTime,
}

impl CatalogVersion {
    /// Two changes within one tick of the filesystem's clock look like one. A state is only
    /// believed to be the last of its time when that time is over for long.
    const SETTLED: Duration = Duration::from_millis(500);

    fn of(directory: &Path) -> Option<Self> {
        let metadata = directory.metadata().ok()?;
        let changed = metadata.modified().ok()?;
        let settled = changed.elapsed().is_ok_and(|age| age > Self::SETTLED);
        settled.then(|| Self {
            inode: metadata.ino(),
            changed,
        })
    }
}

impl ImageCache {
    /// An empty cache for the catalog in `cache_dir`.
    pub fn new(cache_dir: &Path) -> Self {
        Self {
            manifests: cache_dir.join("images"),
            remembered: Mutex::default(),
        }
    }

    /// The state of the catalog now; `None` while it changes.
    pub fn version(&self) -> Option<CatalogVersion> {
        CatalogVersion::of(&self.manifests)
    }

    /// The image of this name or id in that state of the catalog, if it is remembered.
    pub fn find(&self, version: CatalogVersion, name: &str) -> Option<TemplateImage> {
        let remembered = self.remembered.lock();
        let is_same = remembered.as_of == Some(version);
        is_same.then(|| remembered.images.get(name).cloned())?
    }

    /// Remembers an image that was found in that state of the catalog, and forgets those of others.
    pub fn insert(&self, version: CatalogVersion, name: String, image: TemplateImage) {
        let mut remembered = self.remembered.lock();
        if remembered.as_of != Some(version) {
            remembered.as_of = Some(version);
            remembered.images.clear();
        }
        remembered.images.insert(name, image);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_directory_that_has_just_changed_has_no_version_yet_and_then_another_one() {
        let directory = tempfile::tempdir().unwrap();
        let long_ago = SystemTime::now() - Duration::from_secs(60);
        let set = |time| {
            let directory = fs::File::open(directory.path()).unwrap();
            directory.set_modified(time).unwrap();
        };
        set(long_ago);
        let before = CatalogVersion::of(directory.path());
        assert!(before.is_some());
        assert_eq!(CatalogVersion::of(directory.path()), before);
        fs::write(directory.path().join("new.json"), "").unwrap();
        assert_eq!(CatalogVersion::of(directory.path()), None);
        set(long_ago + Duration::from_secs(1));
        assert_ne!(CatalogVersion::of(directory.path()), before);
    }
}
