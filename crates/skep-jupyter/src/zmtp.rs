//! ZMTP 3.0, as far as a client of a Jupyter kernel needs it: the greeting, the handshake
//! without security, and messages of several frames. No socket is touched here.
//!
//! Written here because the back-pressure must be ours: a kernel's output socket drops what is
//! not read in time, so somebody must decide, byte by byte, when to go on reading.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Both ends send this much first.
const GREETING: usize = 64;

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Requests and replies.
    Dealer,
    /// Everything that is published.
    Subscriber,
}

/// A peer does not speak ZMTP, or sent more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ZmtpError {
    /// It is something else.
    #[error("the peer does not speak ZMTP 3 without security")]
    Stranger,
    /// A message is larger than the limit.
    #[error("a message of {bytes} bytes is too large")]
    TooLarge {
        /// Its length, as far as it is known.
        bytes: u64,
    },
}

/// What we say first.
pub fn opening(role: Role) -> Bytes {
    let mut bytes = BytesMut::with_capacity(128);
    bytes.put_u8(0xff);
    bytes.put_bytes(0, 8);
    bytes.put_u8(0x7f);
    bytes.put_slice(&[3, 0]);
    bytes.put_slice(b"NULL");
    bytes.put_bytes(0, GREETING - bytes.len());
    let kind: &[u8] = match role {
        Role::Dealer => b"DEALER",
        Role::Subscriber => b"SUB",
    };
    let mut ready = BytesMut::new();
    ready.put_slice(b"\x05READY\x0bSocket-Type");
    ready.put_u32(u32::try_from(kind.len()).expect("the names are short"));
    ready.put_slice(kind);
    bytes.put_u8(COMMAND);
    bytes.put_u8(u8::try_from(ready.len()).expect("the command is short"));
    bytes.put_slice(&ready);
    if role == Role::Subscriber {
        // A subscription to everything is a message that consists of a one.
        bytes.put_slice(&[0, 1, 1]);
    }
    bytes.freeze()
}

/// A message of several frames, ready to be sent.
pub fn encode(frames: &[Bytes]) -> Bytes {
    let length: usize = frames.iter().map(Bytes::len).sum();
    let mut bytes = BytesMut::with_capacity(length + 9 * frames.len());
    for (number, frame) in frames.iter().enumerate() {
        let more = if number + 1 < frames.len() { MORE } else { 0 };
        match u8::try_from(frame.len()) {
            Ok(length) => bytes.put_slice(&[more, length]),
            Err(_) => {
                bytes.put_u8(more | LONG);
                bytes.put_u64(frame.len() as u64);
            }
        }
        bytes.put_slice(frame);
    }
    bytes.freeze()
}

/// Collects bytes and yields messages.
#[derive(Debug)]
pub struct Decoder {
    bytes: BytesMut,
    greeted: bool,
    frames: Vec<Bytes>,
    collected: u64,
    limit: u64,
}

impl Decoder {
    /// Accepts messages of at most `limit` bytes.
    pub fn new(limit: u64) -> Self {
        Self {
            bytes: BytesMut::new(),
            greeted: false,
            frames: Vec::new(),
            collected: 0,
            limit,
        }
    }

    /// Where the next bytes go, with room for some.
    pub fn space(&mut self) -> &mut BytesMut {
        self.bytes.reserve(64 << 10);
        &mut self.bytes
    }

    /// The next whole message, if there is one.
    ///
    /// # Errors
    ///
    /// If the peer is none, or exceeds the limit. Nothing after that makes sense.
    pub fn message(&mut self) -> Result<Option<Vec<Bytes>>, ZmtpError> {
        if !self.greeted {
            if self.bytes.len() < GREETING {
                return Ok(None);
            }
            let greeting = self.bytes.split_to(GREETING);
            let is_peer = greeting[0] == 0xff
                && greeting[9] == 0x7f
                && greeting[10] >= 3
                && greeting[12..16] == *b"NULL";
            if !is_peer {
                return Err(ZmtpError::Stranger);
            }
            self.greeted = true;
        }
        while let Some((flags, frame)) = self.frame()? {
            if flags & COMMAND != 0 {
                continue;
            }
            self.collected += frame.len() as u64;
            self.frames.push(frame);
            if flags & MORE == 0 {
                self.collected = 0;
                return Ok(Some(std::mem::take(&mut self.frames)));
            }
        }
        Ok(None)
    }

    fn frame(&mut self) -> Result<Option<(u8, Bytes)>, ZmtpError> {
        let Some(&flags) = self.bytes.first() else {
            return Ok(None);
        };
        let (header, length) = if flags & LONG != 0 {
            match self
                .bytes
                .get(1..9)
                .and_then(|bytes| bytes.first_chunk::<8>())
            {
                Some(bytes) => (9, u64::from_be_bytes(*bytes)),
                None => return Ok(None),
            }
        } else {
            match self.bytes.get(1) {
                Some(&length) => (2, u64::from(length)),
                None => return Ok(None),
            }
        };
        let bytes = self.collected.saturating_add(length);
        let too_large = ZmtpError::TooLarge { bytes };
        if bytes > self.limit {
            return Err(too_large);
        }
        let length = usize::try_from(length).map_err(|_| too_large)?;
        if self.bytes.len() < header + length {
            self.bytes.reserve(header + length - self.bytes.len());
            return Ok(None);
        }
        self.bytes.advance(header);
        let frame = self.bytes.split_to(length).freeze();
        if length > 1 << 20 {
            // The rest would keep the whole buffer alive.
            self.bytes = BytesMut::from(&self.bytes[..]);
        }
        Ok(Some((flags, frame)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(wire: &[u8], size: usize) -> Result<Vec<Vec<Bytes>>, ZmtpError> {
        let mut decoder = Decoder::new(1 << 20);
        let mut messages = Vec::new();
        for piece in wire.chunks(size) {
            decoder.space().extend_from_slice(piece);
            while let Some(message) = decoder.message()? {
                messages.push(message);
            }
        }
        Ok(messages)
    }

    #[test]
    fn messages_are_found_however_the_bytes_are_cut() {
        let message = vec![
            Bytes::from_static(b"a"),
            Bytes::new(),
            Bytes::from(vec![b'x'; 300]),
        ];
        let mut wire = BytesMut::from(&opening(Role::Dealer)[..]);
        wire.extend_from_slice(&encode(&message));
        wire.extend_from_slice(&encode(&message[..1]));
        for size in [1, 2, 7, 64, 1000] {
            let expected = vec![message.clone(), message[..1].to_vec()];
            assert_eq!(decoded(&wire, size), Ok(expected), "pieces of {size}");
        }
    }

    #[test]
    fn a_subscriber_asks_for_everything() {
        let opening = opening(Role::Subscriber);
        assert_eq!(opening[opening.len() - 3..], [0, 1, 1]);
        assert_eq!(
            decoded(&opening, 5),
            Ok(vec![vec![Bytes::from_static(b"\x01")]])
        );
    }

    #[test]
    fn strangers_and_giants_are_refused() {
        assert_eq!(decoded(&[b'H'; 64], 64), Err(ZmtpError::Stranger));
        let mut wire = BytesMut::from(&opening(Role::Dealer)[..]);
        wire.put_slice(&[LONG, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(
            decoded(&wire, 200),
            Err(ZmtpError::TooLarge { bytes: u64::MAX })
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut wire = opening(Role::Dealer).to_vec();
            wire.extend(bytes);
            if let Ok(messages) = decoded(&wire, 64) {
                prop_assert!(messages.iter().flatten().map(Bytes::len).sum::<usize>() <= 200);
            }
        }
    }
}
