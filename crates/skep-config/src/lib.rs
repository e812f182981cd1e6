//! The configuration of a server: its file, the environment, and the defaults.
//!
//! It knows nothing of the parts that it configures: the binary makes their settings of it.

mod config;
pub mod env_vars;
mod trace_headers;

pub use config::{
    Admission, Config, ConfigError, DEFAULT_PATH, Limits, Network, Pool, Records, Security, Server,
    Tls, Traces,
};
pub use trace_headers::TraceHeaders;
