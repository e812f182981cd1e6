//! The agent inside a sandbox: processes and files, for the callers of its API.
//!
//! The agent is the first process of a sandbox. It speaks the contract that the SDKs know as
//! `envd`: two RPC services over Connect (`process`, `filesystem`) and some plain HTTP routes
//! (`files`, `routes`), on one port over HTTP/1.1 and cleartext HTTP/2.
//!
//! Both sides are hostile. Code in the sandbox may turn any path into a link, a pipe or a
//! device, hold any descriptor open, and call the agent itself; callers may send anything and
//! read as slowly as they like. What the agent must keep is that it goes on answering, that
//! one stream does not starve another, and that its memory stays small.

mod agent;
mod authorize;
mod caller;
mod control;
mod encoding;
mod exit_status;
mod files;
mod filesystem;
mod fork_client;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod handle;
mod identifier;
mod log;
mod metrics;
mod options;
mod path;
mod pipe_end;
mod process;
mod reaper;
mod rest_error;
mod rootfs;
mod routes;
mod rpc;
mod run;
mod serve;
mod settings;
mod signature;
mod tunnel;
mod users;

pub use handle::{AgentHandle, SideService};
pub use options::{Listen, Options};
pub use reaper::Orphans;
pub use run::{RunError, run};

/// The version of the contract that this agent fulfils, for the SDKs' version gates.
pub const ENVD_VERSION: &str = "0.6.13";
