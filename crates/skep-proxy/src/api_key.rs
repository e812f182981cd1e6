//! Recognising the keys of this server by their form.

/// What keys begin with, and the tokens that old command-line clients send beside them.
const PREFIXES: [&[u8]; 2] = [b"e2b_", b"sk_e2b_"];
/// The fewest digits of a key.
const DIGITS_MIN: usize = 32;

/// Whether the value of a header is an API key, with or without the scheme of a bearer.
pub(crate) fn is_api_key(value: &[u8]) -> bool {
    let value = value.trim_ascii();
    let bearer = value
        .split_at_checked(BEARER.len())
        .filter(|(scheme, rest)| {
            scheme.eq_ignore_ascii_case(BEARER) && rest.first().is_some_and(u8::is_ascii_whitespace)
        });
    let key = bearer.map_or(value, |(_, key)| key.trim_ascii());
    let digits = PREFIXES.iter().find_map(|prefix| key.strip_prefix(*prefix));
    digits.is_some_and(|digits| {
        digits.len() >= DIGITS_MIN && digits.iter().all(u8::is_ascii_hexdigit)
    })
}

const BEARER: &[u8] = b"bearer";

#[cfg(test)]
mod tests {
    use super::*;

    const DIGITS: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn keys_are_recognised_however_they_are_shown() {
        for value in [
            format!("e2b_{DIGITS}"),
            format!("Bearer e2b_{DIGITS}"),
            format!("bearer   e2b_{DIGITS} "),
            format!("BEARER\tsk_e2b_{DIGITS}"),
        ] {
            assert!(is_api_key(value.as_bytes()), "{value}");
        }
    }

    #[test]
    fn what_a_users_own_service_asks_for_is_no_key_of_ours() {
        for value in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer eyJhbGciOiJIUzI1NiJ9.e30.x",
            "Basic dXNlcjpwYXNz",
            "sk-0123456789abcdef0123456789abcdef",
            "e2b_short",
            "e2b_this_is_a_name_and_not_a_key_of_ours_at_all",
            "Bearere2b_0123456789abcdef0123456789abcdef",
        ] {
            assert!(!is_api_key(value.as_bytes()), "{value}");
        }
    }
}
