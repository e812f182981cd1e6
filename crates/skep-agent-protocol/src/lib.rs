//! The server and an agent between themselves: configuration, forked kernels, and the log. Both ends
//! are ours; no SDK sees any of it, and none of it is HTTP.

pub mod fds;
pub mod fork;
pub mod log;
mod memory_info;

use std::collections::BTreeMap;

pub use memory_info::MemoryInfo;
use serde::{Deserialize, Serialize};

/// Configuration of an agent. It is read as JSON from the descriptor named in its arguments, before
/// it listens, and again as the body of `POST /init`, which replaces all of it but the control
/// token.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentConfig {
    /// Opens the control routes. Known to the server and this agent alone.
    pub control_token: String,
    /// Token that callers must show; `None` opens the agent to whoever reaches it.
    pub access_token: Option<String>,
    /// Token that opens the contexts of its interpreter to callers without the access token.
    pub traffic_token: Option<String>,
    /// The name of the sandbox.
    pub sandbox_id: String,
    /// The id of its template.
    pub template_id: String,
    /// Environment of every process: the template's, then the caller's over it.
    pub env: BTreeMap<String, String>,
    /// Values to mask in the output of code.
    pub secrets: Vec<String>,
    /// User of a command when the caller names none.
    pub default_user: String,
    /// Working directory of a command when the caller names none; `None` is the user's home.
    pub default_workdir: Option<String>,
    /// Certificate, in PEM, of the authority that its programs are to trust beside their own: that of
    /// the egress proxy, if its owner's rules look into requests.
    pub authority: Option<String>,
    /// Memory limit of the sandbox in mebibytes; zero if it is not known.
    pub memory_mib: u32,
}

impl std::fmt::Debug for AgentConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("AgentConfig")
            .field("sandbox_id", &self.sandbox_id)
            .field("template_id", &self.template_id)
            .finish_non_exhaustive()
    }
}
