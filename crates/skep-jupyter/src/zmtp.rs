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

/// Role of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `DEALER`: requests and replies.
    Dealer,
    /// `SUB`: everything that is published.
    Subscriber,
}

/// A peer does not speak ZMTP. Nothing after that makes sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the peer does not speak ZMTP 3 without security")]
pub struct Stranger;

/// A message of the peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// A whole message, frame by frame.
    Message(Vec<Bytes>),
    /// A message that was larger than the limit was passed over.
    TooLarge {
        /// Its length, as far as it was known when it became too large.
        bytes: u64,
    },
}

/// A subscription to everything is a message that consists of a one.
pub const EVERYTHING: Bytes = Bytes::from_static(&[1]);

/// Returns the bytes with which we open a connection. Messages may follow when the peer [is
/// ready](Decoder::is_ready): one that gets them earlier closes the connection.
///
/// Sockets of one peer that have the same `identity` are known as its own; an empty one is none.
pub fn opening(role: Role, identity: &str) -> Bytes {
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
    if !identity.is_empty() {
        ready.put_slice(b"\x08Identity");
        ready.put_u32(u32::try_from(identity.len()).expect("an identity is short"));
        ready.put_slice(identity.as_bytes());
    }
    bytes.put_u8(COMMAND);
    bytes.put_u8(u8::try_from(ready.len()).expect("the command is short"));
    bytes.put_slice(&ready);
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

/// Cost of a frame beside its bytes, so that many empty ones are too much as well.
const FRAME_COST: u64 = 64;

/// A frame from this size on does not share its memory with the next ones.
const LARGE: usize = 1 << 20;

/// Collects bytes and yields messages. It holds one message at most, and no command.
#[derive(Debug)]
pub struct Decoder {
    bytes: BytesMut,
    greeted: bool,
    ready: bool,
    /// The frames of a message that is not complete, and what they cost.
    frames: Vec<Bytes>,
    collected: u64,
    limit: u64,
    /// Bytes left of a frame that is being skipped.
    skipping: u64,
    /// The frames that follow belong to a message that is too large.
    overflowing: bool,
}

#[derive(Debug, Clone, Copy)]
struct FrameHeader {
    size: usize,
    length: u64,
    more: bool,
    is_command: bool,
}

impl Decoder {
    /// Accepts messages of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            bytes: BytesMut::new(),
            greeted: false,
            ready: false,
            frames: Vec::new(),
            collected: 0,
            limit: limit as u64,
            skipping: 0,
            overflowing: false,
        }
    }

    /// Returns true if the peer has said all that it must say before it takes messages.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Returns the buffer for the next read, with room for at least some bytes.
    pub fn space(&mut self) -> &mut BytesMut {
        // Messages that wait somewhere keep the buffer they are in, so it is filled before
        // another is taken.
        if self.bytes.capacity() - self.bytes.len() < 8 << 10 {
            self.bytes.reserve(64 << 10);
        }
        &mut self.bytes
    }

    /// The next whole message, if there is one.
    ///
    /// # Errors
    ///
    /// If the peer is none.
    pub fn take(&mut self) -> Result<Option<Received>, Stranger> {
        if !self.greeted && !self.read_greeting()? {
            return Ok(None);
        }
        loop {
            if !self.skip() {
                return Ok(None);
            }
            let Some(header) = self.header()? else {
                return Ok(None);
            };
            if header.is_command {
                // The first says that it is ready, or why not before it hangs up. Nothing that
                // a peer can command later is of use here.
                self.ready = true;
                self.pass_over(header);
                continue;
            }
            if self.overflowing {
                self.pass_over(header);
                self.overflowing = header.more;
                continue;
            }
            let bytes = self
                .collected
                .saturating_add(header.length)
                .saturating_add(FRAME_COST);
            if bytes > self.limit {
                self.pass_over(header);
                self.overflowing = header.more;
                self.frames = Vec::new();
                self.collected = 0;
                return Ok(Some(Received::TooLarge { bytes }));
            }
            let Some(frame) = self.frame(header) else {
                return Ok(None);
            };
            self.frames.push(frame);
            self.collected = bytes;
            if !header.more {
                self.collected = 0;
                let message = std::mem::take(&mut self.frames);
                return Ok(Some(Received::Message(message)));
            }
        }
    }

    fn read_greeting(&mut self) -> Result<bool, Stranger> {
        if self.bytes.len() < GREETING {
            return Ok(false);
        }
        let greeting = self.bytes.split_to(GREETING);
        let is_peer = greeting[0] == 0xff
            && greeting[9] == 0x7f
            && greeting[10] >= 3
            && greeting[12..32] == *b"NULL\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
        self.greeted = is_peer;
        if is_peer { Ok(true) } else { Err(Stranger) }
    }

    /// Passes over what nobody wants; false if there is more of it to come.
    fn skip(&mut self) -> bool {
        let here = self
            .bytes
            .len()
            .min(usize::try_from(self.skipping).unwrap_or(usize::MAX));
        self.bytes.advance(here);
        self.skipping -= here as u64;
        self.skipping == 0
    }

    fn pass_over(&mut self, header: FrameHeader) {
        self.bytes.advance(header.size);
        self.skipping = header.length;
    }

    fn header(&self) -> Result<Option<FrameHeader>, Stranger> {
        let Some(&flags) = self.bytes.first() else {
            return Ok(None);
        };
        if flags & !(MORE | LONG | COMMAND) != 0 {
            return Err(Stranger);
        }
        let (size, length) = if flags & LONG == 0 {
            (2, self.bytes.get(1).copied().map(u64::from))
        } else {
            let length = self.bytes.get(1..9).and_then(|bytes| bytes.first_chunk());
            (9, length.map(|bytes| u64::from_be_bytes(*bytes)))
        };
        Ok(length.map(|length| FrameHeader {
            size,
            length,
            more: flags & MORE != 0,
            is_command: flags & COMMAND != 0,
        }))
    }

    /// The frame after a header whose length is within the limit, if it is here.
    fn frame(&mut self, header: FrameHeader) -> Option<Bytes> {
        let length = usize::try_from(header.length).expect("the limit is a size");
        let end = header.size + length;
        if self.bytes.len() < end {
            self.bytes.reserve(end - self.bytes.len());
            return None;
        }
        self.bytes.advance(header.size);
        let frame = self.bytes.split_to(length).freeze();
        if length > LARGE {
            // The rest would keep the whole buffer alive, and fill it again.
            self.bytes = BytesMut::from(&self.bytes[..]);
        }
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 4096;

    fn decoded(wire: &[u8], size: usize) -> Result<Vec<Received>, Stranger> {
        let mut decoder = Decoder::new(LIMIT);
        let mut messages = Vec::new();
        for piece in wire.chunks(size) {
            decoder.space().extend_from_slice(piece);
            while let Some(message) = decoder.take()? {
                messages.push(message);
            }
            let held: usize = decoder.frames.iter().map(Bytes::len).sum();
            assert!(held <= LIMIT, "{held} bytes are held");
            assert!(
                decoder.frames.len() <= LIMIT / 64,
                "too many frames are held"
            );
            assert!(
                decoder.bytes.len() <= LIMIT + 9 + size,
                "too much is buffered"
            );
        }
        Ok(messages)
    }

    fn greeted(rest: &[u8]) -> Vec<u8> {
        let mut wire = opening(Role::Dealer, "me").to_vec();
        wire.extend_from_slice(rest);
        wire
    }

    #[test]
    fn messages_are_found_however_the_bytes_are_cut() {
        let message = vec![
            Bytes::from_static(b"a"),
            Bytes::new(),
            Bytes::from(vec![b'x'; 300]),
        ];
        let mut wire = greeted(&encode(&message));
        wire.extend_from_slice(&encode(&message[..1]));
        for size in [1, 2, 7, 64, 1000] {
            let expected = [message.clone(), message[..1].to_vec()].map(Received::Message);
            assert_eq!(
                decoded(&wire, size),
                Ok(expected.to_vec()),
                "pieces of {size}"
            );
        }
    }

    #[test]
    fn a_peer_is_ready_after_its_first_command() {
        let mut decoder = Decoder::new(LIMIT);
        let opening = opening(Role::Subscriber, "");
        for byte in &opening[..GREETING] {
            decoder.space().put_u8(*byte);
            assert_eq!(decoder.take(), Ok(None));
            assert!(!decoder.is_ready());
        }
        decoder.space().extend_from_slice(&opening[GREETING..]);
        assert_eq!(decoder.take(), Ok(None));
        assert!(decoder.is_ready());
    }

    #[test]
    fn strangers_are_refused() {
        assert_eq!(decoded(&[b'H'; 64], 64), Err(Stranger));
        let mut secured = opening(Role::Dealer, "me").to_vec();
        secured[12..17].copy_from_slice(b"CURVE");
        assert_eq!(decoded(&secured, 200), Err(Stranger));
        assert_eq!(decoded(&greeted(&[0x80, 0]), 200), Err(Stranger));
    }

    #[test]
    fn what_is_too_large_is_passed_over_and_the_rest_is_heard() {
        let after = vec![Bytes::from_static(b"after")];
        let mut one_frame = vec![LONG];
        one_frame.extend_from_slice(&5000_u64.to_be_bytes());
        one_frame.extend_from_slice(&[b'x'; 5000]);
        let several = encode(&vec![Bytes::from(vec![b'x'; 1500]); 4]);
        let empty_frames = encode(&vec![Bytes::new(); 100]);
        let mut command = vec![LONG | COMMAND];
        command.extend_from_slice(&100_000_u64.to_be_bytes());
        command.extend_from_slice(&[b'x'; 100_000]);
        for (giant, bytes) in [
            (&one_frame[..], Some(5064)),
            (&several[..], Some(4692)),
            (&empty_frames[..], Some(4160)),
            (&command[..], None),
        ] {
            let mut wire = greeted(giant);
            wire.extend_from_slice(&encode(&after));
            let told: Vec<Received> = bytes
                .map(|bytes| Received::TooLarge { bytes })
                .into_iter()
                .chain([Received::Message(after.clone())])
                .collect();
            for size in [1, 100, 4096] {
                assert_eq!(decoded(&wire, size).as_ref(), Ok(&told), "pieces of {size}");
            }
        }
    }

    #[test]
    fn a_frame_without_an_end_costs_nothing() {
        let endless = [LONG, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        let mut wire = greeted(&endless);
        wire.extend_from_slice(&[b'x'; 100_000]);
        let told = Received::TooLarge { bytes: u64::MAX };
        assert_eq!(decoded(&wire, 1000), Ok(vec![told]));
    }

    #[test]
    fn the_memory_of_a_large_message_is_given_back() {
        let mut decoder = Decoder::new(16 << 20);
        let large = encode(&[Bytes::from(vec![b'x'; 8 << 20])]);
        decoder.space().extend_from_slice(&greeted(&large));
        assert!(matches!(decoder.take(), Ok(Some(Received::Message(_)))));
        assert!(decoder.space().capacity() < 1 << 20);
    }

    #[test]
    fn messages_that_wait_share_their_memory() {
        let mut decoder = Decoder::new(LIMIT);
        decoder.space().extend_from_slice(&greeted(&[]));
        let wire = encode(&[Bytes::from(vec![b'x'; 100])]);
        let mut buffers = std::collections::BTreeSet::new();
        let mut waiting = Vec::new();
        for _ in 0..1000 {
            let space = decoder.space();
            // A buffer that was taken anew begins elsewhere than where the last one ended.
            buffers.insert(space.as_ptr() as usize + space.capacity());
            space.extend_from_slice(&wire);
            waiting.push(decoder.take().unwrap().unwrap());
        }
        assert!(buffers.len() < 4, "{} buffers for 100 kB", buffers.len());
    }

    proptest! {
        #[test]
        fn any_bytes_mean_the_same_however_they_are_cut(
            bytes in proptest::collection::vec(prop_oneof![0_u8..8, any::<u8>()], 0..400),
            size in 1_usize..50,
        ) {
            let wire = greeted(&bytes);
            prop_assert_eq!(decoded(&wire, size), decoded(&wire, wire.len()));
        }
    }
}
