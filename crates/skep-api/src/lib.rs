//! The REST edge: the routes that the official clients call, and a few of our own.
//!
//! A handler parses, calls [`Control`](skep_control::Control) and renders. Whatever goes wrong
//! becomes an [`ApiError`](error::ApiError), whose status, code and text are chosen in one
//! place; every answer that is not a success has a JSON body, because clients look inside.

mod authorized;
mod beside;
mod body;
mod cors;
mod egress;
mod error;
mod local_only;
mod metadata_filter;
mod params;
mod render;
mod render_template;
mod render_version;
mod router;
mod routes;
mod sandbox_path;
mod tickets;

pub use beside::LetInCaller;
pub use error::{ApiError, Retry};
pub use router::{Access, HostChecks, Options, Problem, ServerMetrics, router};
pub use routes::events::event_body;
pub use tickets::{Tickets, TooManyTickets};
