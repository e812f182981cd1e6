//! The server's side of the conversation with agents.
//!
//! The node tells an agent whose sandbox it is in, the backend asks it to stand still for an image,
//! and a build runs its steps through one: each defines what it needs as a trait and knows no HTTP.
//! Here those traits are filled.

mod build_downloads;
mod build_sandboxes;
mod commands;
mod http_agents;

pub use build_sandboxes::BuildSandboxes;
pub use http_agents::HttpAgents;
