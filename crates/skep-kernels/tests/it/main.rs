//! Contexts with kernels that run no process, and with processes that are simple kernels.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers too"
)]

mod bash;
mod contexts;
mod copies;
mod input;
mod interrupts;
mod ipykernel;
mod javascript;
mod limits;
mod processes;
mod questions;
mod secrets;
mod spares;
mod talk;
mod variables;
