//! The host and port that a request names.

use std::net::Ipv6Addr;

use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Uri, Version};

/// A host and perhaps a port, and nothing else: no user, no path, no second port.
///
/// Whoever reads it, the proxy, the API or a service in a sandbox, finds the same host in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Authority<'a> {
    text: &'a str,
    host: &'a str,
}

/// A request that names no host, several, or something else than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidAuthority;

impl<'a> Authority<'a> {
    /// The authority that a request names; only HTTP/1.0 may do without.
    pub(crate) fn of(parts: &'a Parts) -> Result<Option<Self>, InvalidAuthority> {
        let named = Self::named(&parts.uri, &parts.headers)?;
        if named.is_none() && parts.version > Version::HTTP_10 {
            return Err(InvalidAuthority);
        }
        Ok(named)
    }

    /// The host and port, as written.
    pub(crate) fn as_str(self) -> &'a str {
        self.text
    }

    /// The host in lower case, without brackets and the dot that may end it.
    pub(crate) fn host(self) -> String {
        self.host.trim_end_matches('.').to_ascii_lowercase()
    }

    fn named(uri: &'a Uri, headers: &'a HeaderMap) -> Result<Option<Self>, InvalidAuthority> {
        let mut headers = headers.get_all(HOST).iter();
        let header = headers.next().map(Self::read).transpose()?;
        if headers.next().is_some() {
            return Err(InvalidAuthority);
        }
        // HTTP/2 clients send only `:authority`, and where there are both it counts.
        match uri.authority() {
            Some(authority) => Self::parse(authority.as_str()).map(Some),
            None => Ok(header),
        }
    }

    fn read(value: &'a HeaderValue) -> Result<Self, InvalidAuthority> {
        Self::parse(value.to_str().map_err(|_| InvalidAuthority)?)
    }

    fn parse(text: &'a str) -> Result<Self, InvalidAuthority> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or(InvalidAuthority)?;
                host.parse::<Ipv6Addr>().map_err(|_| InvalidAuthority)?;
                (host, port)
            }
            None => {
                let (host, port) = text.split_at(text.find(':').unwrap_or(text.len()));
                let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                if host.is_empty() || !host.bytes().all(letter) {
                    return Err(InvalidAuthority);
                }
                (host, port)
            }
        };
        // RFC 3986 lets a port be empty.
        if ["", ":"].contains(&port) || port.strip_prefix(':').is_some_and(is_port) {
            Ok(Self { text, host })
        } else {
            Err(InvalidAuthority)
        }
    }
}

fn is_port(digits: &str) -> bool {
    digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn a_host_and_a_port_are_read_and_nothing_else() {
        for (text, host) in [
            ("localhost", "localhost"),
            ("LocalHost.:3000", "localhost"),
            ("my_box.example:", "my_box.example"),
            ("127.0.0.1:8080", "127.0.0.1"),
            ("[::1]", "::1"),
            ("[::1]:3000", "::1"),
        ] {
            assert_eq!(Authority::parse(text).unwrap().host(), host, "{text}");
        }
        for text in [
            "",
            ":80",
            "localhost:1@evil.example",
            "user@localhost",
            "evil.example/.localhost",
            "evil.example\\.localhost",
            "localhost?x",
            "localhost#x",
            "a\"<script>",
            "localhost:evil:80",
            "localhost:80:80",
            "localhost:65536",
            "localhost:+80",
            "local host",
            "[localhost]",
            "[::1",
            "[::1]80",
            "[::1]x:80",
            "::1",
            "%6cocalhost",
        ] {
            assert_eq!(Authority::parse(text), Err(InvalidAuthority), "{text}");
        }
    }

    #[track_caller]
    fn check(version: Version, uri: &str, hosts: &[&str], expected: Result<Option<&str>, ()>) {
        let mut request = Request::get(uri).version(version);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let found = Authority::of(&parts).map(|named| named.map(Authority::as_str));
        assert_eq!(found.map_err(|_| ()), expected, "{uri} {hosts:?}");
    }

    #[test]
    fn one_host_is_named_and_only_http_1_0_may_do_without() {
        check(Version::HTTP_11, "/", &["a.test:1"], Ok(Some("a.test:1")));
        check(Version::HTTP_11, "/", &[], Err(()));
        check(Version::HTTP_2, "/", &[], Err(()));
        check(Version::HTTP_10, "/", &[], Ok(None));
        check(Version::HTTP_11, "/", &["a.test", "a.test"], Err(()));
        check(Version::HTTP_10, "/", &["a.test", "b.test"], Err(()));
        let absolute = "http://a.test/";
        check(Version::HTTP_2, absolute, &[], Ok(Some("a.test")));
        check(Version::HTTP_11, absolute, &["b.test"], Ok(Some("a.test")));
        check(Version::HTTP_11, absolute, &["b.test/x"], Err(()));
        check(Version::HTTP_2, "http://x:@a.test/", &[], Err(()));
    }
}
