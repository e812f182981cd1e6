//! Messages of a kernel over ZeroMQ: the same messages however the bytes are cut, none larger than
//! the limit, and whatever is in one that is signed, it is text in ASCII on one line. The first
//! byte says where to cut.

use bytes::Bytes;
use skep_jupyter::signed::Session;
use skep_jupyter::zmtp::{Decoder, Received, Role, Stranger, opening};
use skep_jupyter::{Envelope, JsonText, Message};

const LIMIT: usize = 1 << 16;

pub(super) fn check(data: &[u8]) {
    let Some((cut, rest)) = data.split_first() else {
        return;
    };
    let cut = usize::from(*cut).max(1);
    let mut wire = opening(Role::Dealer, "").to_vec();
    wire.extend_from_slice(rest);
    let whole = read(&wire, wire.len());
    assert_eq!(whole, read(&wire, cut), "in pieces of {cut}");
    let session = Session::new("session".to_owned(), "key".to_owned());
    for message in whole.iter().flatten() {
        match message {
            Received::Message(frames) => open(&session, frames),
            Received::TooLarge { bytes } => assert!(*bytes > LIMIT as u64),
        }
    }
}

fn read(wire: &[u8], cut: usize) -> Result<Vec<Received>, Stranger> {
    let mut decoder = Decoder::new(LIMIT);
    let mut messages = Vec::new();
    for piece in wire.chunks(cut) {
        decoder.space().extend_from_slice(piece);
        while let Some(message) = decoder.take()? {
            if let Received::Message(frames) = &message {
                let length: usize = frames.iter().map(Bytes::len).sum();
                assert!(length <= LIMIT, "{length} bytes in one message");
            }
            messages.push(message);
        }
    }
    Ok(messages)
}

fn open(session: &Session, frames: &[Bytes]) {
    assert!(
        session.read(frames).is_err(),
        "nobody knows the key but the signer"
    );
    if let [header, parent, metadata, content] = frames {
        let parts = [header, parent, metadata, content].map(Bytes::clone);
        let signed = session.sign(parts);
        drop(session.kernel_info(&signed));
        for envelope in session.read(&signed).into_iter().flatten() {
            examine(&envelope);
        }
    }
}

fn examine(envelope: &Envelope) {
    match &envelope.message {
        Message::Text { text, .. } => {
            assert!(text.decode().is_some(), "a text is a whole string");
            is_line(text);
        }
        Message::Display(bundle) | Message::Update(bundle) | Message::Value(bundle) => {
            bundle.entries.iter().for_each(|(_, value)| is_line(value));
            bundle.metadata.iter().for_each(is_line);
        }
        Message::Hello { .. }
        | Message::Busy
        | Message::Idle
        | Message::Restarting
        | Message::Input { .. }
        | Message::InputRequest(_)
        | Message::Error { .. }
        | Message::Reply(_)
        | Message::Answer(_)
        | Message::Clear { .. }
        | Message::Unused
        | Message::TooLarge { .. } => {}
    }
}

fn is_line(text: &JsonText) {
    let text = text.as_str();
    assert!(text.is_ascii() && !text.contains(['\n', '\r']), "{text:?}");
}
