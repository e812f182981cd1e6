//! Connect's envelopes, as far as a proxy must know them.

use bytes::{BufMut, Bytes, BytesMut};
use serde::Serialize;

/// Marks the envelope that ends a stream.
const END_OF_STREAM: u8 = 0b10;

/// The envelope that ends a stream with an error.
pub(crate) fn end_with_error(code: &str, message: &str) -> Bytes {
    #[derive(Serialize)]
    struct End<'a> {
        error: Error<'a>,
    }
    #[derive(Serialize)]
    struct Error<'a> {
        code: &'a str,
        message: &'a str,
    }
    let end = End {
        error: Error { code, message },
    };
    let payload = serde_json::to_vec(&end).expect("text always serialises");
    let length = u32::try_from(payload.len()).expect("our sentences are short");
    let mut envelope = BytesMut::with_capacity(5 + payload.len());
    envelope.put_u8(END_OF_STREAM);
    envelope.put_u32(length);
    envelope.put_slice(&payload);
    envelope.freeze()
}

/// Follows a stream of envelopes to know whether it is between two of them.
#[derive(Debug, Default)]
pub(crate) struct Boundary {
    /// Bytes seen of the current envelope's head.
    head: [u8; 5],
    head_seen: usize,
    /// Bytes of the current envelope's payload that are still to come.
    payload_left: usize,
    ended: bool,
}

impl Boundary {
    /// Takes note of bytes that were passed on.
    pub(crate) fn advance(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.payload_left > 0 {
                let step = self.payload_left.min(bytes.len());
                self.payload_left -= step;
                bytes = &bytes[step..];
                continue;
            }
            self.head[self.head_seen] = bytes[0];
            self.head_seen += 1;
            bytes = &bytes[1..];
            if self.head_seen == self.head.len() {
                let [flags, length @ ..] = self.head;
                self.ended |= flags & END_OF_STREAM != 0;
                self.payload_left = u32::from_be_bytes(length) as usize;
                self.head_seen = 0;
            }
        }
    }

    /// Returns true if another envelope may follow here.
    pub(crate) fn is_open(&self) -> bool {
        self.head_seen == 0 && self.payload_left == 0 && !self.ended
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_words_are_one_whole_end_envelope() {
        let envelope = end_with_error("unavailable", "gone");
        assert_eq!(envelope[..5], [2, 0, 0, 0, 49]);
        assert_eq!(
            &envelope[5..],
            br#"{"error":{"code":"unavailable","message":"gone"}}"#
        );
    }

    proptest! {
        #[test]
        fn a_stream_is_open_exactly_between_envelopes(
            lengths in proptest::collection::vec(0_u16..300, 0..8),
            cut in 1_usize..64,
        ) {
            let mut stream = Vec::new();
            let mut ends = vec![0];
            for length in lengths {
                stream.extend([0, 0, 0]);
                stream.extend(length.to_be_bytes());
                stream.extend(std::iter::repeat_n(b'x', length.into()));
                ends.push(stream.len());
            }
            let mut boundary = Boundary::default();
            let mut passed = 0;
            for piece in stream.chunks(cut) {
                boundary.advance(piece);
                passed += piece.len();
                prop_assert_eq!(boundary.is_open(), ends.contains(&passed));
            }
            boundary.advance(&end_with_error("a", "b"));
            prop_assert!(!boundary.is_open());
        }
    }
}
