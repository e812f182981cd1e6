//! How the parts are put together: each adapter fills the port of one part with another.

mod journal;
mod nodes;
mod routes;
mod templates;

pub(crate) use journal::StoreJournal;
pub(crate) use nodes::LocalNodes;
pub(crate) use routes::NodeRoutes;
pub(crate) use templates::CatalogTemplates;
