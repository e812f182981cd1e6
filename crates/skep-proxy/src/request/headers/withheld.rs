//! Credentials that no service in a sandbox gets to see, wherever in a head they stand.

use http::header::COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue};
use skep_types::AccessToken;

use crate::request::api_key::{decode_basic, holds_api_key};

/// The secrets that are kept from a service.
pub(super) struct Withheld<'a> {
    /// The sandbox's own tokens, towards services of the user.
    pub(super) tokens: Vec<&'a AccessToken>,
}

impl Withheld<'_> {
    /// Removes every value that holds a secret, and every name that does. Of cookies, which are
    /// not all from the same hand, only those go that hold one.
    pub(super) fn remove_from(&self, headers: &mut HeaderMap) {
        let tells = |(name, value): (&HeaderName, &HeaderValue)| {
            self.is_in(name.as_str().as_bytes()) || self.is_in(value.as_bytes())
        };
        if !headers.iter().any(tells) {
            return;
        }
        let mut kept = HeaderMap::with_capacity(headers.len());
        for (name, value) in headers.iter() {
            if !tells((name, value)) {
                kept.append(name, value.clone());
            } else if name == COOKIE
                && let Some(cookies) = self.other_cookies(value)
            {
                kept.append(COOKIE, cookies);
            }
        }
        *headers = kept;
    }

    fn other_cookies(&self, value: &HeaderValue) -> Option<HeaderValue> {
        let cookies = value.as_bytes().split(|byte| *byte == b';');
        let others = cookies
            .map(<[u8]>::trim_ascii)
            .filter(|cookie| !cookie.is_empty() && !self.is_in(cookie))
            .collect::<Vec<_>>()
            .join(&b"; "[..]);
        (!others.is_empty()).then(|| HeaderValue::from_bytes(&others).ok())?
    }

    fn is_in(&self, text: &[u8]) -> bool {
        let is_in = |text: &[u8]| holds_api_key(text) || self.holds_token(text);
        is_in(text) || decode_basic(text).is_some_and(|text| is_in(&text))
    }

    /// Returns true if one of the tokens stands in a text. Words are compared as wholes, in
    /// constant time.
    fn holds_token(&self, text: &[u8]) -> bool {
        text.split(|byte| !byte.is_ascii_alphanumeric())
            .filter_map(|word| std::str::from_utf8(word).ok())
            .any(|word| self.tokens.iter().any(|token| token.matches(word)))
    }
}
