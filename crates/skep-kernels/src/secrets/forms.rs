//! The usual ways to write a value.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Characters that the usual URL encoders leave as they are, beside letters and digits: one that
/// encodes everything reserved, Python's `quote`, JavaScript's `encodeURIComponent`, `encodeURI`
/// and forms.
const KEPT_IN_URLS: [&str; 5] = ["-_.~", "-_.~/", "-_.~!'()*", "-_.~!'()*;/?:@&=+$,#", "-_.*"];

/// All ways to write `value`, itself included, in no order and some more than once.
pub(super) fn of(value: &str) -> Vec<Vec<u8>> {
    let mut forms = vec![value.to_owned()];
    forms.extend(escaped(value));
    forms.extend(in_urls(value));
    forms.extend(in_base64(value.as_bytes()));
    let hex = value.bytes().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string takes everything");
        hex
    });
    forms.push(hex.to_uppercase());
    forms.push(hex);
    forms.into_iter().map(String::into_bytes).collect()
}

/// Returns the value as part of a string in JSON, of JSON in a string in JSON, and of a string in
/// Python.
fn escaped(value: &str) -> Vec<String> {
    let json = escape(value, "\"", Beyond::Kept);
    let ascii = escape(value, "\"", Beyond::Escaped);
    vec![
        escape(&json, "\"", Beyond::Kept),
        escape(&ascii, "\"", Beyond::Kept),
        ascii.replace('/', "\\/"),
        json.replace('/', "\\/"),
        // Python chooses the quotes that occur least.
        escape(value, "", Beyond::Kept),
        escape(value, "'", Beyond::Kept),
        upper_case_escapes(&ascii),
        ascii,
        json,
    ]
}

/// Treatment of characters beyond ASCII.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beyond {
    Kept,
    Escaped,
}

fn escape(value: &str, quotes: &str, beyond: Beyond) -> String {
    let mut escaped = String::new();
    for character in value.chars() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            quote if quotes.contains(quote) => {
                escaped.push('\\');
                escaped.push(quote);
            }
            '\u{8}' if !quotes.is_empty() => escaped.push_str("\\b"),
            '\u{c}' if !quotes.is_empty() => escaped.push_str("\\f"),
            control if control.is_ascii_control() && quotes == "\"" => {
                push_unit(&mut escaped, control as u16);
            }
            control if control.is_ascii_control() => {
                write!(escaped, "\\x{:02x}", control as u32).expect("a string takes everything");
            }
            character if character.is_ascii() || beyond == Beyond::Kept => escaped.push(character),
            character => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    push_unit(&mut escaped, *unit);
                }
            }
        }
    }
    escaped
}

fn push_unit(text: &mut String, unit: u16) {
    write!(text, "\\u{unit:04x}").expect("a string takes everything");
}

/// `\u00E4` instead of `\u00e4`. A backslash that is part of the value is doubled, and so
/// stays what it is.
fn upper_case_escapes(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(place) = rest.find('\\') {
        let (before, escape) = rest.split_at(place);
        result.push_str(before);
        let length = if escape.starts_with("\\u") { 6 } else { 2 };
        let (escape, after) = escape.split_at(length.min(escape.len()));
        match escape.strip_prefix("\\u") {
            Some(digits) => {
                result.push_str("\\u");
                result.push_str(&digits.to_uppercase());
            }
            None => result.push_str(escape),
        }
        rest = after;
    }
    result.push_str(rest);
    result
}

fn in_urls(value: &str) -> Vec<String> {
    let mut forms = Vec::new();
    for kept in KEPT_IN_URLS {
        for space in ["%20", "+"] {
            for upper in [true, false] {
                forms.push(in_url(value, kept, space, upper));
            }
        }
    }
    forms
}

fn in_url(value: &str, kept: &str, space: &str, upper: bool) -> String {
    let mut encoded = String::new();
    for byte in value.bytes() {
        match byte {
            b' ' => encoded.push_str(space),
            byte if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) => {
                encoded.push(char::from(byte));
            }
            byte if upper => write!(encoded, "%{byte:02X}").expect("a string takes everything"),
            byte => write!(encoded, "%{byte:02x}").expect("a string takes everything"),
        }
    }
    encoded
}

/// Returns the parts of the base64 text that depend on the value alone, after none, one and two
/// other bytes: three bytes become four characters, so there are three alignments.
fn in_base64(value: &[u8]) -> Vec<String> {
    let mut forms = Vec::new();
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(value);
        let start = (8 * before).div_ceil(6);
        let end = 8 * bytes.len() / 6;
        for engine in [STANDARD_NO_PAD, URL_SAFE_NO_PAD] {
            forms.push(engine.encode(&bytes)[start..end].to_owned());
        }
    }
    forms
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_form_is_found_wherever_it_stands(
            before in "[a-z]{0,5}",
            value in "\\PC{6,20}",
            after in "[a-z]{0,5}",
        ) {
            let forms: Vec<String> = of(&value)
                .into_iter()
                .map(|form| String::from_utf8(form).unwrap())
                .collect();
            let whole = format!("{before}{value}{after}");
            let found = |text: &str| forms.iter().any(|form| text.contains(form.as_str()));
            prop_assert!(found(&STANDARD_NO_PAD.encode(&whole)));
            prop_assert!(found(&URL_SAFE_NO_PAD.encode(&whole)));
            prop_assert!(found(&serde_json::to_string(&whole).unwrap()));
            let twice = serde_json::to_string(&serde_json::to_string(&whole).unwrap()).unwrap();
            prop_assert!(found(&twice));
        }
    }
}
