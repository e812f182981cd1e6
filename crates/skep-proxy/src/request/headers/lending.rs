//! Tokens that the proxy adds for callers that cannot show one.
//!
//! The agent and the interpreter never make an exception themselves: what comes from inside the
//! sandbox does not come this way, so code in it gains nothing.

use std::net::IpAddr;

use http::header::{FORWARDED, ORIGIN, VIA};
use http::{HeaderMap, HeaderName, HeaderValue, Method, request};
use skep_types::AccessToken;
use skep_wire::agent::AGENT_PORT;
use skep_wire::headers::{ACCESS_TOKEN, TRAFFIC_TOKEN};
use skep_wire::interpreter::INTERPRETER_PORT;

use super::{FORWARDED_FOR, Passage};
use crate::config::{DemandTokens, ProxyConfig};
use crate::routing::authority::Authority;

/// Path at which the interpreter makes contexts.
const CONTEXTS_PATH: &str = "/contexts";

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A token of the sandbox, and the header that it belongs in.
#[derive(Debug)]
pub(super) struct Lent {
    name: &'static str,
    token: AccessToken,
}

impl Lent {
    /// The token that a caller lacks and need not show. `parts` are those that it sent: what is
    /// removed from them on the way tells where they come from.
    pub(super) fn to(parts: &request::Parts, passage: &Passage<'_>) -> Option<Self> {
        let token = passage.route.access_token.as_ref()?;
        let owner = (passage.port, passage.route.is_open);
        Some(match LentToken::to(parts, owner, passage.config)? {
            LentToken::Access => Self {
                name: ACCESS_TOKEN,
                token: token.clone(),
            },
            LentToken::Traffic => Self {
                name: TRAFFIC_TOKEN,
                token: token.traffic(),
            },
        })
    }

    pub(super) fn insert_into(self, headers: &mut HeaderMap) {
        let value = HeaderValue::try_from(self.token.reveal()).expect("hexadecimal digits");
        headers.insert(self.name, value);
    }
}

/// Tokens that can be lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LentToken {
    Access,
    Traffic,
}

impl LentToken {
    /// The token for a request to a port of a sandbox that is open, or not.
    fn to(
        parts: &request::Parts,
        (port, is_open): (u16, bool),
        config: &ProxyConfig,
    ) -> Option<Self> {
        let shows = |name| parts.headers.contains_key(name);
        if shows(ACCESS_TOKEN) || shows(TRAFFIC_TOKEN) {
            None
        } else if is_open && is_open_to(parts, port, config) {
            Some(Self::Access)
        } else {
            is_making_a_context(parts, port, config).then_some(Self::Traffic)
        }
    }
}

/// Returns true if a request that shows no token is lent one at this port of a sandbox.
pub(crate) fn is_lent_token(
    parts: &request::Parts,
    port: u16,
    is_open: bool,
    config: &ProxyConfig,
) -> bool {
    LentToken::to(parts, (port, is_open), config).is_some()
}

/// Returns true if the operator lets callers of a sandbox have its token whose owner asked for
/// none, as clients of the first generation do, and this may be one.
fn is_open_to(parts: &request::Parts, port: u16, config: &ProxyConfig) -> bool {
    let is_let = match config.demand_tokens {
        DemandTokens::Always => false,
        DemandTokens::WhenForwarded => !is_forwarded(&parts.headers),
        DemandTokens::AsOrdered => true,
    };
    is_let
        && [AGENT_PORT, INTERPRETER_PORT].contains(&port)
        && !is_sent_by_a_page(&parts.headers)
        && names_this_server(parts, config.domain.as_str())
        // A link that somebody signed counts as far as it was signed.
        && !has_signature(parts)
}

/// Returns true if a proxy says that it passes this on for somebody else.
fn is_forwarded(headers: &HeaderMap) -> bool {
    let names = [FORWARDED_FOR, FORWARDED, VIA];
    names.iter().any(|name| headers.contains_key(name))
}

/// Returns true if a browser sent this for a page. Ids of sandboxes stand in the names of their
/// ports, so a page may know one; the clients that need no token are programs.
fn is_sent_by_a_page(headers: &HeaderMap) -> bool {
    let is_typed = |site: &HeaderValue| site == "none";
    headers.contains_key(ORIGIN) || !headers.get_all(FETCH_SITE).iter().all(is_typed)
}

/// Returns true if the name that was asked is one of this server's, or none at all.
///
/// A page can have its own name lead here once it is loaded. What it reads then is of its own origin
/// to its browser, which says nothing about it (plain http, and no method but GET); but the name is
/// the page's.
fn names_this_server(parts: &request::Parts, domain: &str) -> bool {
    let Ok(authority) = Authority::of(parts) else {
        return false;
    };
    let Some(host) = authority.map(Authority::host) else {
        return true;
    };
    let is_below = |domain: &str| {
        let rest = host.strip_suffix(domain);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    host.parse::<IpAddr>().is_ok() || is_below("localhost") || is_below(domain)
}

fn has_signature(parts: &request::Parts) -> bool {
    let query = parts.uri.query().unwrap_or_default();
    query.split('&').any(|pair| pair.starts_with("signature"))
}

/// Returns true if the operator lets callers without a token make contexts, and this is one.
fn is_making_a_context(parts: &request::Parts, port: u16, config: &ProxyConfig) -> bool {
    config.contexts_without_token
        && port == INTERPRETER_PORT
        && parts.method == Method::POST
        && parts.uri.path() == CONTEXTS_PATH
}

#[cfg(test)]
mod tests;
