//! Routes of others beside the API: the same callers, let in by the same keys.
//!
//! What is mounted here speaks a protocol of its own and acts through the API, as the caller. A
//! browser must not be made to use it: names that are not the server's, and pages of other
//! origins, are refused whether or not there is a key.

use std::net::IpAddr;

use axum::Router;
use axum::extract::{FromRequestParts as _, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use skep_control::ApiKey;
use skep_types::TeamId;
use skep_wire::headers::API_KEY;

use crate::authorized::Authorized;
use crate::error::ApiError;
use crate::local_only::{all, is_local, is_local_origin};
use crate::router::Edge;

/// Path of the kernel gateway, whose clients show keys in ways of their own.
const JUPYTER: &str = "/skep/jupyter/";

/// The caller of a request that was let in, for whoever is mounted beside the API.
#[derive(Debug, Clone)]
pub struct LetInCaller {
    /// Its team.
    pub team: TeamId,
    /// The key that it showed; `None` where none is asked for.
    pub key: Option<ApiKey>,
}

pub(crate) fn guard(beside: Router, edge: &Edge) -> Router {
    beside.layer(middleware::from_fn_with_state(edge.clone(), let_in))
}

async fn let_in(State(edge): State<Edge>, request: Request, next: Next) -> Response {
    if let Err(error) = check_names(&request, edge.domain()) {
        return error.into_response();
    }
    let (mut parts, body) = request.into_parts();
    if parts.uri.path().starts_with(JUPYTER) {
        take_jupyter_token(&mut parts);
    }
    match Authorized::from_request_parts(&mut parts, &edge).await {
        Ok(authorized) => {
            parts.extensions.insert(LetInCaller {
                team: authorized.caller.team.id.clone(),
                key: authorized.key.clone(),
            });
            next.run(Request::from_parts(parts, body)).await
        }
        Err(error) => {
            let mut response = error.into_response();
            if response.status() == StatusCode::UNAUTHORIZED {
                let challenge = HeaderValue::from_static(r#"Bearer realm="skep""#);
                response
                    .headers_mut()
                    .insert(header::WWW_AUTHENTICATE, challenge);
            }
            response
        }
    }
}

/// Makes the token that a client of Jupyter shows the key of the request: `Authorization: token …`,
/// or `?token=…` where there is none. A key that is shown in our own way comes first.
fn take_jupyter_token(parts: &mut Parts) {
    let headers = &parts.headers;
    let authorization = headers.get(header::AUTHORIZATION);
    let scheme_and_rest = authorization
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest.trim()))
        .filter(|(_, rest)| !rest.is_empty());
    let token = match &scheme_and_rest {
        _ if headers.contains_key(API_KEY) => None,
        Some((scheme, token)) if scheme == "token" => Some(*token),
        Some(_) => None,
        None => parts.uri.query().and_then(|query| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find_map(|(name, value)| (name == "token").then_some(value))
        }),
    };
    // Keys are letters, digits and `_`, so nothing of one is ever encoded.
    let token = token.and_then(|token| HeaderValue::from_str(token).ok());
    if let Some(mut token) = token {
        token.set_sensitive(true);
        parts.headers.insert(API_KEY, token);
    }
}

/// Refuses what a browser was led here with: a name that is not ours, as DNS rebinding makes it,
/// or a page of another origin. Addresses cannot be rebound.
fn check_names(request: &Request, domain: &str) -> Result<(), ApiError> {
    let headers = request.headers();
    let is_own = |text: &str| is_local(text, domain) || is_address(text);
    // HTTP/2 has the name in the address instead of a header.
    let authority = request.uri().authority();
    let is_addressed = authority.is_none_or(|name| is_own(name.as_str()));
    if !is_addressed || !all(headers, &header::HOST, is_own) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "wrong_host",
            "this is not a name of this server; `domain` in its configuration says which are",
        ));
    }
    let host = headers
        .get(header::HOST)
        .and_then(|host| host.to_str().ok())
        .or_else(|| authority.map(Authority::as_str));
    let is_same = |origin: &str| {
        let page = origin.split_once("://").map(|(_, authority)| authority);
        page.is_some() && page == host
    };
    let comes_from_here = |origin: &str| {
        is_local_origin(origin, domain) || (is_same(origin) && host.is_some_and(is_own))
    };
    if !all(headers, &header::ORIGIN, comes_from_here) {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "wrong_origin",
            "pages of other origins may not use this route",
        ));
    }
    Ok(())
}

/// Returns true if a host with an optional port is an address and not a name.
fn is_address(text: &str) -> bool {
    let Ok(authority) = text.parse::<Authority>() else {
        return false;
    };
    if authority.as_str().contains('@') {
        return false;
    }
    let host = authority.host();
    let bare = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    bare.unwrap_or(host).parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn answer(headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().uri("/mcp");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::empty()).unwrap();
        let status = |error: ApiError| error.into_response().status().as_u16();
        check_names(&request, "sandbox.example").map_or_else(status, |()| 200)
    }

    #[test]
    fn a_client_of_jupyter_shows_its_key_in_its_own_ways() {
        for (query, headers, expected) in [
            ("", &[("authorization", "token e2b_a")][..], Some("e2b_a")),
            ("", &[("authorization", "Token  e2b_a")], Some("e2b_a")),
            ("?session_id=s&token=e2b_q", &[], Some("e2b_q")),
            (
                "?token=e2b_q",
                &[("authorization", "token ")],
                Some("e2b_q"),
            ),
            (
                "?token=e2b_q",
                &[("authorization", "token e2b_a")],
                Some("e2b_a"),
            ),
            ("?token=e2b_q", &[("x-api-key", "e2b_k")], Some("e2b_k")),
            ("?token=e2b_q", &[("authorization", "Bearer e2b_b")], None),
            ("?tokens=e2b_q&atoken=x", &[], None),
        ] {
            let mut request = Request::builder().uri(format!("{JUPYTER}api/kernels{query}"));
            for (name, value) in headers {
                request = request.header(*name, *value);
            }
            let (mut parts, _) = request.body(()).unwrap().into_parts();
            take_jupyter_token(&mut parts);
            let key = parts.headers.get(API_KEY).map(|key| key.to_str().unwrap());
            assert_eq!(key, expected, "{query} {headers:?}");
        }
    }

    #[test]
    fn names_of_others_are_refused() {
        for (host, expected) in [
            ("localhost:3000", 200),
            ("127.0.0.1:3000", 200),
            ("[::1]:3000", 200),
            ("10.0.0.7:3000", 200),
            ("api.sandbox.example", 200),
            ("evil.example", 403),
            ("127.0.0.1.evil.example", 403),
            ("user@10.0.0.7", 403),
            ("sandbox.sandbox.example", 403),
            ("8080-i0123456789abcdefghij.sandbox.example", 403),
        ] {
            assert_eq!(answer(&[("host", host)]), expected, "{host}");
        }
    }

    #[test]
    fn pages_of_others_are_refused() {
        for (host, page, expected) in [
            ("localhost:3000", "localhost:3000", 200),
            ("10.0.0.7:3000", "10.0.0.7:3000", 200),
            ("10.0.0.7:3000", "10.0.0.8:3000", 403),
            ("api.sandbox.example", "api.sandbox.example", 200),
            ("localhost:3000", "evil.example", 403),
            ("evil.example", "evil.example", 403),
        ] {
            let origin = format!("http://{page}");
            let headers = [("host", host), ("origin", origin.as_str())];
            assert_eq!(answer(&headers), expected, "{origin}");
        }
        assert_eq!(answer(&[("host", "localhost"), ("origin", "null")]), 403);
    }
}
