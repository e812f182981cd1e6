//! The agent inside a sandbox: processes and files, for the callers of its API.
//!
//! The agent is the first process of a sandbox. It speaks the contract that the SDKs know as
//! `envd`: two RPC services over Connect (`process`, `filesystem`) and some plain HTTP routes
//! (`http`), on one port over HTTP/1.1 and cleartext HTTP/2. Every path of a caller is opened by
//! `rootfs`.
//!
//! Both sides are hostile. Code in the sandbox may turn any path into a link, a pipe or a
//! device, hold any descriptor open, and call the agent itself; callers may send anything and
//! read as slowly as they like. What the agent must keep is that it goes on answering, that
//! one stream does not starve another, and that its memory stays small.

mod agent;
mod filesystem;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod handle;
mod http;
mod options;
mod process;
mod rootfs;
mod run;
mod sandbox;

pub use handle::{AgentHandle, SideService};
pub use options::{Listen, MissingFd, Options};
pub use process::reaper::Orphans;
pub use run::{RunError, run};
