//! Keeping other people's web pages out of a server that asks for no key.
//!
//! Such a server listens on loopback, but every page open in a browser on this host can send
//! requests there too, and by pointing its own name at 127.0.0.1 can even read the answers.
//! So can a page that a sandbox serves, under a name below our own. All of them show in the
//! headers: in the name that was asked, in the origin of the page, and in what browsers say of
//! the two. What shows in none of these is sent without asking first only as a form is, so
//! bodies have to be JSON.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::body::HttpBody as _;
use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, header};
use skep_types::{DomainName, SandboxId};
use skep_wire::headers::API_KEY;

use crate::error::ApiError;

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses what a browser may send on behalf of a foreign page.
///
/// # Errors
///
/// 403 for a request that a browser sends for a page that is not local, or to a name that is
/// not ours; 415 for a body that a page could send without being asked.
pub(crate) fn check(request: &Request, domain: &str) -> Result<(), ApiError> {
    let headers = request.headers();
    // HTTP/2 has the name in the address instead of a header.
    let authority = request.uri().authority();
    let addressed = authority.is_none_or(|name| is_local(name.as_str(), domain));
    let local = |text: &str| is_local(text, domain);
    let is_from_here = addressed
        && all(headers, &header::HOST, local)
        && all(headers, &header::ORIGIN, |text| {
            is_local_origin(text, domain)
        })
        && all(headers, &FETCH_SITE, |site| {
            ["same-origin", "none"].contains(&site)
        });
    if !is_from_here {
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "not_local",
            "this server asks for no key and therefore answers local callers only",
        ));
    }
    if could_be_a_form(request) {
        return Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "this server asks for no key and therefore takes bodies of type application/json only",
        ));
    }
    Ok(())
}

/// Returns true if every value of a header is text that passes.
pub(crate) fn all(headers: &HeaderMap, name: &HeaderName, passes: impl Fn(&str) -> bool) -> bool {
    let mut values = headers.get_all(name).iter();
    values.all(|value| value.to_str().is_ok_and(&passes))
}

/// Returns true if a browser would send this for any page without asking us first.
fn could_be_a_form(request: &Request) -> bool {
    let harmless = [Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    // Clients upload without a type. No page has such a link, and it would have to ask first.
    let is_upload =
        request.method() == Method::PUT && request.uri().path().starts_with("/_upload/");
    // A page that may send a key has asked.
    if harmless
        || is_upload
        || request.body().is_end_stream()
        || request.headers().contains_key(API_KEY)
    {
        return false;
    }
    let kind = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.as_bytes().split(|byte| *byte == b';').next())
        .unwrap_or_default();
    !kind.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

/// Returns true if the origin of a page is this host, and not a sandbox on it.
pub(crate) fn is_local_origin(text: &str, domain: &str) -> bool {
    let Some((scheme, authority)) = text.split_once("://") else {
        // Pages without an origin say `null`.
        return false;
    };
    ["http", "https"].contains(&scheme) && is_local(authority, domain)
}

/// Returns true if a host with an optional port is this host, and not a sandbox on it.
pub(crate) fn is_local(text: &str, domain: &str) -> bool {
    let Ok(authority) = text.parse::<Authority>() else {
        return false;
    };
    let port = authority.port_u16().map(|port| format!(":{port}"));
    let host = authority.host();
    // Nothing but these two: no user in front, no sign behind that a browser would not send.
    if authority.as_str() != format!("{host}{}", port.unwrap_or_default()) {
        return false;
    }
    let host = host.to_ascii_lowercase();
    let below = |domain: &str| {
        host.strip_suffix(domain)
            .filter(|rest| rest.is_empty() || rest.ends_with('.'))
            .is_some_and(|rest| !is_of_sandbox(rest))
    };
    let domain = DomainName::new(domain);
    is_loopback(&host) || below("localhost") || below(domain.as_str())
}

/// Returns true if a host is an address of this host's loopback, as URLs write it.
fn is_loopback(host: &str) -> bool {
    let v6 = host
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'));
    v6.map_or_else(
        || {
            host.parse()
                .is_ok_and(|address: Ipv4Addr| address.is_loopback())
        },
        |host| {
            host.parse()
                .is_ok_and(|address: Ipv6Addr| address.is_loopback())
        },
    )
}

/// Returns true if what stands before a domain could be what sandboxes are reached by:
/// `<port>-<id>`, with more behind, or the name that all of them share.
fn is_of_sandbox(labels: &str) -> bool {
    labels.split('.').any(|label| match label.split_once('-') {
        Some((port, name)) => {
            let id = name.split('-').next().unwrap_or_default();
            port.bytes().all(|byte| byte.is_ascii_digit()) || id.parse::<SandboxId>().is_ok()
        }
        None => label == "sandbox",
    })
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::response::IntoResponse as _;

    use super::*;

    const DOMAIN: &str = "sandbox.example:8443";

    #[test]
    fn this_machine_has_several_names() {
        for local in [
            "localhost",
            "LocalHost:3000",
            "127.0.0.1:8080",
            "127.0.0.1",
            "[::1]:8080",
            "[::1]",
            "api.skep.localhost:1234",
            "api.sandbox.example:443",
            "sandbox.example",
            "my-page.localhost",
        ] {
            assert!(is_local(local, DOMAIN), "{local}");
            for scheme in ["http", "https"] {
                let origin = format!("{scheme}://{local}");
                assert!(is_local_origin(&origin, DOMAIN), "{origin}");
                assert!(!is_local(&origin, DOMAIN), "{origin}");
            }
            assert!(!is_local_origin(local, DOMAIN), "{local}");
        }
        for foreign in [
            "evil.example",
            "evil.example:3000",
            "notlocalhost",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "null",
            "",
            "evilsandbox.example",
        ] {
            assert!(!is_local(foreign, DOMAIN), "{foreign}");
            let origin = format!("https://{foreign}");
            assert!(!is_local_origin(&origin, DOMAIN), "{origin}");
        }
    }

    #[test]
    fn what_only_looks_like_this_machine_is_not() {
        for text in [
            "evil.example:1@localhost",
            "user@localhost",
            "localhost:evil",
            "localhost:",
            "localhost:99999",
            "localhost:3000:3000",
            "evil.example#localhost",
            "evil.example/.localhost",
            "evil.example?.localhost",
            "evil.example\\.localhost",
            "evil.example://localhost",
            "http://evil.example://localhost",
            "::1",
            "[::1",
            "[::1]evil.example",
            "[127.0.0.1]",
            " localhost",
            "localhost,evil.example",
        ] {
            assert!(!is_local(text, DOMAIN), "{text}");
            let origin = format!("http://{text}");
            assert!(!is_local_origin(&origin, DOMAIN), "{origin}");
        }
        for origin in ["null", "file://localhost", "://localhost", "http:localhost"] {
            assert!(!is_local_origin(origin, DOMAIN), "{origin}");
        }
    }

    #[test]
    fn a_sandbox_is_not_this_machine() {
        let id = SandboxId::random();
        for foreign in [
            format!("8080-{id}.localhost"),
            format!("8080-{id}.localhost:3000"),
            format!("8080-{id}.LOCALHOST:3000"),
            format!("8080-{id}-00000000.sandbox.example:8443"),
            format!("x-{id}.localhost"),
            format!("page.8080-{id}.localhost"),
            "8080-unknown.sandbox.example".to_owned(),
            "sandbox.sandbox.example:8443".to_owned(),
        ] {
            assert!(!is_local(&foreign, DOMAIN), "{foreign}");
            let origin = format!("http://{foreign}");
            assert!(!is_local_origin(&origin, DOMAIN), "{origin}");
        }
    }

    #[track_caller]
    fn answer(method: Method, headers: &[(&str, &str)], body: &'static str) -> u16 {
        let mut request = Request::builder().method(method).uri("/sandboxes");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body)).unwrap();
        let status = |error: ApiError| error.into_response().status().as_u16();
        check(&request, DOMAIN).map_or_else(status, |()| 200)
    }

    #[test]
    fn what_browsers_say_of_a_page_is_believed() {
        let host = ("host", "localhost:3000");
        for (site, expected) in [
            ("none", 200),
            ("same-origin", 200),
            ("same-site", 403),
            ("cross-site", 403),
        ] {
            let headers = [host, ("sec-fetch-site", site)];
            assert_eq!(answer(Method::GET, &headers, ""), expected, "{site}");
        }
        // One that is not local beside one that is.
        let hosts = [host, ("host", "evil.example")];
        assert_eq!(answer(Method::GET, &hosts, ""), 403);
    }

    #[test]
    fn a_body_that_a_form_could_send_is_refused() {
        for (headers, expected) in [
            (&[("content-type", "application/json")][..], 200),
            (&[("content-type", "Application/JSON; charset=utf-8")], 200),
            (&[("content-type", "text/plain"), ("x-api-key", "any")], 200),
            (&[("content-type", "text/plain")], 415),
            (&[("content-type", "text/plain; application/json")], 415),
            (
                &[("content-type", "application/x-www-form-urlencoded")],
                415,
            ),
            (&[], 415),
        ] {
            for method in [Method::POST, Method::DELETE, Method::PUT] {
                assert_eq!(answer(method, headers, "{}"), expected, "{headers:?}");
            }
            assert_eq!(answer(Method::POST, headers, ""), 200, "nothing to read");
        }
    }
}
