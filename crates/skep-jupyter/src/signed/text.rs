//! A long text in pieces.

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::{JsonText, Stream};

/// The length of one piece as JSON; clients need time quadratic in the length of a line.
const LARGEST: usize = 65_536;

/// The pieces of a string that stands as JSON in a frame.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) stream: Stream,
    /// The unread rest of it, without the quotes around it. It is UTF-8.
    inside: Bytes,
}

impl Pieces {
    /// The pieces of `value` in `frame`; none if it is no string, or empty.
    pub(super) fn new(stream: Stream, frame: &Bytes, value: &RawValue) -> Self {
        let text = value.get();
        let inside = text
            .strip_prefix('"')
            .and_then(|text| text.strip_suffix('"'))
            .map(|inside| frame.slice_ref(inside.as_bytes()));
        Self {
            stream,
            inside: inside.unwrap_or_default(),
        }
    }
}

impl Iterator for Pieces {
    type Item = JsonText;

    fn next(&mut self) -> Option<JsonText> {
        if self.inside.is_empty() {
            return None;
        }
        let piece = self.inside.split_to(first_piece(&self.inside));
        let piece = std::str::from_utf8(&piece).expect("it ends between two characters");
        Some(JsonText::quoted(&without_halves(piece)))
    }
}

/// Returns the end of the first piece: between two characters, of which neither is half a pair.
fn first_piece(inside: &[u8]) -> usize {
    let (mut end, mut cost) = (0, 0);
    while let Some((width, written)) = character(&inside[end..]) {
        cost += written;
        if cost > LARGEST {
            break;
        }
        end += width;
    }
    end
}

/// Returns the length of the next character, and its length when written in ASCII.
fn character(rest: &[u8]) -> Option<(usize, usize)> {
    let (width, written) = match rest.first()? {
        b'\\' if rest.get(1) == Some(&b'u') => {
            let is_pair =
                is_half(rest, b"89abAB") && is_half(rest.get(6..).unwrap_or_default(), b"cdefCDEF");
            if is_pair { (12, 12) } else { (6, 6) }
        }
        b'\\' => (2, 2),
        0..0x80 => (1, 1),
        0x80..0xe0 => (2, 6),
        0xe0..0xf0 => (3, 6),
        0xf0.. => (4, 12),
    };
    Some((width.min(rest.len()), written))
}

/// Returns true if an escape is here that is half of a pair, the first or the second.
fn is_half(rest: &[u8], which: &[u8]) -> bool {
    matches!(rest, [b'\\', b'u', b'd' | b'D', digit, ..] if which.contains(digit))
}

/// Half a pair is no character, and strict parsers refuse it.
fn without_halves(inside: &str) -> String {
    let mut whole = String::with_capacity(inside.len() + 2);
    let mut rest = inside;
    while let Some((width, _)) = character(rest.as_bytes()) {
        let (text, after) = rest.split_at(width);
        let half = width == 6 && is_half(text.as_bytes(), b"89abcdefABCDEF");
        whole.push_str(if half { "\\ufffd" } else { text });
        rest = after;
    }
    whole
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(json: &str) -> Vec<JsonText> {
        let frame = Bytes::copy_from_slice(json.as_bytes());
        let value: &RawValue = serde_json::from_slice(&frame).unwrap();
        Pieces::new(Stream::Stdout, &frame, value).collect()
    }

    fn joined(pieces: &[JsonText]) -> String {
        pieces.iter().map(|piece| piece.decode().unwrap()).collect()
    }

    #[test]
    fn a_long_text_becomes_several() {
        for (character, length) in [("a", 1), ("ü", 7), ("😀", 13), ("\n", 2)] {
            let text = character.repeat(LARGEST);
            let pieces = pieces(&serde_json::to_string(&text).unwrap());
            assert_eq!(pieces.len(), length, "{character:?}");
            assert!(
                pieces
                    .iter()
                    .all(|piece| piece.as_str().len() <= LARGEST + 2)
            );
            assert_eq!(joined(&pieces), text);
        }
    }

    #[test]
    fn a_pair_of_escapes_is_not_cut_and_half_a_pair_is_replaced() {
        let json = format!("\"{}\"", "\\ud83d\\ude00".repeat(LARGEST));
        assert_eq!(joined(&pieces(&json)), "😀".repeat(LARGEST));
        let halves = r#""a\ud83d\\ud83d\udE00b\uDE00\ud83d""#;
        assert_eq!(
            joined(&pieces(halves)),
            "a\u{fffd}\\ud83d\u{fffd}b\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn what_is_no_text_has_no_pieces() {
        for json in ["\"\"", "5", "null", "[\"a\"]"] {
            assert_eq!(pieces(json), [], "{json}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn every_text_survives(text in "(\\PC|[\\x00-\\x7f])*", times in 1_usize..2000) {
            let text = text.repeat(times);
            let pieces = pieces(&serde_json::to_string(&text).unwrap());
            prop_assert_eq!(joined(&pieces), text);
        }
    }
}
