//! Calls of the agent's procedures: one byte for the procedure, one for how it travels, then
//! the message, in JSON or in the binary notation, in an envelope that is right or is not.

use bytes::{BufMut as _, Bytes, BytesMut};
use http::Request;

use crate::http_text::Message;
use crate::shape;
use crate::stage::perform;
use crate::tree::differences;

const PROCEDURES: [(&str, Kind); 17] = [
    ("/process.Process/List", Kind::Unary),
    ("/process.Process/Start", Kind::Stream),
    ("/process.Process/Connect", Kind::Stream),
    ("/process.Process/Update", Kind::Unary),
    ("/process.Process/SendInput", Kind::Unary),
    ("/process.Process/StreamInput", Kind::Stream),
    ("/process.Process/SendSignal", Kind::Unary),
    ("/process.Process/CloseStdin", Kind::Unary),
    ("/filesystem.Filesystem/Stat", Kind::Unary),
    ("/filesystem.Filesystem/MakeDir", Kind::Unary),
    ("/filesystem.Filesystem/Move", Kind::Unary),
    ("/filesystem.Filesystem/ListDir", Kind::Unary),
    ("/filesystem.Filesystem/Remove", Kind::Unary),
    ("/filesystem.Filesystem/WatchDir", Kind::Stream),
    ("/filesystem.Filesystem/CreateWatcher", Kind::Unary),
    ("/filesystem.Filesystem/GetWatcherEvents", Kind::Unary),
    ("/filesystem.Filesystem/RemoveWatcher", Kind::Unary),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Unary,
    Stream,
}

/// The message is binary, not JSON.
const BINARY: u8 = 1;
/// The bytes are sent as they are, where a stream would put them into one envelope.
const RAW: u8 = 2;
/// The other kind of content type than the procedure wants.
const WRONG_KIND: u8 = 4;
/// Adds a deadline, which the clock of the stage reaches at once.
const DEADLINE: u8 = 8;

pub(super) fn check(data: &[u8]) {
    let [procedure, way, payload @ ..] = data else {
        return;
    };
    let (path, kind) = PROCEDURES[usize::from(*procedure) % PROCEDURES.len()];
    let message = call(path, kind, *way, payload);
    perform(move |stage| {
        let agent = stage.agent(false);
        let answer = stage.ask(&agent, message.request());
        shape::check(&message.parts, &answer);
        drop(agent);
        let is_refused = answer.status.as_u16() >= 400;
        stage.compare(|before, after| {
            let changed = differences(before, after);
            assert!(
                changed.is_empty() || !is_refused,
                "{:?} was answered {answer:?} and changed {changed:?}",
                message.parts
            );
        });
    });
}

fn call(path: &str, kind: Kind, way: u8, payload: &[u8]) -> Message {
    let has = |flag: u8| way & flag != 0;
    let as_stream = (kind == Kind::Stream) != has(WRONG_KIND);
    let content_type = match (as_stream, has(BINARY)) {
        (true, true) => "application/connect+proto",
        (true, false) => "application/connect+json",
        (false, true) => "application/proto",
        (false, false) => "application/json",
    };
    let mut request = Request::post(path).header("content-type", content_type);
    if has(DEADLINE) {
        request = request.header("connect-timeout-ms", "500");
    }
    let (parts, ()) = request.body(()).expect("all of it is fixed").into_parts();
    let body = if as_stream && !has(RAW) {
        let mut envelope = BytesMut::with_capacity(5 + payload.len());
        envelope.put_u8(0);
        envelope.put_u32(u32::try_from(payload.len()).expect("inputs are small"));
        envelope.put_slice(payload);
        envelope.freeze()
    } else {
        Bytes::copy_from_slice(payload)
    };
    Message { parts, body }
}
