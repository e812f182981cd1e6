//! Entry points for the fuzz targets in `fuzz/`. In no program that is shipped.

use std::net::{IpAddr, Ipv4Addr};

use http::request::Parts;
use skep_types::AccessToken;
use skep_wire::agent::AGENT_PORT;

use crate::refusal::envelope::Boundary;
use crate::request::headers::{self, Passage};
use crate::routing::classify::NamedBy;
use crate::routing::control_path;
use crate::routing::route::Route;
use crate::routing::signed_url::SignedUrl;

/// Returns true if the proxy keeps this path of the agent to itself.
pub fn is_reserved(path: &str) -> bool {
    control_path::is_reserved(path)
}

/// Returns true if the proxy keeps this path of the interpreter to itself.
pub fn is_reserved_for_interpreter(path: &str) -> bool {
    control_path::is_reserved_for_interpreter(path)
}

/// Turns a client's head into the one that the agent of `route` sees.
pub fn towards_agent(parts: &mut Parts, route: &Route) {
    let passage = Passage {
        route,
        port: AGENT_PORT,
        named_by: NamedBy::Headers,
        peer: IpAddr::V4(Ipv4Addr::LOCALHOST),
        secure: false,
        config: &crate::ProxyConfig::new("skep.test"),
    };
    headers::towards_sandbox(parts, &passage);
}

/// Returns true if the proxy takes this head for one that `token` has signed.
pub fn is_signed_with(parts: &Parts, token: &AccessToken) -> bool {
    SignedUrl::read(parts).is_some_and(|url| url.is_signed_with(token))
}

/// Returns true if another envelope may follow after these pieces of a stream.
pub fn is_open_after<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> bool {
    let mut boundary = Boundary::default();
    for piece in pieces {
        boundary.advance(piece);
    }
    boundary.is_open()
}
