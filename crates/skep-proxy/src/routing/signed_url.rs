//! URLs that name a file, and whose signature alone says of which sandbox.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::Method;
use http::request::Parts;
use percent_encoding::percent_decode_str;
use sha2::{Digest, Sha256};
use skep_types::AccessToken;
use subtle::ConstantTimeEq;

/// The longest path that Linux knows.
const PATH_MAX: usize = 4096;
/// The longest name of a user, and the longest time in digits, with room to spare.
const WORD_MAX: usize = 256;

/// The signed parts of a URL, and the signature.
#[derive(Debug)]
pub(crate) struct SignedUrl {
    /// The state of the hash before the token, which is the same for every token.
    prefix: Sha256,
    expiration: Option<String>,
    signature: [u8; 32],
}

impl SignedUrl {
    /// Reads a signed URL from the head of a request. `None` if no token can have signed it.
    pub(crate) fn read(parts: &Parts) -> Option<Self> {
        let query = parts.uri.query().unwrap_or_default();
        let within = |name: &str, limit: usize| {
            let value = parameter(query, name);
            let fits = value.as_ref().is_none_or(|value| value.len() <= limit);
            fits.then_some(value)
        };
        let signature = within("signature", WORD_MAX)??;
        let digest = STANDARD_NO_PAD
            .decode(signature.strip_prefix("v1_")?)
            .ok()?;
        let operation = if parts.method == Method::POST {
            "write"
        } else {
            "read"
        };
        let path = within("path", PATH_MAX)?.unwrap_or_default();
        let username = within("username", WORD_MAX)?.unwrap_or_default();
        let mut prefix = Sha256::new();
        for part in [path.as_str(), operation, username.as_str()] {
            prefix.update(part);
            prefix.update(":");
        }
        Some(Self {
            prefix,
            expiration: within("signature_expiration", WORD_MAX)?,
            signature: digest.try_into().ok()?,
        })
    }

    /// Returns true if `token` made this signature. Only the agent says if it has expired.
    pub(crate) fn is_signed_with(&self, token: &AccessToken) -> bool {
        let mut hash = self.prefix.clone();
        hash.update(token.reveal());
        if let Some(expiration) = &self.expiration {
            hash.update(":");
            hash.update(expiration);
        }
        hash.finalize().as_slice().ct_eq(&self.signature).into()
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
        let signed = url.is_some_and(|url| url.is_signed_with(&token));
        assert_eq!(signed, expected, "{query}");
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
    fn what_nobody_can_have_signed_is_not_hashed() {
        let read = |query: &str| {
            let request = Request::get(format!("/files?{query}")).body(()).unwrap();
            SignedUrl::read(&request.into_parts().0).is_some()
        };
        let signature = "signature=v1_gUtH%2Fs9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E";
        let path = |length: usize| format!("path={}&{signature}", "a".repeat(length));
        assert!(read(&path(PATH_MAX)));
        assert!(!read(&path(PATH_MAX + 1)));
        assert!(!read(&format!(
            "{signature}&username={}",
            "a".repeat(WORD_MAX + 1)
        )));
        for forged in [
            "",
            "v1_",
            "v2_gUtH",
            "v1_gUtH%2Fs9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6F",
        ] {
            assert!(!read(&format!("path=a&signature={forged}")), "{forged}");
        }
    }

    #[test]
    fn a_space_reads_the_same_in_both_spellings() {
        assert_eq!(
            parameter("path=a+b%20c%2B", "path").as_deref(),
            Some("a b c+")
        );
    }
}
