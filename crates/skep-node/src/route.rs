//! How the edge reaches a running sandbox.

use std::net::IpAddr;

use skep_types::{AccessToken, ExecutionId, Redacted, SandboxId};
use tokio_util::sync::CancellationToken;

/// Everything the proxy needs to reach one execution of a sandbox.
#[derive(Debug, Clone)]
pub struct NodeRoute {
    /// The sandbox.
    pub id: SandboxId,
    /// The run of it that `address` belongs to.
    pub execution: ExecutionId,
    /// Where its agent and its services listen.
    pub address: IpAddr,
    /// What callers of the agent must show.
    pub access_token: Option<AccessToken>,
    /// What opens the agent's control routes.
    pub control_token: Redacted<String>,
    /// Cancelled the moment this execution is over, before it is cleaned up.
    pub ended: CancellationToken,
}
