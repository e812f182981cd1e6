//! Destinations of webhooks.
//!
//! Teams choose the URLs and the server connects to them from the host, so only public addresses are
//! connected to, except for hosts that the operator has named. A name is looked up once for each
//! attempt, and what it led to is checked there and then ([`PublicNames`](crate::PublicNames)).

use std::collections::BTreeSet;

use crate::{is_localhost, is_private_literal};
use reqwest::Url;

/// Longest URL, in bytes.
const LONGEST_URL: usize = 2048;

/// The hosts that webhooks may be at.
#[derive(Debug, Clone, Default)]
pub struct Destinations {
    /// Hosts at whatever address, as URLs write them.
    trusted: BTreeSet<String>,
}

/// A text that cannot be the URL of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    /// It is no URL of HTTP.
    #[error("url must begin with https:// or http:// and name a host")]
    Malformed,
    /// It is too long.
    #[error("url is longer than 2048 bytes")]
    TooLong,
    /// It has a user or a password in it, which would be shown.
    #[error("url must not have a user or a password; signatures prove who sends")]
    Credentials,
    /// It leads to this host or into its network.
    #[error(
        "url leads to a private address; the operator can allow its host in `webhooks.allowed_hosts`"
    )]
    Denied,
}

/// A URL that was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The URL.
    pub url: Url,
    /// True if the operator has named its host.
    pub is_trusted: bool,
}

impl Destinations {
    /// Public addresses, and these hosts at whatever address.
    pub fn trusting(hosts: impl IntoIterator<Item = String>) -> Self {
        let bare = |host: String| host.trim().to_ascii_lowercase();
        Self {
            trusted: hosts.into_iter().map(bare).collect(),
        }
    }

    /// Checks a URL as far as it can be without a resolver, and returns it as it will be used.
    ///
    /// # Errors
    ///
    /// [`DestinationError`]
    pub fn check(&self, text: &str) -> Result<String, DestinationError> {
        self.parse(text).map(|found| found.url.into())
    }

    /// The same, for whoever connects to it.
    ///
    /// # Errors
    ///
    /// [`DestinationError`]
    pub fn parse(&self, text: &str) -> Result<Destination, DestinationError> {
        if text.len() > LONGEST_URL {
            return Err(DestinationError::TooLong);
        }
        let mut url = Url::parse(text).map_err(|_| DestinationError::Malformed)?;
        let host = match url.host_str() {
            Some(host) if ["http", "https"].contains(&url.scheme()) => host,
            Some(_) | None => return Err(DestinationError::Malformed),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return Err(DestinationError::Credentials);
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let is_trusted = self.trusted.contains(bare) || self.trusted.contains(host);
        if !is_trusted && (is_localhost(host) || is_private_literal(host)) {
            return Err(DestinationError::Denied);
        }
        url.set_fragment(None);
        Ok(Destination { url, is_trusted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_this_host_or_in_its_network_is_denied_however_it_is_written() {
        let public = Destinations::default();
        for host in [
            "127.0.0.1",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "127.1:8080",
            "[::1]",
            "[::ffff:169.254.169.254]",
            "169.254.169.254",
            "10.0.0.1",
            "localhost",
            "a.LOCALHOST",
            "0.0.0.0",
            "１２７.0.0.1",
        ] {
            let url = format!("http://{host}/");
            assert_eq!(public.check(&url), Err(DestinationError::Denied), "{url}");
        }
        let trusting = Destinations::trusting(["127.0.0.1".to_owned(), "::1".to_owned()]);
        for url in ["http://127.0.0.1:9/a?b", "http://[::1]/"] {
            assert_eq!(trusting.check(url).as_deref(), Ok(url));
        }
        assert_eq!(
            trusting.check("http://127.0.0.2/"),
            Err(DestinationError::Denied)
        );
    }

    #[test]
    fn a_url_names_a_host_and_no_password() {
        let public = Destinations::default();
        for url in [
            "",
            "example.com",
            "ftp://example.com/",
            "file:///etc/passwd",
            "https://",
        ] {
            assert_eq!(public.check(url), Err(DestinationError::Malformed), "{url}");
        }
        assert_eq!(
            public.check("https://user:word@example.com/"),
            Err(DestinationError::Credentials)
        );
        let long = format!("https://example.com/{}", "a".repeat(LONGEST_URL));
        assert_eq!(public.check(&long), Err(DestinationError::TooLong));
        let url = "https://Hooks.Example.com/a?b=c#d";
        assert_eq!(
            public.check(url).as_deref(),
            Ok("https://hooks.example.com/a?b=c")
        );
    }
}
