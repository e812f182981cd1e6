//! Headers that are about a connection, and not about what is asked for.

use hyper::header::{
    CONNECTION, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE,
    TRAILER, UPGRADE,
};

/// The protocol that a request wants to go on in, if it is one in which no other host can be named:
/// in HTTP/2 every request could.
pub(crate) fn upgrade_of(headers: &HeaderMap) -> Option<HeaderValue> {
    const WEB_SOCKET: &str = "websocket";
    let has_option = headers.get_all(CONNECTION).iter().any(|value| {
        let mut options = value.to_str().unwrap_or_default().split(',').map(str::trim);
        options.any(|option| option.eq_ignore_ascii_case("upgrade"))
    });
    let protocol = headers.get(UPGRADE)?;
    let is_web_socket = protocol
        .as_bytes()
        .eq_ignore_ascii_case(WEB_SOCKET.as_bytes());
    (has_option && is_web_socket).then(|| protocol.clone())
}

/// Takes out what is said for the next hop alone, and what others name as such.
pub(crate) fn forget_connection(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        // How long a body is stays said, whatever a client calls it.
        .filter(|name| *name != "content-length" && *name != "transfer-encoding" && *name != "host")
        .collect();
    let own = [
        CONNECTION,
        UPGRADE,
        TE,
        TRAILER,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        HeaderName::from_static("keep-alive"),
        HeaderName::from_static("proxy-connection"),
        HeaderName::from_static("http2-settings"),
    ];
    for name in named.iter().chain(&own) {
        headers.remove(name);
    }
}
