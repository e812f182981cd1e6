//! The configuration of a server: its file, the environment, and the defaults.
//!
//! It knows nothing of the parts that it configures: the binary makes their settings of it.

mod admission;
mod builds;
mod config;
pub mod env_vars;
mod load;
mod mcp;
mod mirror;
mod trace_headers;

pub use admission::Admission;
pub use builds::Builds;
pub use config::{
    Config, Jupyter, Limits, Network, Pause, Pool, Records, Security, Server, Tls, Traces, Vault,
    Webhooks,
};
pub use load::{ConfigError, DEFAULT_PATH};
pub use mcp::Mcp;
pub use mirror::{Mirror, Offline};
pub use trace_headers::TraceHeaders;
