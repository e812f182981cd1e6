//! Facts about the caller from the headers of a request. Pure.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;
use http::header::AUTHORIZATION;

/// Longest silence of a stream when the caller asks for nothing else.
const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(90);

/// The user named by `Authorization: Basic`, whose password is not used.
///
/// Other schemes and what cannot be decoded name nobody: the token is what opens the agent,
/// and proxies on the way add such headers for reasons of their own.
pub(crate) fn username(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (name, _password) = decoded.split_once(':')?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// Returns the length of silence after which a stream sends a keepalive.
pub(crate) fn keepalive(headers: &HeaderMap) -> Duration {
    headers
        .get("keepalive-ping-interval")
        .and_then(|value| value.to_str().ok()?.trim().parse().ok())
        .filter(|seconds| (1..=86_400).contains(seconds))
        .map_or(DEFAULT_KEEPALIVE, Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(value: &str) -> Option<String> {
        username(&HeaderMap::from_iter([(
            AUTHORIZATION,
            value.parse().unwrap(),
        )]))
    }

    #[test]
    fn the_user_stands_before_the_colon() {
        assert_eq!(named("Basic dXNlcjo=").as_deref(), Some("user"));
        assert_eq!(named("basic cm9vdDpwYXNz").as_deref(), Some("root"));
    }

    #[test]
    fn other_headers_name_nobody() {
        for value in [
            "Bearer dXNlcjo=",
            "Basic ???",
            "Basic dXNlcg==",
            "Basic Og==",
            "Basic",
        ] {
            assert_eq!(named(value), None, "{value}");
        }
        assert_eq!(username(&HeaderMap::new()), None);
    }

    #[test]
    fn a_senseless_interval_is_the_default() {
        let interval = |value: &str| {
            let name = http::HeaderName::from_static("keepalive-ping-interval");
            keepalive(&HeaderMap::from_iter([(name, value.parse().unwrap())]))
        };
        assert_eq!(interval("50"), Duration::from_secs(50));
        for value in ["0", "-1", "soon", "99999999999999999999"] {
            assert_eq!(interval(value), DEFAULT_KEEPALIVE, "{value}");
        }
    }
}
