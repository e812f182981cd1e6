//! The proxy edge: one port, by host name and by headers.
//!
//! [`Front`] accepts connections, [`classify`] says whom each request is for, and what is for a
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
mod audience;
mod authority;
mod body;
mod buffers;
mod certificates;
mod classify;
mod config;
mod connection;
mod control_path;
mod credentials;
mod envelope;
mod exchange;
mod fake;
mod forward;
mod front;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod hangup;
mod headers;
mod last_words;
mod local_ca;
mod metrics;
mod names;
mod refusal;
mod request_body;
mod route;
mod serve;
mod shared;
mod signed_url;
mod socket;
mod switch;
mod turn_away;
mod upstream;

pub use certificates::{CertificateError, CertificateSource, Certificates};
pub use classify::{Destination, Misaddressed, NamedBy, Target, classify};
pub use config::FrontConfig;
pub use fake::FakeRoutes;
pub use front::{Front, Listener};
pub use hangup::{CANCEL_PATH, REQUEST_HEADER};
pub use local_ca::{LocalCa, LocalCaError};
pub use metrics::{Counter, Durations, Gauge, Metrics};
pub use names::{Names, NamesError};
pub use request_body::RequestBody;
pub use route::{HostMask, HostMaskError, Route, Routes};

/// The port of the code interpreter.
pub const INTERPRETER_PORT: u16 = 49999;
