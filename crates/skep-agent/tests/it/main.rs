//! The agent as its callers see it: over HTTP, on a loopback port of its own.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod agent;
mod astray;
mod connect;
mod files;
mod filesystem;
mod first_process;
mod handle;
mod process;
mod routes;
