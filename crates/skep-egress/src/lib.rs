//! The egress proxy: sandboxes that may reach only hosts that their owners name.
//!
//! Each such sandbox has a process of its own, which reads what the sandbox sends: the first bytes
//! of TLS, or requests of HTTP. It is confined to that ([`run`]); it cannot connect to anything. For
//! every connection it tells the server the name that it has read, and the server judges the
//! name, resolves it, connects, and hands the connected socket over ([`Proxy`]).
//! [ADR 0028](../../../docs/adr/0028-a-proxy-for-each-sandbox.md) tells why.

mod channel;
mod client_hello;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod header_values;
mod headers;
mod inspection;
mod message;
mod pipe;
mod process;
mod sender;
mod server;

pub use header_values::{FillError, HeaderValues};
pub use inspection::{Edge, Inspection};
pub use process::{EGRESS_PROXY, run};
pub use server::{Gate, Lookup, Program, Proxy, RequestLog, Seat};
