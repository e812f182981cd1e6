//! Frames of the Connect protocol: a flag byte, a length, and so many bytes of JSON.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Set on the frame that ends a stream.
const END_OF_STREAM: u8 = 0b10;
const HEADER: usize = 5;
/// No agent sends more in one frame; a larger length is a broken stream, not a reason to wait.
const LONGEST: usize = 64 * 1024 * 1024;

/// One frame of a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Message(Bytes),
    End(Bytes),
}

/// The stream is not one of frames.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("frame of {0} bytes is longer than any agent sends")]
pub(crate) struct TooLong(usize);

/// Puts a message into the frame of a request.
pub(crate) fn frame(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEADER + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).expect("requests are small"));
    frame.put_slice(message);
    frame.freeze()
}

/// Takes the next whole frame off the front of `buffer`; `None` until more bytes have come.
pub(crate) fn take_frame(buffer: &mut BytesMut) -> Result<Option<Frame>, TooLong> {
    let Some(header) = buffer.first_chunk::<HEADER>() else {
        return Ok(None);
    };
    let [flags, length @ ..] = *header;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > LONGEST {
        return Err(TooLong(length));
    }
    if buffer.len() < HEADER + length {
        return Ok(None);
    }
    buffer.advance(HEADER);
    let payload = buffer.split_to(length).freeze();
    Ok(Some(if flags & END_OF_STREAM == 0 {
        Frame::Message(payload)
    } else {
        Frame::End(payload)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_found_however_the_bytes_arrive() {
        let mut bytes = frame(b"{\"a\":1}").to_vec();
        bytes.extend([2, 0, 0, 0, 2, b'{', b'}']);
        for split in 0..bytes.len() {
            let mut buffer = BytesMut::from(&bytes[..split]);
            let mut frames = Vec::new();
            while let Some(frame) = take_frame(&mut buffer).unwrap() {
                frames.push(frame);
            }
            buffer.extend_from_slice(&bytes[split..]);
            while let Some(frame) = take_frame(&mut buffer).unwrap() {
                frames.push(frame);
            }
            let message = Frame::Message(Bytes::from_static(b"{\"a\":1}"));
            assert_eq!(frames, [message, Frame::End(Bytes::from_static(b"{}"))]);
        }
    }

    #[test]
    fn an_absurd_length_is_refused_before_anything_is_allocated() {
        let mut buffer = BytesMut::from(&[0, 0xff, 0xff, 0xff, 0xff][..]);
        assert_eq!(take_frame(&mut buffer), Err(TooLong(0xffff_ffff)));
    }
}
