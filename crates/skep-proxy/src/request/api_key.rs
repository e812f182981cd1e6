//! Recognising the keys of this server by their form.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Prefix of API keys, and behind `sk_` of the tokens that old command-line clients send beside
/// them.
const PREFIX: &[u8] = b"e2b_";
/// The fewest digits of a key.
const DIGITS_MIN: usize = 32;

/// Name of the authentication scheme with a user name and a password, one of which may be a key.
const BASIC: &[u8] = b"basic";
const BASIC_ENCODING: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Returns true if there is an API key anywhere in a text, whatever stands around it.
pub(crate) fn holds_api_key(text: &[u8]) -> bool {
    text.windows(PREFIX.len()).enumerate().any(|(at, window)| {
        let digits = text[at + PREFIX.len()..].iter();
        window.eq_ignore_ascii_case(PREFIX)
            && digits.take_while(|byte| byte.is_ascii_hexdigit()).count() >= DIGITS_MIN
    })
}

/// Decodes a header's value of the scheme `Basic`; `None` if it is none.
pub(crate) fn decode_basic(value: &[u8]) -> Option<Vec<u8>> {
    let value = value.trim_ascii();
    let (scheme, rest) = value.split_at_checked(BASIC.len())?;
    let basic = scheme.eq_ignore_ascii_case(BASIC) && rest.first()?.is_ascii_whitespace();
    let decoded = basic.then(|| BASIC_ENCODING.decode(rest.trim_ascii()).ok());
    decoded.flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn keys_are_recognised_however_they_are_shown() {
        for value in [
            format!("e2b_{DIGITS}"),
            format!("Bearer e2b_{DIGITS}"),
            format!("BEARER\tsk_e2b_{DIGITS}"),
            format!("Bearer eyJhbGciOi, Bearer e2b_{DIGITS}"),
            format!("e2b_short,e2b_{DIGITS}"),
            format!("\"e2b_{DIGITS}\""),
            format!("Token key='E2B_{}'; x=1", DIGITS.to_uppercase()),
            format!("session=1; key=e2b_{DIGITS}; theme=dark"),
            format!("e2b_e2b_{DIGITS}"),
        ] {
            assert!(holds_api_key(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn what_a_users_own_service_asks_for_is_no_key_of_ours() {
        for value in [
            "",
            "Bearer",
            "Bearer eyJhbGciOiJIUzI1NiJ9.e30.x",
            "Basic dXNlcjpwYXNz",
            "sk-0123456789abcdef0123456789abcdef",
            "e2b_short",
            "e2b_",
            "e2b_this_is_a_name_and_not_a_key_of_ours_at_all",
        ] {
            assert!(!holds_api_key(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn names_and_passwords_are_read() {
        assert_eq!(decode_basic(b"Basic dXNlcjpwYXNz").unwrap(), b"user:pass");
        assert_eq!(decode_basic(b" bASIC  dXNlcjpwYXM= ").unwrap(), b"user:pas");
        assert_eq!(decode_basic(b"Basic dXNlcjpwYXM").unwrap(), b"user:pas");
        for other in ["Bearer dXNlcjpwYXNz", "Basic", "Basicd", "Basic %", ""] {
            assert_eq!(decode_basic(other.as_bytes()), None, "{other}");
        }
    }
}
