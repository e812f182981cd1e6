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

mod admission;
mod api_key;
mod authority;
mod body;
mod buffers;
mod classify;
mod config;
mod connection;
mod control_path;
mod credentials;
mod end_notice;
mod envelope;
mod error_format;
mod exchange;
mod exposition;
mod fake;
mod forward;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hangup;
mod headers;
mod listener;
mod metrics;
mod refusal;
mod reject;
mod request_body;
mod route;
mod serve;
mod shared;
mod signed_url;
mod socket;
mod upgrade;
mod upstream;

pub use classify::{Destination, Misaddressed, NamedBy, Target, classify};
pub use config::ProxyConfig;
pub use fake::FakeRoutes;
pub use hangup::{CANCEL_PATH, REQUEST_HEADER};
pub use listener::{Listener, Proxy};
pub use metrics::{Counter, Durations, Gauge, Metrics};
pub use request_body::RequestBody;
pub use route::{Route, Routes};

/// The port of the code interpreter.
pub const INTERPRETER_PORT: u16 = 49999;
