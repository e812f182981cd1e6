//! The port through which the node uses the agents in its sandboxes.

use std::fmt;
use std::net::IpAddr;

use futures_util::future::BoxFuture;
use skep_agent_protocol::AgentConfig;
use skep_types::TemplateStart;

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

    /// Has programs of a sandbox trust an authority, in PEM, beside their own.
    ///
    /// # Errors
    ///
    /// [`ConfigureError`]; some programs may trust it and others not.
    fn trust<'a>(
        &'a self,
        address: IpAddr,
        control_token: &'a str,
        authority: &'a str,
    ) -> BoxFuture<'a, Result<(), ConfigureError>>;

    /// Starts what a template starts in each of its sandboxes, and waits until it is ready. The
    /// configuration is that of the agent.
    ///
    /// # Errors
    ///
    /// [`StartCommandError`]; what was started may run.
    fn start<'a>(
        &'a self,
        address: IpAddr,
        config: &'a AgentConfig,
        start: &'a TemplateStart,
    ) -> BoxFuture<'a, Result<(), StartCommandError>>;

    /// Returns true if the agent at an address answers, within a time in which every one does that
    /// is well.
    fn answers(&self, address: IpAddr) -> BoxFuture<'_, bool>;
}

/// A template's start command failed, or its sandbox did not become ready in time.
#[derive(Debug, thiserror::Error)]
#[error("the start command of the template did not make its sandbox ready")]
pub struct StartCommandError(#[source] pub Source);

/// An agent did not take its configuration.
#[derive(Debug, thiserror::Error)]
#[error("agent at {address} did not take its configuration")]
pub struct ConfigureError {
    /// Address that the agent was looked for at.
    pub address: IpAddr,
    /// The error of the call.
    pub source: Source,
}
