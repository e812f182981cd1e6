//! JSON that stays text.

use std::fmt::Write;

use bytes::Bytes;
use serde_json::value::RawValue;

/// A JSON value as it is written: ASCII, valid, and without a line break.
///
/// What a kernel sends goes on to the client unread, so a result of fifty megabytes is neither
/// parsed into values nor copied. ASCII because both official clients break on other text:
/// one splits lines at U+2028, the other decodes each piece of the network alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonText(Bytes);

impl JsonText {
    /// A value found in `frame`, without a copy if it is ASCII already.
    pub fn in_frame(frame: &Bytes, value: &RawValue) -> Self {
        let text = value.get();
        // Outside strings a line break may stand between any two tokens.
        if !text.is_ascii() || text.contains(['\n', '\r']) {
            return Self(Bytes::from(rewritten(text)));
        }
        let (start, end) = (
            frame.as_ptr() as usize,
            frame.as_ptr() as usize + frame.len(),
        );
        let place = text.as_ptr() as usize;
        if place >= start && place + text.len() <= end {
            Self(frame.slice_ref(text.as_bytes()))
        } else {
            Self(Bytes::copy_from_slice(text.as_bytes()))
        }
    }

    /// `text` as a JSON string.
    pub fn string(text: &str) -> Self {
        let quoted = serde_json::to_string(text).expect("a string is always JSON");
        Self(Bytes::from(rewritten(&quoted)))
    }

    /// A string of JSON whose inside, without the quotes around it, is `inside`.
    pub(crate) fn quoted(inside: &str) -> Self {
        Self(Bytes::from(rewritten(&format!("\"{inside}\""))))
    }

    /// JSON that the caller has written.
    pub fn written(json: String) -> Self {
        if json.is_ascii() && !json.contains(['\n', '\r']) {
            Self(Bytes::from(json))
        } else {
            Self(Bytes::from(rewritten(&json)))
        }
    }

    /// Any value that has a JSON form.
    ///
    /// # Errors
    ///
    /// If it has none.
    pub fn of(value: &impl serde::Serialize) -> Result<Self, serde_json::Error> {
        let text = serde_json::to_string(value)?;
        Ok(Self(Bytes::from(rewritten(&text))))
    }

    /// Returns the JSON text itself.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("it is ASCII by construction")
    }

    /// The text as bytes that can be shared.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The same in memory of its own, so that nothing else stays alive because of it.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self(Bytes::copy_from_slice(&self.0))
    }

    /// The string that this is, if it is one.
    pub fn decode(&self) -> Option<String> {
        serde_json::from_slice(&self.0).ok()
    }

    /// Returns the content of this JSON string without the quotes that are part of it, if it begins
    /// and ends with the same kind; `None` if there are no such quotes.
    ///
    /// This is what the contract does to the text of a result, so that the value `'a'` is
    /// shown as `a`. It is as blind as it sounds: `'a' + 'b'` becomes `a' + 'b`.
    pub fn within_quotes(&self) -> Option<Bytes> {
        let text = self.as_str();
        ["'", "\\\""].into_iter().find_map(|quote| {
            let opening = 1 + quote.len();
            let is_quoted = text.len() > opening
                && text.starts_with('"')
                && text[1..].starts_with(quote)
                && text[..text.len() - 1].ends_with(quote);
            // A lone quote both opens and closes.
            let closing = text.len().saturating_sub(opening).max(opening);
            is_quoted.then(|| self.0.slice(opening..closing))
        })
    }
}

/// The same JSON in ASCII and on one line.
///
/// Characters beyond ASCII occur in strings only, and line breaks outside strings only.
fn rewritten(text: &str) -> String {
    let mut ascii = String::with_capacity(text.len() + text.len() / 8);
    for character in text.chars() {
        match character {
            '\n' | '\r' => ascii.push(' '),
            // DEL is ASCII, but terminals act on it.
            character if character.is_ascii() => ascii.push(character),
            character => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(ascii, "\\u{unit:04x}").expect("a string takes everything");
                }
            }
        }
    }
    ascii
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stripped(shown: &str) -> Option<String> {
        let text = JsonText::string(shown);
        match text.within_quotes() {
            Some(content) => {
                let content = std::str::from_utf8(&content).unwrap();
                serde_json::from_str(&format!("\"{content}\"")).ok()
            }
            None => text.decode(),
        }
    }

    #[track_caller]
    fn check_quotes(shown: &str, expected: &str) {
        assert_eq!(stripped(shown).as_deref(), Some(expected), "{shown}");
    }

    #[test]
    fn one_pair_of_equal_quotes_is_removed() {
        check_quotes("'a'", "a");
        check_quotes("\"it's\"", "it's");
        check_quotes("''", "");
        check_quotes("'", "");
        check_quotes("\"", "");
        check_quotes("\"'\"", "'");
        check_quotes("'partial' and 'quoted'", "partial' and 'quoted");
        check_quotes("'a\\n'", "a\\n");
        check_quotes("\"ends with \\\\\"", "ends with \\\\");
    }

    #[test]
    fn other_texts_keep_their_quotes() {
        for text in ["", "a", "'a\"", "\"a'", "5", "['a', 'b']", "'a"] {
            check_quotes(text, text);
        }
    }

    #[test]
    fn a_value_of_a_frame_is_not_copied() {
        let frame = Bytes::from_static(br#"{"text":"abc"}"#);
        let parsed: std::collections::BTreeMap<&str, &RawValue> =
            serde_json::from_slice(&frame).unwrap();
        let text = JsonText::in_frame(&frame, parsed["text"]);
        assert_eq!(text.as_str(), "\"abc\"");
        assert_eq!(text.into_bytes().as_ptr(), frame[8..].as_ptr());
    }

    #[test]
    fn a_value_that_is_not_ascii_is_written_again() {
        let frame = Bytes::from("{\"text\":[\n\"ü\u{2028}😀\"]}");
        let parsed: std::collections::BTreeMap<&str, &RawValue> =
            serde_json::from_slice(&frame).unwrap();
        let text = JsonText::in_frame(&frame, parsed["text"]);
        assert_eq!(text.as_str(), "[ \"\\u00fc\\u2028\\ud83d\\ude00\"]");
    }

    proptest! {
        #[test]
        fn every_string_survives_in_ascii_and_on_one_line(text in "\\PC*|[\\x00-\\x7f\u{2028}\u{85}]*") {
            let json = JsonText::string(&text);
            prop_assert!(json.as_str().bytes().all(|byte| (0x20..0x80).contains(&byte)));
            prop_assert_eq!(json.decode(), Some(text));
        }

        #[test]
        fn removing_quotes_leaves_valid_json(text in "['\"\\\\a]{0,6}") {
            let stripped = stripped(&text);
            let first = text.chars().next();
            let quoted = matches!(first, Some('\'' | '"')) && text.chars().last() == first;
            let expected = if quoted {
                text.get(1..text.len().saturating_sub(1)).unwrap_or_default().to_owned()
            } else {
                text
            };
            prop_assert_eq!(stripped, Some(expected));
        }
    }
}
