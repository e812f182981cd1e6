//! Content type and disposition of a file, for the headers of a download. Pure.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// The media type, from the name or else from the first bytes.
pub(super) fn media_type(name: &str, head: &[u8]) -> String {
    let Some(guess) = mime_guess::from_path(name).first_raw() else {
        let is_text = std::str::from_utf8(head).map_or_else(
            |error| error.error_len().is_none() && error.valid_up_to() > 0,
            |_| !head.is_empty(),
        );
        let is_text = is_text && !head.contains(&0);
        return if is_text {
            "text/plain; charset=utf-8"
        } else {
            "application/octet-stream"
        }
        .to_owned();
    };
    if guess.starts_with("text/") {
        format!("{guess}; charset=utf-8")
    } else {
        guess.to_owned()
    }
}

/// Characters that RFC 5987 lets stand unescaped.
const ATTRIBUTE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// `Content-Disposition` for a name, as a token, a quoted string or in the extended notation.
pub(super) fn disposition(name: &str) -> String {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if !name.is_empty() && name.bytes().all(is_token) {
        return format!("inline; filename={name}");
    }
    if name.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        let escaped = name.replace('\\', "\\\\").replace('"', "\\\"");
        return format!("inline; filename=\"{escaped}\"");
    }
    format!(
        "inline; filename*=utf-8''{}",
        utf8_percent_encode(name, ATTRIBUTE)
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_name_decides_and_then_the_first_bytes() {
        assert_eq!(media_type("a.json", b""), "application/json");
        assert_eq!(media_type("a.txt", b"\0"), "text/plain; charset=utf-8");
        assert_eq!(
            media_type("noext", "grüße".as_bytes()),
            "text/plain; charset=utf-8"
        );
        assert_eq!(
            media_type("noext", b"\x7fELF\0"),
            "application/octet-stream"
        );
        assert_eq!(media_type("noext", b""), "application/octet-stream");
    }

    #[test]
    fn names_are_written_in_the_simplest_notation_that_holds_them() {
        assert_eq!(disposition("a.txt"), "inline; filename=a.txt");
        assert_eq!(
            disposition("a \"b\".txt"),
            r#"inline; filename="a \"b\".txt""#
        );
        assert_eq!(
            disposition("ü\n.txt"),
            "inline; filename*=utf-8''%C3%BC%0A.txt"
        );
    }

    proptest! {
        #[test]
        fn a_disposition_is_always_a_valid_header(name in "\\PC{0,24}|[\\x00-\\x20\"\\\\]{0,8}") {
            let header = disposition(&name);
            prop_assert!(http::HeaderValue::from_str(&header).is_ok(), "{}", header);
        }
    }
}
