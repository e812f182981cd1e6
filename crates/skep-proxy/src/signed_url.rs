//! URLs that name a file, and whose signature alone says of which sandbox.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::Method;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use sha2::{Digest, Sha256};
use skep_types::AccessToken;
use subtle::ConstantTimeEq;

/// What a signature vouches for, and the signature.
#[derive(Debug)]
pub(crate) struct SignedUrl {
    path: String,
    operation: &'static str,
    username: String,
    expiration: Option<String>,
    signature: String,
}

impl SignedUrl {
    /// Reads a signed URL from the head of a request.
    pub(crate) fn read(parts: &Parts) -> Self {
        let query = parts.uri.query().unwrap_or_default();
        Self {
            path: parameter(query, "path").unwrap_or_default(),
            operation: if parts.method == Method::POST {
                "write"
            } else {
                "read"
            },
            username: parameter(query, "username").unwrap_or_default(),
            expiration: parameter(query, "signature_expiration"),
            signature: parameter(query, "signature").unwrap_or_default(),
        }
    }

    /// Whether `token` made this signature. Whether it still counts is for the agent to say.
    pub(crate) fn is_signed_with(&self, token: &AccessToken) -> bool {
        let mut hash = Sha256::new();
        for part in [&self.path, self.operation, &self.username] {
            hash.update(part);
            hash.update(":");
        }
        hash.update(token.reveal());
        if let Some(expiration) = &self.expiration {
            hash.update(":");
            hash.update(expiration);
        }
        let expected = format!("v1_{}", STANDARD_NO_PAD.encode(hash.finalize()));
        expected.as_bytes().ct_eq(self.signature.as_bytes()).into()
    }
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(key, _)| *key == name)?;
    // JavaScript writes a space as a plus sign, Python as an escape.
    let spaced = value.replace('+', " ");
    Some(percent_decode_str(&spaced).decode_utf8_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[track_caller]
    fn check(method: Method, query: &str, expected: bool) {
        let token = AccessToken::from_record("0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0");
        let request = Request::builder()
            .method(method)
            .uri(format!("/files?{query}"))
            .body(())
            .unwrap();
        let url = SignedUrl::read(&request.into_parts().0);
        assert_eq!(url.is_signed_with(&token), expected, "{query}");
    }

    #[test]
    fn the_contracts_own_signature_is_recognised() {
        let signature = "v1_gUtH%2Fs9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E";
        let query = format!("path=hello.txt&username=user&signature={signature}");
        check(Method::GET, &query, true);
        check(Method::POST, &query, false);
        check(
            Method::GET,
            &format!("{query}&signature_expiration=1"),
            false,
        );
        check(Method::GET, &query.replace("hello", "other"), false);
        check(Method::GET, "path=hello.txt", false);
    }

    #[test]
    fn a_space_reads_the_same_in_both_spellings() {
        assert_eq!(
            parameter("path=a+b%20c%2B", "path").as_deref(),
            Some("a b c+")
        );
    }
}
