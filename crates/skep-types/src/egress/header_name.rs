//! Names of headers that rules put into requests.

use std::fmt;
use std::str::FromStr;

const LONGEST: usize = 64;

/// Headers that say where a message ends, what its connection is for, or which host is meant. A rule
/// that could write them could make one request look like two, or go to another host than the one
/// that was judged.
const OF_THE_CONNECTION: [&str; 13] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Name of a header that a rule may set. Equal in whatever case.
#[derive(Debug, Clone)]
pub struct HeaderName(Box<str>);

/// A text that is not the name of such a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderNameError {
    /// It is no token of HTTP, or longer than 64 letters.
    #[error("not the name of a header")]
    Invalid,
    /// It belongs to the connection or decides the host.
    #[error("a header that rules cannot set")]
    OfTheConnection,
}

impl HeaderName {
    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HeaderName {
    type Err = HeaderNameError;

    fn from_str(text: &str) -> Result<Self, HeaderNameError> {
        let is_letter =
            |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if !(1..=LONGEST).contains(&text.len()) || !text.bytes().all(is_letter) {
            return Err(HeaderNameError::Invalid);
        }
        let mut taken = OF_THE_CONNECTION.iter();
        if taken.any(|name| name.eq_ignore_ascii_case(text)) {
            return Err(HeaderNameError::OfTheConnection);
        }
        Ok(Self(text.into()))
    }
}

impl PartialEq for HeaderName {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for HeaderName {}

impl fmt::Display for HeaderName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_token_and_equal_in_any_case() {
        let name: HeaderName = "X-Api_Key!".parse().unwrap();
        assert_eq!(name.as_str(), "X-Api_Key!");
        assert_eq!(name, "x-api_key!".parse().unwrap());
        let long = "x".repeat(65);
        for text in ["", "a b", "a:", ":path", "a\r\nb", "é", "a,b", &long] {
            let invalid = Err(HeaderNameError::Invalid);
            assert_eq!(text.parse::<HeaderName>(), invalid, "{text}");
        }
    }

    #[test]
    fn what_frames_a_message_or_names_its_host_is_no_rules_affair() {
        for text in ["Host", "content-length", "Transfer-Encoding", "CONNECTION"] {
            let refused = Err(HeaderNameError::OfTheConnection);
            assert_eq!(text.parse::<HeaderName>(), refused, "{text}");
        }
    }
}
