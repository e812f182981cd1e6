//! Frames of the Connect protocol, read by the client and followed by the proxy: the same
//! frames, however the bytes are cut. The first byte says where.

#[path = "../../../crates/skep-client/src/connect.rs"]
#[expect(dead_code, reason = "the client's own file; here it only reads")]
mod connect;

use bytes::BytesMut;
use connect::{Frame, take_frame};
use skep_proxy::fuzzing::is_open_after;

pub(super) fn check(data: &[u8]) {
    let Some((cut, stream)) = data.split_first() else {
        return;
    };
    let cut = usize::from(*cut).max(1);
    let whole = read(std::iter::once(stream));
    let pieces = read(stream.chunks(cut));
    assert_eq!(whole, pieces, "in pieces of {cut}");
    assert_eq!(
        is_open_after([stream]),
        is_open_after(stream.chunks(cut)),
        "in pieces of {cut}"
    );
    if let Ok((frames, 0)) = whole {
        let ended = frames.iter().any(|frame| matches!(frame, Frame::End(_)));
        assert_eq!(is_open_after([stream]), !ended, "both read the same");
    }
}

/// The frames in a stream, and how many bytes of it wait for more. `Err` if it is no stream.
fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Result<(Vec<Frame>, usize), ()> {
    let mut buffer = BytesMut::new();
    let mut frames = Vec::new();
    let mut broken = false;
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while !broken {
            match take_frame(&mut buffer) {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_too_long) => broken = true,
            }
        }
    }
    if broken {
        Err(())
    } else {
        Ok((frames, buffer.len()))
    }
}
