//! Logs, spans and tracked tasks.

mod chain;
mod tasks;

pub use chain::Chain;
pub use tasks::{Tasks, spawn};
