//! The port through which the node uses the agents in its sandboxes.

use std::fmt;
use std::net::IpAddr;

use futures_util::future::BoxFuture;
use skep_agent_protocol::AgentConfig;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// The agents of running sandboxes, as the server speaks to them.
pub trait Agents: fmt::Debug + Send + Sync {
    /// Tells an agent what its sandbox is from now on. Its control token, which stays, is in
    /// the configuration.
    ///
    /// # Errors
    ///
    /// [`ConfigureError`]; what the agent believes then is unknown.
    fn configure<'a>(
        &'a self,
        address: IpAddr,
        config: &'a AgentConfig,
    ) -> BoxFuture<'a, Result<(), ConfigureError>>;

    /// Returns true if the agent at an address answers, within a time in which every one does that
    /// is well.
    fn answers(&self, address: IpAddr) -> BoxFuture<'_, bool>;
}

/// An agent did not take its configuration.
#[derive(Debug, thiserror::Error)]
#[error("agent at {address} did not take its configuration")]
pub struct ConfigureError {
    /// Address that the agent was looked for at.
    pub address: IpAddr,
    /// The error of the call.
    pub source: Source,
}
