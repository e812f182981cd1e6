//! Images of registries, as layers of ours.

use crate::LayerKey;

/// An image of a registry whose layers are in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulledImage {
    /// Digest of its manifest, such as `sha256:…`.
    pub digest: String,
    /// Its layers, the lowest first.
    pub layers: Vec<LayerKey>,
    /// Variables of its configuration, in their order.
    pub environment: Vec<(String, String)>,
}
