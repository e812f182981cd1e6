//! Adapters between the parts: each fills the port of one part with another.

mod agents;
mod journal;
mod layers;
mod nodes;
mod routes;
mod templates;

pub(crate) use agents::HttpAgents;
pub(crate) use journal::ReportJournal;
pub(crate) use layers::CatalogLayers;
pub(crate) use nodes::LocalNodes;
pub(crate) use routes::NodeRoutes;
pub(crate) use templates::CatalogTemplates;
