//! Issuer of tokens.

use std::str::FromStr;

/// The URL below which the keys are published, and the name in every token. Without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    url: String,
    /// The host, which is the trust domain of subjects.
    host: String,
}

/// A text that is no issuer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an issuer is a URL with http or https, without user, question mark or fragment")]
pub struct IssuerError;

impl Issuer {
    /// The URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The trust domain: the URL's host in lower case.
    pub(crate) fn trust_domain(&self) -> &str {
        &self.host
    }
}

impl FromStr for Issuer {
    type Err = IssuerError;

    fn from_str(text: &str) -> Result<Self, IssuerError> {
        let url = text.trim_end_matches('/');
        let rest = url
            .strip_prefix("https://")
            .or_else(|| url.strip_prefix("http://"));
        let authority = rest
            .and_then(|rest| rest.split('/').next())
            .ok_or(IssuerError)?;
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"?#@\"<>\\".contains(&byte);
        if authority.is_empty() || !url.bytes().all(is_plain) {
            return Err(IssuerError);
        }
        let host = match authority.strip_prefix('[') {
            Some(address) => address.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        // What a trust domain may have; an address of IPv6 has other letters.
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let host = host.replace(':', "-").to_ascii_lowercase();
        if host.is_empty() || !host.bytes().all(is_letter) {
            return Err(IssuerError);
        }
        let url = url.to_owned();
        Ok(Self { url, host })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_is_a_url_and_its_host_the_trust_domain() {
        for (text, url, host) in [
            (
                "https://api.Example.com/",
                "https://api.Example.com",
                "api.example.com",
            ),
            (
                "http://127.0.0.1:3000",
                "http://127.0.0.1:3000",
                "127.0.0.1",
            ),
            (
                "https://a.test:8443/skep//",
                "https://a.test:8443/skep",
                "a.test",
            ),
            ("http://[::1]:80", "http://[::1]:80", "--1"),
        ] {
            let issuer: Issuer = text.parse().unwrap();
            assert_eq!((issuer.url(), issuer.trust_domain()), (url, host));
        }
        for text in [
            "",
            "a.test",
            "https://",
            "https:///x",
            "ftp://a",
            "https://u@a",
            "https://a?b",
            "https://a b",
        ] {
            assert_eq!(text.parse::<Issuer>(), Err(IssuerError), "{text}");
        }
    }
}
