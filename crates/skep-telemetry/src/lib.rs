//! Logs, spans, metrics and tracked tasks.

mod chain;
mod metrics;
mod tasks;
pub mod trace;

pub use chain::Chain;
pub use metrics::{Counter, Durations, Exposition, Gauge};
pub use tasks::{Tasks, spawn};
