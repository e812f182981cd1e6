//! Questions of browsers before a page of another origin may send a request.
//!
//! They carry no credentials, so a sandbox that is private, paused or gone could not answer them, and
//! the page would never read why. The answer opens nothing: it lets the request come, with whatever
//! token the page knows, and says that cookies do not count.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD,
    CACHE_CONTROL, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode};

/// Returns true if a browser asks whether a page may send something.
pub(crate) fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS
        && parts.headers.contains_key(ORIGIN)
        && parts.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer that lets the page send what it asked for, without cookies.
pub(crate) fn answer(parts: &Parts) -> Response<Bytes> {
    let asked = |name| parts.headers.get(name).cloned();
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    if let Some(method) = asked(ACCESS_CONTROL_REQUEST_METHOD) {
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, method);
    }
    if let Some(names) = asked(ACCESS_CONTROL_REQUEST_HEADERS) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
    }
    // The same question may be the sandbox's to answer the next time.
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("0"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let asked_by = "origin, access-control-request-method, access-control-request-headers";
    headers.insert(VARY, HeaderValue::from_static(asked_by));
    response
}
