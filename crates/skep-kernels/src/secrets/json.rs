//! Masking of JSON: of its strings, whatever they are escaped with, of the names in objects,
//! and of numbers that are secrets.
//!
//! Strings are not turned into Rust's: code may print half a surrogate pair, which no `String`
//! holds. Here it is encoded in three bytes, as any other character of that size would be, and
//! written again as it was.

use std::fmt::Write as _;
use std::sync::Arc;

use skep_jupyter::JsonText;

use super::{MASK, Masker, Patterns};

/// Number of bytes of a string that are decoded at once.
const PIECE: usize = 64 << 10;

impl Patterns {
    /// The same value without secrets; itself if there are none.
    pub(crate) fn mask_json(self: &Arc<Self>, value: &JsonText) -> JsonText {
        let text = value.as_str().as_bytes();
        let mut masked = String::new();
        let mut copied = 0;
        let mut place = 0;
        while place < text.len() {
            let end = place + token(&text[place..]);
            if let Some(replaced) = self.mask_token(&text[place..end]) {
                masked.push_str(&value.as_str()[copied..place]);
                masked.push_str(&replaced);
                copied = end;
            }
            place = end;
        }
        if copied == 0 {
            return value.clone();
        }
        masked.push_str(&value.as_str()[copied..]);
        JsonText::written(masked)
    }

    fn mask_token(self: &Arc<Self>, token: &[u8]) -> Option<String> {
        let mut masker = Masker::new(Arc::clone(self));
        let mut nowhere = Vec::new();
        match token {
            [b'"', content @ ..] => {
                let content = content.strip_suffix(b"\"").unwrap_or(content);
                // Most strings have no secret and some are large, so they are looked at first.
                decode(content, |piece| {
                    masker.push(piece, &mut nowhere);
                    nowhere.clear();
                });
                masker.finish(&mut nowhere);
                masker.has_masked().then(|| self.masked_string(content))
            }
            [b'-' | b'0'..=b'9', ..] => {
                masker.push(token, &mut nowhere);
                masker.finish(&mut nowhere);
                // A number with a mask in it is none any more, so all of it becomes a string.
                masker.has_masked().then(|| format!("\"{MASK}\""))
            }
            _ => None,
        }
    }

    fn masked_string(self: &Arc<Self>, content: &[u8]) -> String {
        let mut masker = Masker::new(Arc::clone(self));
        let mut masked = Vec::new();
        decode(content, |piece| masker.push(piece, &mut masked));
        masker.finish(&mut masked);
        encoded(&masked)
    }
}

impl Masker {
    /// Takes a piece of a text, and says what can be shown now, if anything can.
    pub(crate) fn push_json(&mut self, text: &JsonText) -> Option<JsonText> {
        let text = text.as_str().as_bytes();
        let content = text.strip_prefix(b"\"").unwrap_or(text);
        let content = content.strip_suffix(b"\"").unwrap_or(content);
        let mut shown = Vec::new();
        decode(content, |piece| self.push(piece, &mut shown));
        string(&shown)
    }

    /// Returns the text that was held back, if any.
    pub(crate) fn finish_json(&mut self) -> Option<JsonText> {
        let mut shown = Vec::new();
        self.finish(&mut shown);
        string(&shown)
    }
}

fn string(bytes: &[u8]) -> Option<JsonText> {
    (!bytes.is_empty()).then(|| JsonText::written(encoded(bytes)))
}

/// The length of the first token: a string, a number or word, or one other character.
fn token(text: &[u8]) -> usize {
    match text {
        [b'"', rest @ ..] => {
            let mut place = 0;
            while place < rest.len() {
                match rest[place] {
                    b'"' => return place + 2,
                    b'\\' => place += 2,
                    _ => place += 1,
                }
            }
            text.len()
        }
        [first, rest @ ..] if first.is_ascii_alphanumeric() || *first == b'-' => {
            let is_inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
            1 + rest.iter().take_while(|byte| is_inside(byte)).count()
        }
        _ => 1,
    }
}

/// Says what stands in a string, in pieces that end between characters.
fn decode(content: &[u8], mut each: impl FnMut(&[u8])) {
    let mut piece = Vec::new();
    let mut rest = content;
    while !rest.is_empty() {
        let plain = rest.iter().position(|byte| *byte == b'\\');
        let (run, escape) = rest.split_at(plain.unwrap_or(rest.len()));
        for part in run.chunks(PIECE) {
            piece.extend_from_slice(part);
            if piece.len() >= PIECE {
                each(&piece);
                piece.clear();
            }
        }
        let length = unescape(escape, &mut piece);
        rest = &escape[length..];
    }
    if !piece.is_empty() {
        each(&piece);
    }
}

/// Appends what the escape at the beginning of `text` means, and says how long it is.
fn unescape(text: &[u8], piece: &mut Vec<u8>) -> usize {
    let Some(kind) = text.get(1) else {
        return text.len();
    };
    let character = match kind {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'f' => 12,
        b'u' => {
            let first = unit(text);
            let second = text.get(6..).map(unit);
            if let (0xd800..0xdc00, Some(second @ 0xdc00..0xe000)) = (first, second) {
                push_point(
                    piece,
                    0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00),
                );
                return 12;
            }
            push_point(piece, first);
            return text.len().min(6);
        }
        other => *other,
    };
    piece.push(character);
    2
}

/// The number in `\u00e4`; 0 if there is none.
fn unit(text: &[u8]) -> u32 {
    text.strip_prefix(b"\\u")
        .and_then(|rest| rest.get(..4))
        .and_then(|digits| std::str::from_utf8(digits).ok())
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .unwrap_or(0)
}

fn push_point(piece: &mut Vec<u8>, point: u32) {
    match char::from_u32(point) {
        Some(character) => {
            piece.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        }
        // Half a pair.
        None => {
            let low = |shift: u32| 0x80 | u8::try_from((point >> shift) & 0x3f).unwrap_or(0);
            piece.extend_from_slice(&[
                0xe0 | u8::try_from(point >> 12).unwrap_or(0),
                low(6),
                low(0),
            ]);
        }
    }
}

/// Encodes a text as a JSON string in ASCII.
fn encoded(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 2);
    text.push('"');
    let mut rest = bytes;
    while let [first, ..] = rest {
        let length = match first {
            0..0x80 => 1,
            0..0xe0 => 2,
            0..0xf0 => 3,
            _ => 4,
        };
        let (character, after) = rest.split_at(length.min(rest.len()));
        push_escaped(&mut text, character);
        rest = after;
    }
    text.push('"');
    text
}

fn push_escaped(text: &mut String, character: &[u8]) {
    match character {
        b"\"" => text.push_str("\\\""),
        b"\\" => text.push_str("\\\\"),
        b"\n" => text.push_str("\\n"),
        b"\r" => text.push_str("\\r"),
        b"\t" => text.push_str("\\t"),
        [ascii @ 0x20..0x80] => text.push(char::from(*ascii)),
        _ => {
            let point = point(character);
            let mut units = [0; 2];
            let units: &[u16] = match char::from_u32(point) {
                Some(character) => character.encode_utf16(&mut units),
                None => &[u16::try_from(point).unwrap_or(0xfffd)],
            };
            for unit in units {
                write!(text, "\\u{unit:04x}").expect("a string takes everything");
            }
        }
    }
}

/// The number of an encoded character, half pairs included.
fn point(character: &[u8]) -> u32 {
    let [first, rest @ ..] = character else {
        return 0;
    };
    let first = match rest.len() {
        0 => u32::from(*first),
        1 => u32::from(first & 0x1f),
        2 => u32::from(first & 0x0f),
        _ => u32::from(first & 0x07),
    };
    rest.iter()
        .fold(first, |point, byte| (point << 6) | u32::from(byte & 0x3f))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use skep_types::Secrets;

    fn patterns(values: &[&str]) -> Arc<Patterns> {
        let values = values.iter().map(|value| (*value).to_owned());
        Patterns::new(&[Secrets::new(values).unwrap()]).unwrap()
    }

    fn masked(values: &[&str], json: &str) -> String {
        let text = JsonText::written(json.to_owned());
        patterns(values).mask_json(&text).as_str().to_owned()
    }

    #[test]
    fn strings_names_and_numbers_are_masked_and_the_rest_stays_as_it_is() {
        let json =
            r#"{"a" : ["x hunter22 y", 12345678, -1.5e3, true, null], "hunter22": "\ud83d"}"#;
        assert_eq!(
            masked(&["hunter22", "12345678"], json),
            r#"{"a" : ["x *** y", "***", -1.5e3, true, null], "***": "\ud83d"}"#
        );
        assert_eq!(masked(&["unseen-1"], json), json);
    }

    #[test]
    fn a_secret_is_found_however_its_characters_are_escaped() {
        for json in [
            r#""a\u0068unter22\"""#,
            r#""ah\u0075nter22\"""#,
            r#""ahunter22\"""#,
        ] {
            assert_eq!(masked(&["hunter22"], json), r#""a***\"""#);
        }
        assert_eq!(
            masked(&["pass\u{e4}\u{1f600}"], r#""pass\u00E4\ud83d\ude00!""#),
            r#""***!""#
        );
    }

    #[test]
    fn a_large_value_without_secrets_is_not_copied() {
        let large = JsonText::string(&"x".repeat(1 << 20));
        let place = large.as_str().as_ptr();
        let masked = patterns(&["hunter22"]).mask_json(&large);
        assert_eq!(masked.as_str().as_ptr(), place);
    }

    #[test]
    fn a_secret_over_the_edge_of_two_texts_is_masked() {
        let mut masker = Masker::new(patterns(&["hunter22"]));
        let mut push = |text: &str| masker.push_json(&JsonText::string(text));
        assert_eq!(push("say hun").unwrap().as_str(), "\"say \"");
        assert_eq!(push("ter"), None);
        assert_eq!(push("22\n").unwrap().as_str(), "\"***\\n\"");
        assert_eq!(push("h"), None);
        assert_eq!(masker.finish_json().unwrap().as_str(), "\"h\"");
    }

    proptest! {
        #[test]
        fn what_has_no_secret_comes_out_as_the_same_string(
            units in prop::collection::vec(any::<u16>(), 0..40),
        ) {
            let text = units.iter().fold(String::from("\""), |mut text, unit| {
                write!(text, "\\u{unit:04x}").unwrap();
                text
            }) + "\"";
            let mut bytes = Vec::new();
            decode(&text.as_bytes()[1..text.len() - 1], |piece| bytes.extend_from_slice(piece));
            let again = encoded(&bytes);
            let mut bytes_again = Vec::new();
            decode(&again.as_bytes()[1..again.len() - 1], |piece| {
                bytes_again.extend_from_slice(piece);
            });
            prop_assert_eq!(&bytes, &bytes_again);
            if let Ok(expected) = String::from_utf16(&units) {
                let decoded: String = serde_json::from_str(&again).unwrap();
                prop_assert_eq!(decoded, expected);
            }
        }

        #[test]
        fn any_text_in_pieces_is_the_same_text(pieces in prop::collection::vec("\\PC{0,10}", 0..6)) {
            let mut masker = Masker::new(patterns(&["hunter22"]));
            let mut shown = String::new();
            for piece in &pieces {
                let text = masker.push_json(&JsonText::string(piece));
                shown.extend(text.and_then(|text| text.decode()));
            }
            shown.extend(masker.finish_json().and_then(|text| text.decode()));
            prop_assert_eq!(shown, pieces.concat());
        }
    }
}
