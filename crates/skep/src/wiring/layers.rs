//! The node's layers: those in the catalog.

use std::path::PathBuf;
use std::sync::Arc;

use skep_image::Catalog;
use skep_node::Layers;
use skep_types::LayerKey;

/// The layers in the catalog of this host.
#[derive(Debug, Clone)]
pub(crate) struct CatalogLayers(pub(crate) Arc<Catalog>);

impl Layers for CatalogLayers {
    fn path(&self, key: LayerKey) -> PathBuf {
        self.0.layer_path(key)
    }
}
