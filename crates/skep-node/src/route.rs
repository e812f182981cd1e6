//! Routes from the edge to running sandboxes.

use std::net::IpAddr;
use std::sync::Arc;

use skep_types::{AccessToken, ExecutionId, Ingress, Redacted, SandboxId};
use tokio_util::sync::CancellationToken;

/// Everything the proxy needs to reach one execution of a sandbox.
#[derive(Debug, Clone)]
pub struct NodeRoute {
    /// Id of the sandbox.
    pub id: SandboxId,
    /// The run of it that `address` belongs to.
    pub execution: ExecutionId,
    /// Address at which its agent and its services listen.
    pub address: IpAddr,
    /// Token that callers of the agent must show.
    pub access_token: Option<AccessToken>,
    /// True if callers from outside need not show it.
    pub is_open: bool,
    /// Rule for requests to its ports.
    pub ingress: Arc<Ingress>,
    /// Token that opens the agent's control routes.
    pub control_token: Redacted<String>,
    /// Cancelled the moment this execution is over, before it is cleaned up.
    pub ended: CancellationToken,
}
