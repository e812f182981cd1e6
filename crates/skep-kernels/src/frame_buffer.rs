//! Frames out of a stream of bytes: four bytes of length, most significant first, then JSON.

use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::{Buf, Bytes, BytesMut};

/// The largest frame that is kept. A longer one is passed over, and its length is told.
///
/// A result cannot be split, and its client must hold it whole; this is far more than any
/// client takes, and what one sandbox may make its agent hold.
pub(crate) const LARGEST_FRAME: usize = 128 << 20;

const HEADER: usize = 4;

/// A frame from this size on does not share its memory with the next ones.
const LARGE: usize = 1 << 20;

/// Limit on the bytes of all large frames of this process that are not complete yet. A kernel is user code, and may
/// send most of a frame and no more; so may each of its copies.
const MOST_UNFINISHED: usize = 2 * LARGEST_FRAME;

/// Bytes of large frames that are not complete yet.
static UNFINISHED: AtomicUsize = AtomicUsize::new(0);

/// The part of a large frame in what all of them may hold, given back when it is dropped.
#[derive(Debug)]
struct Claim(usize);

impl Claim {
    fn of(length: usize) -> Option<Self> {
        let take = |held: usize| Some(held + length).filter(|held| *held <= MOST_UNFINISHED);
        let order = Ordering::Relaxed;
        let taken = UNFINISHED.fetch_update(order, order, take);
        taken.ok().map(|_| Self(length))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        UNFINISHED.fetch_sub(self.0, Ordering::Relaxed);
    }
}

/// Collects bytes and yields frames.
#[derive(Debug, Default)]
pub(crate) struct FrameBuffer {
    bytes: BytesMut,
    /// Bytes left of an oversized frame that is being skipped.
    skipping: usize,
    /// Held while a large frame is not complete.
    claim: Option<Claim>,
}

/// A frame found in the buffer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A whole frame.
    Whole(Bytes),
    /// A frame of this length was passed over: it is too large, or others are under way that are.
    TooLarge(u64),
}

impl FrameBuffer {
    /// Returns the buffer for the next read, with room for at least some bytes.
    pub(crate) fn space(&mut self) -> &mut BytesMut {
        const READ: usize = 64 << 10;
        let wanted = match self.announced() {
            Some(length) if length <= LARGE || self.claim.is_some() => {
                (HEADER + length).saturating_sub(self.bytes.len())
            }
            Some(_) | None => 0,
        };
        self.bytes.reserve(wanted.max(READ));
        &mut self.bytes
    }

    /// The next frame, if it is complete.
    pub(crate) fn next(&mut self) -> Option<Frame> {
        let skipped = self.skipping.min(self.bytes.len());
        self.bytes.advance(skipped);
        self.skipping -= skipped;
        if self.skipping > 0 {
            return None;
        }
        let length = self.announced()?;
        if !self.may_hold(length) {
            self.bytes.advance(HEADER);
            self.skipping = length;
            return Some(Frame::TooLarge(length as u64));
        }
        if self.bytes.len() < HEADER + length {
            return None;
        }
        self.bytes.advance(HEADER);
        let frame = self.bytes.split_to(length).freeze();
        self.claim = None;
        if length > LARGE {
            // The rest would keep the whole buffer alive, and fill it again.
            self.bytes = BytesMut::from(&self.bytes[..]);
        }
        Some(Frame::Whole(frame))
    }

    /// Returns true if there is room for a frame of this length until it is complete.
    fn may_hold(&mut self, length: usize) -> bool {
        if length > LARGE && length <= LARGEST_FRAME && self.claim.is_none() {
            self.claim = Claim::of(length);
        }
        length <= LARGE || self.claim.is_some()
    }

    fn announced(&self) -> Option<usize> {
        let header = self.bytes.first_chunk::<HEADER>()?;
        Some(u32::from_be_bytes(*header) as usize)
    }
}

/// `body` with its length in front.
pub(crate) fn framed(body: &[u8], into: &mut BytesMut) {
    let length = u32::try_from(body.len()).expect("a request is limited to far less than 4 GiB");
    into.reserve(HEADER + body.len());
    into.extend_from_slice(&length.to_be_bytes());
    into.extend_from_slice(body);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_however_the_bytes_are_cut() {
        let mut wire = BytesMut::new();
        for body in [&b"{}"[..], b"", b"{\"a\":1}"] {
            framed(body, &mut wire);
        }
        for size in 1..=wire.len() {
            let mut buffer = FrameBuffer::default();
            let mut found = Vec::new();
            for piece in wire.chunks(size) {
                buffer.space().extend_from_slice(piece);
                while let Some(frame) = buffer.next() {
                    found.push(frame);
                }
            }
            let expected = [&b"{}"[..], b"", b"{\"a\":1}"]
                .map(|body| Frame::Whole(Bytes::copy_from_slice(body)));
            assert_eq!(found, expected, "pieces of {size}");
        }
    }

    #[test]
    fn the_memory_of_a_large_frame_is_given_back() {
        let mut buffer = FrameBuffer::default();
        framed(&vec![b'x'; 8 << 20], buffer.space());
        framed(b"{}", buffer.space());
        drop(buffer.next());
        assert_eq!(buffer.next(), Some(Frame::Whole(Bytes::from_static(b"{}"))));
        assert!(buffer.space().capacity() < 1 << 20);
    }

    #[test]
    fn large_frames_that_do_not_end_hold_no_more_than_two_of_the_largest_and_others_pass() {
        let header = u32::try_from(LARGEST_FRAME).unwrap().to_be_bytes();
        let mut begun: Vec<FrameBuffer> = Vec::new();
        let mut refused = 0;
        for _ in 0..16 {
            let mut buffer = FrameBuffer::default();
            buffer.space().extend_from_slice(&header);
            refused += usize::from(buffer.next().is_some());
            begun.push(buffer);
        }
        // Another test may hold a part at this moment.
        assert!((14..16).contains(&refused), "{refused} of 16 were refused");
        let mut small = FrameBuffer::default();
        framed(b"{}", small.space());
        assert_eq!(small.next(), Some(Frame::Whole(Bytes::from_static(b"{}"))));
        drop(begun);
        assert!(
            Claim::of(LARGEST_FRAME).is_some(),
            "all of it is given back"
        );
    }

    #[test]
    fn a_frame_that_is_too_large_is_passed_over_without_being_held() {
        let mut buffer = FrameBuffer::default();
        let length = LARGEST_FRAME + 1;
        let header = u32::try_from(length).unwrap().to_be_bytes();
        buffer.space().extend_from_slice(&header);
        assert_eq!(buffer.next(), Some(Frame::TooLarge(length as u64)));
        let piece = vec![b'x'; 1 << 20];
        let mut left = length;
        while left > 0 {
            let size = left.min(piece.len());
            buffer.space().extend_from_slice(&piece[..size]);
            assert_eq!(buffer.next(), None);
            assert!(buffer.bytes.capacity() < 8 << 20);
            left -= size;
        }
        framed(b"{}", buffer.space());
        assert_eq!(buffer.next(), Some(Frame::Whole(Bytes::from_static(b"{}"))));
    }
}
