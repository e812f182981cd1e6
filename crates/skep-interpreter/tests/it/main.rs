//! The interpreter as its callers see it: over HTTP, with kernels that run no process.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod caller;
mod contexts;
mod copies;
mod execute;
mod input;
mod notebook;
mod options;
mod questions;
mod refusals;
