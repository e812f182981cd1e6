//! Reading of frames as the process that sends requests does it, for the fuzzer.

use bytes::BytesMut;
use tokio_util::codec::{Decoder as _, Encoder as _};

use crate::pipe::{AnswerHead, Frame, Frames, RequestHead};
use crate::sender::fuzzing::write_request;

/// Reads frames, and makes the request of each head as a host would get it. Panics if a head is another
/// one after it was written, or if a request could be two.
pub fn read_frames(said: &[u8]) {
    let mut bytes = BytesMut::from(said);
    while let Ok(Some(frame)) = Frames.decode(&mut bytes) {
        let mut written = BytesMut::new();
        let copied = Frames.encode(frame.clone(), &mut written);
        copied.expect("what was read can be written");
        assert_eq!(
            Frames.decode(&mut written).ok().flatten(),
            Some(frame.clone())
        );
        let Frame::Head(head) = frame else {
            continue;
        };
        if let Some(answer) = AnswerHead::read(&head) {
            let again = answer.write().and_then(|head| AnswerHead::read(&head));
            assert_eq!(again.map(|again| again.headers), Some(answer.headers));
        }
        if let Some(request) = RequestHead::read(&head) {
            let again = request.write().and_then(|head| RequestHead::read(&head));
            let again = again.expect("what was read can be written");
            assert_eq!(
                (&again.method, &again.target),
                (&request.method, &request.target)
            );
            assert_eq!(again.headers, request.headers);
            write_request(request);
        }
    }
}
