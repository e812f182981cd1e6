//! Layers that are made outside of this crate, such as those of images from a registry.

use std::path::PathBuf;

use crate::catalog::Catalog;
use crate::key::ContentKey;
use crate::store::{Draft, LayerRecord, Lock, LockOutcome, Store, StoreError};

/// A layer that somebody makes, and that nobody else makes meanwhile. Dropped before
/// [`LayerDraft::commit`], it disappears.
#[derive(Debug)]
pub struct LayerDraft {
    // Before the lock, so that the files are gone when the next one begins.
    draft: Draft,
    store: Store,
    _lock: Lock,
}

/// State of a layer that somebody wants to make.
#[derive(Debug)]
pub enum LayerStart {
    /// It is there already.
    Made(LayerRecord),
    /// Somebody else makes it; ask again later.
    Busy,
    /// It is the caller's to make.
    Draft(LayerDraft),
}

impl Catalog {
    /// Starts a layer, unless it is there or somebody else makes it.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if the store cannot be read or written.
    pub fn start_layer(&self, key: &ContentKey) -> Result<LayerStart, StoreError> {
        let store = self.store();
        if let Some(record) = store.use_layer(key)? {
            return Ok(LayerStart::Made(record));
        }
        let LockOutcome::Held(lock) = store.try_lock(key)? else {
            return Ok(LayerStart::Busy);
        };
        // It may have been finished between the look and the lock.
        if let Some(record) = store.use_layer(key)? {
            return Ok(LayerStart::Made(record));
        }
        Ok(LayerStart::Draft(LayerDraft {
            draft: store.draft(key)?,
            store: store.clone(),
            _lock: lock,
        }))
    }
}

impl LayerDraft {
    /// Directory into which the files of the layer are put.
    pub fn root(&self) -> PathBuf {
        self.draft.root()
    }

    /// Directory for what the layer does not keep.
    pub fn scratch(&self) -> PathBuf {
        self.draft.scratch()
    }

    /// Completes the layer: from here on everybody finds it.
    ///
    /// # Errors
    ///
    /// [`StoreError`]; there is no such layer then.
    pub fn commit(self, title: &str) -> Result<LayerRecord, StoreError> {
        self.store.commit(self.draft, title)
    }
}
