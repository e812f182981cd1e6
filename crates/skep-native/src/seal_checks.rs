//! Comparisons of images with their seals: one for all who restore an image at the same time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use skep_checkpoint::{SealCheck, Sealed};

/// Comparisons that are under way, by the directories of the processes. Ten copies of a sandbox are ten
/// restores of one image, and to hash it takes as long as to restore it.
#[derive(Debug, Default)]
pub(crate) struct SealChecks {
    /// Held only for a look-up or a change.
    under_way: Mutex<HashMap<PathBuf, Weak<SealCheck>>>,
}

impl SealChecks {
    /// The comparison of an image that somebody is restoring, or a new one. It is over when nobody
    /// has it any more: who comes later looks at the image anew.
    pub(crate) fn of(&self, files: &Path, sealed: &Sealed) -> Arc<SealCheck> {
        let mut under_way = self.under_way.lock();
        under_way.retain(|_, check| check.strong_count() > 0);
        if let Some(check) = under_way.get(files).and_then(Weak::upgrade) {
            return check;
        }
        let check = Arc::new(SealCheck::new(files.to_owned(), sealed.clone()));
        under_way.insert(files.to_owned(), Arc::downgrade(&check));
        check
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_at_the_same_time_share_a_comparison() {
        let checks = SealChecks::default();
        let new = || checks.of(Path::new("/memory-0"), &Sealed::default());
        let first = new();
        assert!(Arc::ptr_eq(&first, &new()));
        let other = checks.of(Path::new("/memory-1"), &Sealed::default());
        assert!(!Arc::ptr_eq(&first, &other));
        drop(first);
        assert_eq!(Arc::strong_count(&new()), 1);
    }
}
