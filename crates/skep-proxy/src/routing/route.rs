//! Routes to sandboxes: the port of the proxy that a node fills.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use skep_types::{AccessToken, SandboxId, Sleeper};
use tokio_util::sync::CancellationToken;

/// One execution of a sandbox, as the proxy sees it: who waits for its end waits for this token.
pub type Route = skep_types::Route<CancellationToken>;

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
