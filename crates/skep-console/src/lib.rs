//! The web console: pages that are part of the executable, and the two WebSockets that they use.
//!
//! The pages are one more client of the API. There are no cookies: a page keeps an API key for as
//! long as its tab is open, and shows it with every request. What sandboxes say is never markup in
//! a page; HTML that code produces is shown by `/console/frame`, in an origin of its own that
//! reaches nothing.

mod assets;
mod events;
mod pages;
mod seats;
mod socket;
mod terminal;

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use skep_client::Client;

pub use pages::pages;

use seats::Seats;

/// The owner of a page, as the wiring has recognised them: put among the extensions of a request.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// A client of the API that acts as they may.
    pub client: Client,
    /// Their team.
    pub team: String,
}

/// The sockets of the pages, for callers who were let in and are told by a [`Visitor`].
pub fn sockets() -> Router {
    Router::new()
        .route("/skep/console/events", get(events::follow))
        .route("/skep/console/sandboxes/{id}/terminal", get(terminal::open))
        .with_state(Arc::new(Seats::default()))
}
