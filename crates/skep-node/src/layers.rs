//! The node's source of layers.

use std::fmt;
use std::path::PathBuf;

use skep_types::LayerKey;

/// The layers of templates on this host. What crosses from elsewhere to a node are keys.
pub trait Layers: fmt::Debug + Send + Sync + 'static {
    /// Directory of a layer's files. Whether it is there is found out by whoever mounts it.
    fn path(&self, key: LayerKey) -> PathBuf;
}

impl dyn Layers {
    /// Directories of several layers, in the same order.
    pub(crate) fn paths(&self, keys: &[LayerKey]) -> Vec<PathBuf> {
        keys.iter().map(|key| self.path(*key)).collect()
    }
}
