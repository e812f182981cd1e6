//! Routes from the edge to running sandboxes.

use tokio_util::sync::CancellationToken;

/// Everything the proxy needs to reach one execution of a sandbox. It is cancelled the moment the execution is
/// over, before it is cleaned up.
pub type Route = skep_types::Route<CancellationToken>;
