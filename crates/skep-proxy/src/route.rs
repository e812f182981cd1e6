//! Routes to sandboxes: the port of the proxy that a node fills.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderValue;
use skep_types::{AccessToken, ExecutionId, Redacted, SandboxId};
use tokio_util::sync::CancellationToken;

/// The sandboxes that can be reached now.
///
/// Every method answers from memory: they are asked once per request, on a runtime thread.
pub trait Routes: Send + Sync + 'static {
    /// The running sandbox of this name.
    fn find(&self, id: &SandboxId) -> Option<Arc<Route>>;

    /// The running sandbox whose access token is `token`, compared in constant time.
    fn find_by_token(&self, token: &str) -> Option<Arc<Route>> {
        self.find_by_signature(&|known| known.matches(token))
    }

    /// The first running sandbox whose access token `accepts` says yes to.
    ///
    /// The caller pays one comparison or hash for each token, so an implementation may give up
    /// after a few thousand.
    fn find_by_signature(&self, accepts: &dyn Fn(&AccessToken) -> bool) -> Option<Arc<Route>>;
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
    /// Token that callers of every port but the agent's must show, if its owner closed them.
    pub traffic_token: Option<AccessToken>,
    /// Template of the `Host` header that the user's services see instead of the real one.
    pub mask_host: Option<HostMask>,
    /// Opens the agent's control routes, for the tunnel to services on the sandbox's loopback.
    pub control_token: Redacted<String>,
    /// Fires when this run ends. It must fire before `address` is given to another sandbox:
    /// a connection that was made too late is recognised by it.
    pub ended: CancellationToken,
}

/// The value that replaces `Host` towards the services of the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostMask(Box<str>);

/// A host mask that could not stand in a header.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the host mask `{text}` is not a valid header value")]
pub struct HostMaskError {
    text: String,
}

impl HostMask {
    /// A mask in which `${PORT}` stands for the port of the request.
    ///
    /// # Errors
    ///
    /// If the text cannot stand in a header.
    pub fn new(text: &str) -> Result<Self, HostMaskError> {
        match HeaderValue::from_str(text) {
            Ok(_) if !text.is_empty() => Ok(Self(text.into())),
            Ok(_) | Err(_) => Err(HostMaskError {
                text: text.chars().take(255).collect(),
            }),
        }
    }

    /// The header for a request to `port`.
    pub(crate) fn for_port(&self, port: u16) -> HeaderValue {
        let text = self.0.replace("${PORT}", &port.to_string());
        HeaderValue::try_from(text).expect("a valid value stays valid with digits in it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_names_the_port_where_it_asks_for_it() {
        let mask = HostMask::new("localhost:${PORT}").unwrap();
        assert_eq!(mask.for_port(8080), "localhost:8080");
        assert_eq!(HostMask::new("app.test").unwrap().for_port(1), "app.test");
    }

    #[test]
    fn a_mask_that_would_break_the_header_is_refused() {
        HostMask::new("").unwrap_err();
        HostMask::new("a\r\nx-evil: 1").unwrap_err();
    }
}
