//! Adapters between the parts: each fills the port of one part with another.

mod header_values;
mod images;
mod journal;
mod layers;
mod nodes;
#[cfg(test)]
mod races;
mod routes;
mod templates;
mod volumes;

pub(crate) use header_values::ControlHeaderValues;
pub(crate) use images::RegistryImages;
pub(crate) use journal::ReportJournal;
pub(crate) use layers::CatalogLayers;
pub(crate) use nodes::LocalNodes;
pub(crate) use routes::NodeRoutes;
pub(crate) use templates::CatalogTemplates;
pub(crate) use volumes::HostVolumes;
