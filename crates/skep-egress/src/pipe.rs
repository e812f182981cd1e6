//! Requests and answers on their way between the two processes of a sandbox, as frames.
//!
//! One process reads what the sandbox sends, the other holds what is put into requests. Between them go
//! the parts of a request that was read, each with its length before it, and nothing that has to be
//! parsed as text again. Either process may have been taken over, so the other believes no frame.

mod body;
mod head;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

pub(crate) use body::{PipeBody, Source, Trailers, pump};
pub(crate) use head::{AnswerHead, RequestHead};

use crate::message::Refusal;

/// The largest head, with a length for each of its texts.
const MOST_HEAD: usize = 160 * 1024;
/// The largest piece of a body.
const MOST_DATA: usize = 16 * 1024;
/// Kind and length.
const PREFIX: usize = 5;

/// A part of a request or an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// A [`RequestHead`] or an [`AnswerHead`].
    Head(Bytes),
    /// A piece of the body.
    Data(Bytes),
    /// Headers behind the body.
    Trailers(Bytes),
    /// Nothing more belongs to it.
    End,
    /// The answer is a refusal of ours.
    Refused(Refusal),
}

/// Bytes that are no frame. The pipe is of no use any more.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FrameError {
    /// The pipe has failed.
    #[error(transparent)]
    Pipe(#[from] std::io::Error),
    /// The other process says what it never says.
    #[error("not a frame")]
    Invalid,
}

/// Reads and writes frames.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frames;

impl Decoder for Frames {
    type Item = Frame;
    type Error = FrameError;

    fn decode(&mut self, bytes: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Some((prefix, _)) = bytes.split_at_checked(PREFIX) else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]);
        let length = usize::try_from(length).map_err(|_| FrameError::Invalid)?;
        let kind = prefix[0];
        let most = match kind {
            b'H' | b'T' => MOST_HEAD,
            b'D' => MOST_DATA,
            b'R' => 64,
            b'E' => 0,
            _ => return Err(FrameError::Invalid),
        };
        if length > most {
            return Err(FrameError::Invalid);
        }
        if bytes.len() < PREFIX + length {
            bytes.reserve(PREFIX + length - bytes.len());
            return Ok(None);
        }
        bytes.advance(PREFIX);
        let contents = bytes.split_to(length).freeze();
        Ok(Some(match kind {
            b'H' => Frame::Head(contents),
            b'D' => Frame::Data(contents),
            b'T' => Frame::Trailers(contents),
            b'R' => {
                let refusal = serde_json::from_slice(&contents);
                Frame::Refused(refusal.map_err(|_| FrameError::Invalid)?)
            }
            _ => Frame::End,
        }))
    }
}

impl Encoder<Frame> for Frames {
    type Error = FrameError;

    fn encode(&mut self, frame: Frame, bytes: &mut BytesMut) -> Result<(), FrameError> {
        let (kind, contents) = match frame {
            Frame::Head(contents) => (b'H', contents),
            Frame::Data(contents) => (b'D', contents),
            Frame::Trailers(contents) => (b'T', contents),
            Frame::End => (b'E', Bytes::new()),
            Frame::Refused(refusal) => {
                let contents = serde_json::to_vec(&refusal).map_err(std::io::Error::from)?;
                (b'R', contents.into())
            }
        };
        let length = u32::try_from(contents.len()).map_err(|_| FrameError::Invalid)?;
        bytes.reserve(PREFIX + contents.len());
        bytes.put_u8(kind);
        bytes.put_u32(length);
        bytes.put(contents);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame() -> impl Strategy<Value = Frame> {
        let contents = || proptest::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
        prop_oneof![
            contents().prop_map(Frame::Head),
            contents().prop_map(Frame::Data),
            contents().prop_map(Frame::Trailers),
            Just(Frame::End),
            Just(Frame::Refused(Refusal::Spent)),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_however_it_is_cut(
            frames in proptest::collection::vec(frame(), 0..5),
            size in 1usize..50,
        ) {
            let mut written = BytesMut::new();
            for frame in &frames {
                Frames.encode(frame.clone(), &mut written).unwrap();
            }
            let mut read = Vec::new();
            let mut buffer = BytesMut::new();
            for piece in written.chunks(size) {
                buffer.extend_from_slice(piece);
                while let Some(frame) = Frames.decode(&mut buffer).unwrap() {
                    read.push(frame);
                }
            }
            prop_assert_eq!(read, frames);
            prop_assert!(buffer.is_empty());
        }
    }

    #[test]
    fn what_is_too_long_or_unknown_is_refused_before_it_is_read() {
        for start in [
            &b"D\0\0\x40\x01"[..],
            b"E\0\0\0\x01",
            b"H\x7f\0\0\0",
            b"R\0\0\0\x41",
            b"x\0\0\0\0",
        ] {
            let refused = Frames.decode(&mut BytesMut::from(start)).unwrap_err();
            assert!(matches!(refused, FrameError::Invalid), "{start:?}");
        }
        let nonsense = &mut BytesMut::from(&b"R\0\0\0\x01x"[..]);
        let refused = Frames.decode(nonsense).unwrap_err();
        assert!(matches!(refused, FrameError::Invalid));
    }
}
