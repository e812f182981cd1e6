//! Routes to sandboxes: the port of the proxy that a node fills.

use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use skep_types::{AccessToken, ExecutionId, Ingress, Redacted, SandboxId, Sleeper};
use tokio_util::sync::CancellationToken;

/// Verdict of a caller about the access token of a sandbox.
pub type Accepts<'a> = &'a (dyn Fn(&AccessToken) -> bool + Send + Sync);

/// The sandboxes that can be reached now.
///
/// They are asked once per request, on a runtime thread. What is known in this process is there
/// when a future is first polled; a sandbox of another node may have to be asked for elsewhere.
pub trait Routes: Send + Sync + 'static {
    /// The running sandbox of this name.
    fn find<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<Arc<Route>>>;

    /// The running sandbox whose access token is `token`, compared in constant time.
    fn find_by_token<'a>(&'a self, token: &'a str) -> BoxFuture<'a, Option<Arc<Route>>>;

    /// Reason for which a sandbox cannot be reached that ended lately, or is paused, in words, if `accepts` says yes to its access token:
    /// nobody else learns that it ever was.
    fn departure<'a>(
        &'a self,
        id: &'a SandboxId,
        accepts: Accepts<'a>,
    ) -> BoxFuture<'a, Option<String>>;

    /// The first running sandbox whose access token `accepts` says yes to.
    ///
    /// The caller pays one comparison or hash for each token, so an implementation may give up
    /// after a few thousand.
    fn find_by_signature<'a>(&'a self, accepts: Accepts<'a>) -> BoxFuture<'a, Option<Arc<Route>>>;

    /// The paused sandbox of this name, if requests to it let it go on.
    fn sleeper<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<Sleeper>>;

    /// The first such sandbox whose access token `accepts` says yes to.
    fn find_sleeper<'a>(&'a self, accepts: Accepts<'a>) -> BoxFuture<'a, Option<Sleeper>>;

    /// Lets a paused sandbox go on and returns when it can be reached. Who may ask for that has
    /// been decided.
    fn wake(&self, id: SandboxId) -> BoxFuture<'_, Result<Arc<Route>, WakeError>>;
}

/// Failure to let a paused sandbox go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WakeError {
    /// There is none any more, or it is not one that goes on by itself.
    NotFound,
    /// Its team runs as many as it may.
    LimitReached,
    /// It does not settle.
    Changing,
    /// The host did not let it.
    Failed,
}

/// One run of a sandbox, as the proxy sees it.
#[derive(Debug)]
pub struct Route {
    /// The sandbox's id, as in host names and headers.
    pub id: SandboxId,
    /// The execution of the sandbox; connections are kept for one execution only.
    pub execution: ExecutionId,
    /// Address of the sandbox; the agent and the services of the user listen there.
    pub address: IpAddr,
    /// Token that opens its agent, if it has one.
    pub access_token: Option<AccessToken>,
    /// True if its owner asked for an agent that demands no token, as clients of the first
    /// generation do by saying nothing; see [`crate::ProxyConfig::demand_tokens`].
    pub is_open: bool,
    /// Rule for requests to its ports.
    pub ingress: Arc<Ingress>,
    /// Opens the agent's control routes, for the tunnel to services on the sandbox's loopback.
    pub control_token: Redacted<String>,
    /// Fires when this run ends. It must fire before `address` is given to another sandbox:
    /// a connection that was made too late is recognised by it.
    pub ended: CancellationToken,
}
