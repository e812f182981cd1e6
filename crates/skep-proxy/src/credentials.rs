//! What a request shows about its caller, before anybody has acted on it.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use http::request::Parts;
use skep_types::AccessToken;
use skep_wire::agent::AGENT_PORT;

use crate::admission::Shown;
use crate::classify::{ACCESS_TOKEN, API_KEY};
use crate::headers::TRAFFIC_TOKEN;
use crate::route::Route;
use crate::signed_url::SignedUrl;

/// What a request to the API shows. Whether a key is right only the API knows.
pub(crate) fn shown_to_api(headers: &HeaderMap) -> Shown {
    if headers.contains_key(API_KEY) || headers.contains_key(AUTHORIZATION) {
        Shown::Key
    } else {
        Shown::Nothing
    }
}

/// What a request to a port of a sandbox shows.
pub(crate) fn shown_to_sandbox(route: &Route, port: u16, parts: &Parts) -> Shown {
    let text = |name: &str| {
        let shown = parts.headers.get(name);
        shown.and_then(|value| value.to_str().ok())
    };
    let access = || {
        let known = route.access_token.as_ref().zip(text(ACCESS_TOKEN));
        known.is_some_and(|(token, shown)| token.matches(shown))
    };
    // Of every sandbox there is one for the interpreter, and of some for all ports.
    let traffic = || {
        text(TRAFFIC_TOKEN).is_some_and(|shown| {
            let of_interpreter = route.access_token.as_ref().map(AccessToken::traffic);
            let mut tokens = route.traffic_token.iter().chain(&of_interpreter);
            tokens.any(|token| token.matches(shown))
        })
    };
    let signed = || {
        let url = (port == AGENT_PORT && parts.uri.path() == "/files")
            .then(|| SignedUrl::read(parts))
            .flatten();
        let token = route.access_token.as_ref();
        url.zip(token)
            .is_some_and(|(url, token)| url.is_signed_with(token))
    };
    if access() || traffic() || signed() {
        Shown::Token
    } else {
        Shown::Nothing
    }
}
