//! Paused sandboxes that requests can wake.

use std::sync::Arc;

use crate::{AccessToken, Ingress, SandboxId};

/// A paused sandbox that goes on when somebody uses it.
#[derive(Debug, Clone)]
pub struct Sleeper {
    /// Id of the sandbox, as in host names and headers.
    pub id: SandboxId,
    /// Token that callers of its agent must show.
    pub access_token: Option<AccessToken>,
    /// True if callers from outside need not show it.
    pub is_open: bool,
    /// Rule for requests to its ports.
    pub ingress: Arc<Ingress>,
}
