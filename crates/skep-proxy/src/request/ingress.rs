//! Requests to the ports of private sandboxes.
//!
//! A program shows the traffic token in a header. A browser cannot, so it may bring the token in the
//! address once, and has it in a cookie of that host from then on. A cookie comes along with whatever
//! makes a browser send a request, and pages of other sandboxes are of the same site; what they make
//! it send is told apart by what the browser says about it, and one that says nothing is refused.

use http::header::{CACHE_CONTROL, COOKIE, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use skep_types::{AccessToken, Ingress, SandboxId};
use skep_wire::agent::AGENT_PORT;
use skep_wire::headers::{ACCESS_TOKEN, TRAFFIC_TOKEN};
use skep_wire::interpreter::INTERPRETER_PORT;

use crate::refusal::Refusal;
use crate::routing::authority::Authority;
use crate::routing::classify::{NamedBy, Target};

/// Name of the cookie. Browsers refuse the prefix on one for a whole domain, so that no other
/// sandbox can put its own in its place.
const COOKIE_NAME: &str = "__Host-e2b-traffic-access-token";

const FETCH_SITE: &str = "sec-fetch-site";
const FETCH_MODE: &str = "sec-fetch-mode";
const FETCH_DEST: &str = "sec-fetch-dest";

/// A sandbox whose ports may be closed.
#[derive(Debug)]
pub(crate) struct Gate<'a> {
    pub(crate) id: &'a SandboxId,
    pub(crate) ingress: &'a Ingress,
    pub(crate) token: Option<&'a AccessToken>,
}

/// Fate of a request that the rules let through.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// Everybody may use the port.
    Open,
    /// The request has shown that it may.
    Shown,
    /// A browser is to come again, without the token in the address.
    Exchange(Exchange),
}

/// A token that a browser brought in an address, to be kept as a cookie.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    token: AccessToken,
    location: HeaderValue,
}

impl Gate<'_> {
    /// Returns true if callers of this port must show a traffic token. The agent asks for a token
    /// of its own.
    pub(crate) fn is_closed(&self, port: u16) -> bool {
        self.ingress.is_private && port != AGENT_PORT
    }

    /// Lets a request pass, or not.
    ///
    /// # Errors
    ///
    /// A refusal if the port is closed and the request does not open it.
    pub(crate) fn check(&self, target: &Target, parts: &Parts) -> Result<Passed, Refusal> {
        if !self.is_closed(target.port) {
            return Ok(Passed::Open);
        }
        let id = self.id.clone();
        // One without any token is opened by none.
        let Some(token) = self.token else {
            return Err(Refusal::TrafficTokenMissing { id });
        };
        let traffic = token.traffic();
        // Interpreters of older clients show only this one, which opens more.
        let access = text(&parts.headers, ACCESS_TOKEN);
        let is_owner =
            target.port == INTERPRETER_PORT && access.is_some_and(|shown| token.matches(shown));
        if is_owner {
            return Ok(Passed::Shown);
        }
        if parts.headers.contains_key(TRAFFIC_TOKEN) {
            let shown = text(&parts.headers, TRAFFIC_TOKEN);
            let is_right = shown.is_some_and(|shown| traffic.matches(shown));
            return if is_right {
                Ok(Passed::Shown)
            } else {
                Err(Refusal::TrafficTokenInvalid { id })
            };
        }
        match browser(&traffic, target, parts) {
            Some(passed) => passed.ok_or(Refusal::TrafficTokenInvalid { id }),
            None => Err(Refusal::TrafficTokenMissing { id }),
        }
    }
}

/// Reads the token that a browser shows, if it shows any that counts: `Some(None)` is a wrong one.
fn browser(traffic: &AccessToken, target: &Target, parts: &Parts) -> Option<Option<Passed>> {
    // On a host of all sandboxes a cookie would be shown to all of them.
    if target.named_by != NamedBy::Host {
        return None;
    }
    if let Some(brought) = in_query(parts).filter(|_| is_visit(parts)) {
        let location = HeaderValue::try_from(without_token(parts)).ok()?;
        let exchange = || {
            let token = traffic.clone();
            Passed::Exchange(Exchange { token, location })
        };
        return Some(traffic.matches(brought).then(exchange));
    }
    let kept = cookie(&parts.headers).filter(|_| is_of_this_origin(parts) || is_visit(parts))?;
    Some(traffic.matches(kept).then_some(Passed::Shown))
}

/// Returns true if a person follows a link or types an address, in a window of its own.
fn is_visit(parts: &Parts) -> bool {
    let says = |name, value| text(&parts.headers, name) == Some(value);
    parts.method == Method::GET
        && parts.headers.contains_key(FETCH_SITE)
        && says(FETCH_MODE, "navigate")
        && says(FETCH_DEST, "document")
        && !parts.headers.contains_key(ORIGIN)
}

/// Returns true if a browser says that a page of the sandbox's own host sends this. Browsers say it
/// only where nobody on the way can have changed the page, and no page can say it for them.
fn is_of_this_origin(parts: &Parts) -> bool {
    let mut sites = parts.headers.get_all(FETCH_SITE).iter();
    match sites.next() {
        Some(site) => site == "same-origin" && sites.next().is_none(),
        // Some browsers say only this of a WebSocket.
        None => has_own_origin(parts),
    }
}

fn has_own_origin(parts: &Parts) -> bool {
    let Some(authority) = Authority::of(parts).ok().flatten() else {
        return false;
    };
    let origin = text(&parts.headers, ORIGIN.as_str()).unwrap_or_default();
    let is_local = authority.host().ends_with(".localhost");
    let scheme = match origin.split_once("://") {
        Some(("http", _)) if is_local => "http",
        _ => "https",
    };
    origin.eq_ignore_ascii_case(&format!("{scheme}://{}", authority.as_str()))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn cookie(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter();
    let pairs = cookies.filter_map(|value| value.to_str().ok());
    pairs
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE_NAME)
        .map(|(_, value)| value)
}

fn is_token_pair(pair: &str) -> bool {
    let name = pair.split_once('=').map_or(pair, |(name, _)| name);
    name.eq_ignore_ascii_case(TRAFFIC_TOKEN)
}

/// The token in an address.
fn in_query(parts: &Parts) -> Option<&str> {
    let mut pairs = parts.uri.query()?.split('&');
    pairs
        .find(|pair| is_token_pair(pair))
        .and_then(|pair| pair.split_once('='))
        .map(|(_, value)| value)
}

/// The path and query of an address without the token. It stays on this host: a browser reads a
/// path that begins with two slashes as another.
pub(crate) fn without_token(parts: &Parts) -> String {
    let path = parts.uri.path().trim_start_matches(['/', '\\']);
    let query = parts.uri.query().unwrap_or_default();
    let others: Vec<&str> = query
        .split('&')
        .filter(|pair| !pair.is_empty() && !is_token_pair(pair))
        .collect();
    if others.is_empty() {
        format!("/{path}")
    } else {
        format!("/{path}?{}", others.join("&"))
    }
}

/// Returns true if an address holds something that is called as the token is.
pub(crate) fn names_token(parts: &Parts) -> bool {
    in_query(parts).is_some()
}

impl Exchange {
    /// The answer that lets the browser come again with a cookie instead. Neither the page that it
    /// comes to nor any script sees the token.
    pub(crate) fn answer(&self) -> Response<bytes::Bytes> {
        let cookie = format!(
            "{COOKIE_NAME}={}; Path=/; Secure; HttpOnly; SameSite=Lax",
            self.token.reveal()
        );
        let cookie = HeaderValue::try_from(cookie).expect("hexadecimal digits and our own words");
        let mut response = Response::new(bytes::Bytes::new());
        *response.status_mut() = StatusCode::SEE_OTHER;
        let headers = response.headers_mut();
        headers.insert(SET_COOKIE, cookie);
        headers.insert(LOCATION, self.location.clone());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
        response
    }
}

#[cfg(test)]
mod tests;
