//! Cross-origin rules for browsers.

use axum::http::{HeaderName, Method};
use skep_wire::headers::API_KEY;
use tower_http::cors::{Any, CorsLayer};

const REQUEST_HEADERS: &[&str] = &[
    "origin",
    "content-length",
    "content-type",
    "user-agent",
    "authorization",
    API_KEY,
    "x-team-id",
    "idempotency-key",
    "browser",
    "lang",
    "lang_version",
    "machine",
    "os",
    "package_version",
    "processor",
    "publisher",
    "release",
    "sdk_runtime",
    "system",
];

const RESPONSE_HEADERS: &[&str] = &[
    "x-next-token",
    "x-total-running",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "retry-after",
];

/// Any site may call with a key that its visitor gave it; there are no cookies to abuse.
pub(crate) fn layer() -> CorsLayer {
    let names = |names: &'static [&'static str]| {
        names
            .iter()
            .map(|name| HeaderName::from_static(name))
            .collect::<Vec<_>>()
    };
    CorsLayer::new()
        .allow_origin(Any)
        .allow_methods([
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::HEAD,
            Method::OPTIONS,
        ])
        .allow_headers(names(REQUEST_HEADERS))
        .expose_headers(names(RESPONSE_HEADERS))
}
