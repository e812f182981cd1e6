//! Destination of a request, and the part of its head that the sandbox is shown.

use std::sync::{Arc, LazyLock};

use http::header::{CONNECTION, EXPECT, HOST, TRANSFER_ENCODING, UPGRADE};
use skep_proxy::fuzzing::towards_agent;
use skep_proxy::{Destination, FakeRoutes, NamedBy, ProxyConfig, Route, classify};
use skep_wire::headers::{
    ACCESS_TOKEN, API_KEY, CONTROL_TOKEN, SANDBOX_ID, SANDBOX_PORT, TRAFFIC_TOKEN,
};

use crate::http_text::Message;

static CONFIG: LazyLock<ProxyConfig> = LazyLock::new(|| ProxyConfig::new("skep.test"));
static ROUTE: LazyLock<Arc<Route>> = LazyLock::new(|| FakeRoutes::default().publish());

pub(super) fn check(data: &[u8]) {
    let Some(mut message) = Message::read(data) else {
        return;
    };
    let parts = &message.parts;
    let has = |name: &str| parts.headers.contains_key(name);
    let names_both = has(SANDBOX_ID) && has(SANDBOX_PORT);
    match classify(parts, &CONFIG) {
        Destination::Sandbox(target) => {
            assert_ne!(target.port, 0);
            match target.named_by {
                NamedBy::Host => assert!(host_names(parts, target.port, target.id.as_str())),
                NamedBy::Headers => assert!(names_both),
            }
        }
        Destination::NoSuchSandbox { name } => {
            let is_harmless = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
            assert!((1..=64).contains(&name.len()) && name.bytes().all(is_harmless));
        }
        Destination::TokenHolder => assert!(has(ACCESS_TOKEN) && !names_both),
        Destination::Signer => {
            assert_eq!(parts.uri.path(), "/files");
            assert!(
                parts
                    .uri
                    .query()
                    .is_some_and(|query| query.contains("signature="))
            );
        }
        Destination::Api | Destination::Misaddressed(_) => {}
    }

    let path = parts.uri.path_and_query().map(ToString::to_string);
    towards_agent(&mut message.parts, &ROUTE);
    let shown = &message.parts;
    for name in [CONNECTION, TRANSFER_ENCODING, UPGRADE, EXPECT] {
        assert!(!shown.headers.contains_key(&name), "{name} is passed on");
    }
    for name in [CONTROL_TOKEN, API_KEY, TRAFFIC_TOKEN] {
        assert!(!shown.headers.contains_key(name), "{name} is passed on");
    }
    assert_eq!(shown.headers.get_all(HOST).iter().count(), 1);
    assert!(shown.uri.authority().is_none(), "a server is asked by path");
    if let Some(path) = path.filter(|path| path.starts_with('/')) {
        assert_eq!(
            shown.uri.to_string(),
            path,
            "the path stays as it was written"
        );
    }
}

/// Returns true if the host of a request is `<port>-<id>…`.
fn host_names(parts: &http::request::Parts, port: u16, id: &str) -> bool {
    let host = match parts.uri.authority() {
        Some(authority) => authority.as_str(),
        None => parts.headers[HOST].to_str().unwrap_or_default(),
    };
    let host = host.to_ascii_lowercase();
    let digits = host.split('-').next().unwrap_or_default();
    digits.parse() == Ok(port) && host[digits.len()..].starts_with(&format!("-{id}"))
}
