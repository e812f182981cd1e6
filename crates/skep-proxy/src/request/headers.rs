//! Removal of headers that concern one connection only, or that the other side may not see.

mod lending;
mod withheld;

use std::net::IpAddr;

use http::header::{
    CONNECTION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, EXPECT, HOST,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Uri, Version, request, response};
use skep_types::AccessToken;
use skep_wire::agent::AGENT_PORT;
use skep_wire::headers::{
    ACCESS_TOKEN, API_KEY, CONTROL_TOKEN, REQUEST_NAME, SANDBOX_ID, SANDBOX_PORT, TRAFFIC_TOKEN,
};

use crate::config::ProxyConfig;
use crate::request::ingress;
use crate::routing::authority::Authority;
use crate::routing::classify::NamedBy;
use crate::routing::route::Route;
use lending::Lent;
pub(crate) use lending::is_lent_token;
use skep_wire::interpreter::INTERPRETER_PORT;
use withheld::Withheld;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Facts about a request that are not in its head.
#[derive(Debug)]
pub(crate) struct Passage<'a> {
    pub(crate) route: &'a Route,
    pub(crate) port: u16,
    pub(crate) named_by: NamedBy,
    pub(crate) peer: IpAddr,
    pub(crate) secure: bool,
    pub(crate) config: &'a ProxyConfig,
}

/// The protocol a client asks to switch to, if the proxy passes such a switch on.
pub(crate) fn upgrade(parts: &request::Parts) -> Option<HeaderValue> {
    let asked = parts.version == Version::HTTP_11
        && connection_options(&parts.headers).any(|option| option.eq_ignore_ascii_case("upgrade"));
    let protocol = parts.headers.get(UPGRADE).filter(|_| asked)?;
    // Clear-text HTTP/2 is between the client and us, and optional.
    let clear_text = protocol.to_str().is_ok_and(|text| {
        text.split(',')
            .any(|name| name.trim().eq_ignore_ascii_case("h2c"))
    });
    (!clear_text).then(|| protocol.clone())
}

/// Returns true if `chosen` is one of the protocols that a client asked to switch to.
pub(crate) fn offers(asked: &HeaderValue, chosen: &HeaderValue) -> bool {
    let (Ok(asked), Ok(chosen)) = (asked.to_str(), chosen.to_str()) else {
        return false;
    };
    let mut asked = asked.split(',').map(str::trim);
    !chosen.is_empty() && asked.any(|name| name.eq_ignore_ascii_case(chosen.trim()))
}

/// Turns a client's head into the one the sandbox sees.
pub(crate) fn towards_sandbox(parts: &mut request::Parts, passage: &Passage<'_>) {
    let lent = Lent::to(parts, passage);
    let named = Authority::of(parts)
        .ok()
        .flatten()
        .and_then(|authority| HeaderValue::try_from(authority.as_str()).ok());
    strip_connection(&mut parts.headers);
    parts.headers.remove(EXPECT);
    // None are passed on, see `RequestBody`.
    parts.headers.remove(TRAILER);
    drop_odd_length(&mut parts.headers);
    withhold(&mut parts.headers, passage);
    if let Some(lent) = lent {
        lent.insert_into(&mut parts.headers);
    }
    forwarded(&mut parts.headers, passage, named.clone());

    let host =
        (masked_host(passage).or(named)).unwrap_or_else(|| HeaderValue::from_static("localhost"));
    parts.headers.insert(HOST, host);
    parts.uri = origin_form(&parts.uri);
    // A program that shows its token in both places means only one of them for us.
    if passage.route.ingress.is_private && ingress::names_token(parts) {
        parts.uri = (ingress::without_token(parts).parse())
            .unwrap_or_else(|_not_a_path| Uri::from_static("/"));
    }
    parts.version = Version::HTTP_11;
}

/// The host that a service of the user is to see, if its owner named one.
fn masked_host(passage: &Passage<'_>) -> Option<HeaderValue> {
    let mask = passage
        .route
        .ingress
        .host_mask
        .as_ref()
        .filter(|_| !is_ours(passage.port))?;
    let host = mask.host_for(passage.port);
    Some(HeaderValue::try_from(host).expect("a mask is a host"))
}

/// Returns true if a part of ours listens on this port of every sandbox.
fn is_ours(port: u16) -> bool {
    [AGENT_PORT, INTERPRETER_PORT].contains(&port)
}

/// Turns a sandbox's head into the one the client sees.
pub(crate) fn towards_client(parts: &mut response::Parts, named_by: NamedBy) {
    strip_connection(&mut parts.headers);
    parts.version = Version::HTTP_11;
    if named_by == NamedBy::Host {
        return;
    }
    forbid_guessing(&mut parts.headers);
    if is_active(&parts.headers) {
        let isolated = HeaderValue::from_static("sandbox allow-scripts allow-downloads");
        parts.headers.insert(CONTENT_SECURITY_POLICY, isolated);
    }
}

/// Makes browsers take an answer for what it says it is.
pub(crate) fn forbid_guessing(headers: &mut HeaderMap) {
    let nosniff = HeaderValue::from_static("nosniff");
    headers.insert(X_CONTENT_TYPE_OPTIONS, nosniff);
}

/// Returns true if a browser that shows this runs what is in it.
///
/// A link to a file of a sandbox may name the server's own host. What it shows there would be
/// of the same origin as the API, and a server that asks for no key would take it for its own.
fn is_active(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(CONTENT_TYPE)
        .map(HeaderValue::as_bytes)
        .unwrap_or_default()
        .to_ascii_lowercase();
    // Without a type browsers guess.
    kind.is_empty()
        || [&b"html"[..], b"xml"]
            .iter()
            .any(|active| contains(&kind, active))
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn origin_form(uri: &Uri) -> Uri {
    // `http://host#part` has a path that reads as `/` but would be written as nothing.
    uri.path_and_query()
        .filter(|path| path.as_str() != "/")
        .cloned()
        .unwrap_or_else(|| PathAndQuery::from_static("/"))
        .into()
}

/// Removes a length that services could read differently: HTTP/2 clients may send an empty one,
/// or two. The body says itself how long it is.
fn drop_odd_length(headers: &mut HeaderMap) {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let digits = |length: &HeaderValue| {
        !length.is_empty() && length.as_bytes().iter().all(u8::is_ascii_digit)
    };
    let plain = lengths.next().is_none_or(digits) && lengths.next().is_none();
    if !plain {
        headers.remove(CONTENT_LENGTH);
    }
}

/// Keeps from a sandbox what its code has no business with.
fn withhold(headers: &mut HeaderMap, passage: &Passage<'_>) {
    headers.remove(CONTROL_TOKEN);
    headers.remove(REQUEST_NAME);
    // The interpreter asks for it where clients show no other.
    if passage.port != INTERPRETER_PORT {
        headers.remove(TRAFFIC_TOKEN);
    }
    if passage.named_by == NamedBy::Headers {
        headers.remove(SANDBOX_ID);
        headers.remove(SANDBOX_PORT);
    }
    let own = is_ours(passage.port);
    // Neither the agent nor the interpreter asks for keys; a service of the user may, under that
    // name. The agent's token would let such a service act as the sandbox's owner.
    headers.remove(if own { API_KEY } else { ACCESS_TOKEN });
    let access = passage.route.access_token.as_ref().filter(|_| !own);
    let traffic = access.map(AccessToken::traffic);
    let tokens = access.into_iter().chain(&traffic).collect();
    Withheld { tokens }.remove_from(headers);
}

fn forwarded(headers: &mut HeaderMap, passage: &Passage<'_>, host: Option<HeaderValue>) {
    let peer = passage.peer.to_canonical().to_string();
    let before = headers.get_all(FORWARDED_FOR).iter();
    let hops: Vec<&str> = before
        .filter_map(|value| value.to_str().ok())
        .chain([peer.as_str()])
        .collect();
    let list = HeaderValue::try_from(hops.join(", ")).expect("visible text joined by commas");
    headers.insert(FORWARDED_FOR, list);
    let scheme = if passage.secure { "https" } else { "http" };
    headers.insert(FORWARDED_PROTO, HeaderValue::from_static(scheme));
    match host {
        Some(host) => headers.insert(FORWARDED_HOST, host),
        None => headers.remove(FORWARDED_HOST),
    };
}

fn connection_options(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
}

/// Removes what concerns one connection only (RFC 9110, 7.6.1).
fn strip_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = connection_options(headers)
        .filter_map(|option| option.parse().ok())
        .collect();
    let trailers = headers.get_all(TE).iter().any(|value| {
        let accepted = value.to_str().unwrap_or_default().split(',');
        accepted.map(str::trim).any(|coding| coding == "trailers")
    });
    for name in named {
        headers.remove(name);
    }
    for name in [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        PROXY_CONNECTION,
        TE,
        TRANSFER_ENCODING,
        UPGRADE,
    ] {
        headers.remove(name);
    }
    // We pass trailers on, so we may promise it.
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
}

#[cfg(test)]
mod tests;
