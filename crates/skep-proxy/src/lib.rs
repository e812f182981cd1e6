//! The proxy edge: one port, by host name and by headers.
//!
//! [`Proxy`] accepts connections, [`classify`] says whom each request is for, and what is for a
//! sandbox is passed on as a stream in both directions. Two things here are not what a common
//! proxy does, and the SDKs depend on both:
//!
//! - When a sandbox ends, whoever waits for it is cut off with a reset (TCP for HTTP/1.1, the
//!   stream for HTTP/2), never with an orderly end that could be taken for a complete answer.
//! - When a client leaves, the sandbox is told at once; see `hangup`.
//!
//! A stream may be silent or slow for as long as it likes: it ends with its sandbox, with its
//! client, or with the server.

mod buffers;
mod client;
mod config;
mod fake;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod metrics;
mod proxy;
mod refusal;
mod request;
mod reset_on_close;
mod routing;
mod shared;
mod upstream;

pub use client::listener::Listener;
pub use config::{DemandTokens, ProxyConfig};
pub use fake::FakeRoutes;
pub use metrics::Metrics;
pub use proxy::Proxy;
pub use request::request_body::RequestBody;
pub use routing::classify::{Destination, Misaddressed, NamedBy, Target, classify};
pub use routing::route::{Accepts, Route, Routes, WakeError};
