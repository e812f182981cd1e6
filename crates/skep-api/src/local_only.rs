//! Keeping other people's web pages out of a server that asks for no key.
//!
//! Such a server listens on loopback, but every page open in a browser on this machine can send
//! requests there too, and by pointing its own name at 127.0.0.1 can even read the answers.
//! Both show in the headers.

use axum::extract::Request;
use axum::http::{StatusCode, header};

use crate::error::ApiError;

/// # Errors
///
/// 403 for a request that a browser sends for a page that is not local, or to a name that is
/// not ours.
pub(crate) fn check(request: &Request, domain: Option<&str>) -> Result<(), ApiError> {
    let foreign = |name| match request.headers().get(name).map(|value| value.to_str()) {
        None => false,
        Some(Ok(value)) => !is_local(value, domain),
        Some(Err(_)) => true,
    };
    // HTTP/2 has the name in the address instead of a header.
    let authority = request.uri().authority();
    let addressed = authority.is_some_and(|name| !is_local(name.as_str(), domain));
    match addressed || foreign(header::ORIGIN) || foreign(header::HOST) {
        false => Ok(()),
        true => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "not_local",
            "this server asks for no key and therefore answers local callers only",
        )),
    }
}

/// Whether a host with an optional scheme and port is this machine.
fn is_local(text: &str, domain: Option<&str>) -> bool {
    let host = text.split_once("://").map_or(text, |(_, host)| host);
    let host = match host.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(host, _)| host),
    };
    let below = |host: &str, domain: &str| {
        host.strip_suffix(domain)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let domain = domain.map(|domain| domain.rsplit_once(':').map_or(domain, |(name, _)| name));
    host.parse::<std::net::IpAddr>()
        .is_ok_and(|address| address.is_loopback())
        || below(host, "localhost")
        || domain.is_some_and(|domain| below(host, domain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_several_names() {
        for local in [
            "localhost",
            "localhost:3000",
            "127.0.0.1:8080",
            "http://127.0.0.1",
            "[::1]:8080",
            "http://localhost:5173",
            "https://api.skep.localhost:1234",
            "api.sandbox.example:443",
            "sandbox.example",
        ] {
            assert!(is_local(local, Some("sandbox.example:8443")), "{local}");
        }
        for foreign in [
            "https://evil.example",
            "evil.example:3000",
            "notlocalhost",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "null",
            "",
            "evilsandbox.example",
        ] {
            assert!(
                !is_local(foreign, Some("sandbox.example:8443")),
                "{foreign}"
            );
        }
    }
}
