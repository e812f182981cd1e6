//! Routes to running sandboxes.

use std::net::IpAddr;
use std::sync::Arc;

use crate::{AccessToken, ExecutionId, Ingress, Redacted, SandboxId};

/// Everything that is needed to reach one execution of a sandbox.
///
/// `E` is the signal of its end. The runtime that publishes the route chooses it, because there is none here.
#[derive(Debug, Clone)]
pub struct Route<E> {
    /// The sandbox's id, as in host names and headers.
    pub id: SandboxId,
    /// The execution that `address` belongs to; connections are kept for one execution only.
    pub execution: ExecutionId,
    /// Address of the sandbox; the agent and the services of the user listen there.
    pub address: IpAddr,
    /// Token that opens its agent, if it has one.
    pub access_token: Option<AccessToken>,
    /// True if its owner asked for an agent that demands no token, as clients of the first
    /// generation do by saying nothing; the proxy's configuration may demand one all the same.
    pub is_open: bool,
    /// Rule for requests to its ports.
    pub ingress: Arc<Ingress>,
    /// Opens the agent's control routes, for the tunnel to services on the sandbox's loopback.
    pub control_token: Redacted<String>,
    /// Fires when this execution ends. It must fire before `address` is given to another sandbox:
    /// a connection that was made too late is recognised by it.
    pub ended: E,
}
