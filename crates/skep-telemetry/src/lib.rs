//! Logs, spans, metrics and tracked tasks.

mod chain;
mod log_limit;
pub mod logging;
mod metrics;
mod tasks;
pub mod trace;

pub use chain::Chain;
pub use log_limit::LogLimit;
pub use metrics::{Counter, Durations, Exposition, Gauge, Metric};
pub use tasks::{Tasks, spawn};
