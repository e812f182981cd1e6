//! Hosts that registries may be at.

use std::net::IpAddr;

/// Returns true if a registry is on this host, by its name or address.
pub(crate) fn is_loopback(registry: &str) -> bool {
    let host = host_of(registry);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => skep_http::is_localhost(host),
    }
}

/// The host of a registry, without its port.
pub(crate) fn host_of(registry: &str) -> &str {
    match registry.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => registry,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_name_and_by_address() {
        for loopback in [
            "localhost",
            "localhost:5000",
            "a.localhost",
            "127.0.0.1:1",
            "[::1]:5000",
            "127.9.9.9",
        ] {
            assert!(is_loopback(loopback), "{loopback}");
        }
        for other in [
            "registry.test",
            "registry.test:5000",
            "10.0.0.1:5000",
            "localhost.test",
        ] {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
