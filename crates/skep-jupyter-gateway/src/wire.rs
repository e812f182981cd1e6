//! The two forms that messages have on a WebSocket.
//!
//! The first is one JSON object, as text; one that carries buffers is binary, with the offsets of
//! the object and of each buffer in front, as 32 bits each, the highest byte first. The second, for
//! clients that ask for `v1.kernel.websocket.jupyter.org`, has the parts of a message one after
//! another, with offsets of 64 bits, the lowest byte first.

use std::borrow::Cow;

use axum::extract::ws;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::message::{Channel, Header, Message, Request};

/// Name of the second form, as a protocol of WebSockets.
pub(crate) const PARTS_PROTOCOL: &str = "v1.kernel.websocket.jupyter.org";

/// Form of the messages on a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One JSON object.
    Object,
    /// Offsets and parts.
    Parts,
}

/// Error of a client that has sent what is no message.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("this is no message of Jupyter's protocol")]
pub(crate) struct Malformed;

#[derive(Serialize)]
struct WrittenObject<'a> {
    header: &'a Header,
    // Some clients look for these two here.
    msg_id: &'a str,
    msg_type: &'a str,
    parent_header: &'a RawValue,
    metadata: Empty,
    content: &'a RawValue,
    buffers: [(); 0],
    channel: Channel,
}

#[derive(Serialize)]
struct Empty {}

#[derive(Deserialize)]
struct ReadObject<'a> {
    #[serde(borrow)]
    header: &'a RawValue,
    #[serde(default, borrow)]
    content: Option<&'a RawValue>,
    #[serde(default, borrow)]
    channel: Option<Cow<'a, str>>,
}

impl Form {
    /// A message as it is sent.
    pub(crate) fn write(self, message: &Message) -> ws::Message {
        match self {
            Self::Object => {
                let object = WrittenObject {
                    header: &message.header,
                    msg_id: &message.header.msg_id,
                    msg_type: &message.header.msg_type,
                    parent_header: &message.parent,
                    metadata: Empty {},
                    content: &message.content,
                    buffers: [],
                    channel: message.channel,
                };
                let text = serde_json::to_string(&object).expect("keys are text");
                ws::Message::text(text)
            }
            Self::Parts => {
                let header = serde_json::to_vec(&message.header).expect("keys are text");
                let parts = [
                    message.channel.name().as_bytes().to_vec(),
                    header,
                    message.parent.get().as_bytes().to_vec(),
                    b"{}".to_vec(),
                    message.content.get().as_bytes().to_vec(),
                ];
                ws::Message::Binary(joined(&parts))
            }
        }
    }

    /// A message that a client has sent; `None` if it is about the WebSocket itself, or for a
    /// channel that there is not.
    ///
    /// # Errors
    ///
    /// [`Malformed`] if it is no message.
    pub(crate) fn read(self, message: &ws::Message) -> Result<Option<Request>, Malformed> {
        match (self, message) {
            (_, ws::Message::Ping(_) | ws::Message::Pong(_) | ws::Message::Close(_)) => Ok(None),
            (Self::Object, ws::Message::Text(text)) => read_object(text.as_bytes()),
            (Self::Object, ws::Message::Binary(bytes)) => read_object(before_buffers(bytes)?),
            (Self::Parts, ws::Message::Binary(bytes)) => read_parts(bytes),
            (Self::Parts, ws::Message::Text(_)) => Err(Malformed),
        }
    }
}

/// Parts, with their offsets in front.
fn joined(parts: &[Vec<u8>]) -> Bytes {
    // One offset more than parts: the last is the end.
    let mut offset = 8 * (1 + parts.len() + 1);
    let total = offset + parts.iter().map(Vec::len).sum::<usize>();
    let mut bytes = Vec::with_capacity(total);
    let mut number = |number: usize| {
        let number = u64::try_from(number).expect("lengths fit into 64 bits");
        bytes.extend_from_slice(&number.to_le_bytes());
    };
    number(parts.len() + 1);
    number(offset);
    for part in parts {
        offset += part.len();
        number(offset);
    }
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes.into()
}

fn read_parts(bytes: &[u8]) -> Result<Option<Request>, Malformed> {
    let number = |index: usize| {
        let at = index.checked_mul(8).ok_or(Malformed)?;
        let rest = bytes.get(at..).ok_or(Malformed)?;
        let eight = rest.first_chunk::<8>().ok_or(Malformed)?;
        usize::try_from(u64::from_le_bytes(*eight)).map_err(|_large| Malformed)
    };
    let count = number(0)?;
    // Channel, header, parent, metadata, content, and the end; buffers may come between.
    if !(6..=bytes.len() / 8).contains(&count) {
        return Err(Malformed);
    }
    let part = |index: usize| {
        let range = number(1 + index)?..number(2 + index)?;
        bytes.get(range).ok_or(Malformed)
    };
    let json = |index: usize| {
        let text: &RawValue = serde_json::from_slice(part(index)?).map_err(|_error| Malformed)?;
        Ok(text)
    };
    let channel = std::str::from_utf8(part(0)?).map_err(|_error| Malformed)?;
    let Some(channel) = Channel::named(channel) else {
        return Ok(None);
    };
    request(channel, json(1)?, Some(json(4)?))
}

fn read_object(bytes: &[u8]) -> Result<Option<Request>, Malformed> {
    let object: ReadObject<'_> = serde_json::from_slice(bytes).map_err(|_error| Malformed)?;
    // Old clients leave the channel out, and mean this one.
    let Some(channel) = Channel::named(object.channel.as_deref().unwrap_or("shell")) else {
        return Ok(None);
    };
    request(channel, object.header, object.content)
}

fn request(
    channel: Channel,
    header: &RawValue,
    content: Option<&RawValue>,
) -> Result<Option<Request>, Malformed> {
    Request::new(channel, header, content.unwrap_or(RawValue::NULL))
        .map(Some)
        .ok_or(Malformed)
}

/// The object of a message with buffers, of which no kernel here makes use.
fn before_buffers(bytes: &[u8]) -> Result<&[u8], Malformed> {
    let number = |index: usize| {
        let rest = bytes.get(4 * index..).ok_or(Malformed)?;
        let four = rest.first_chunk::<4>().ok_or(Malformed)?;
        usize::try_from(u32::from_be_bytes(*four)).map_err(|_large| Malformed)
    };
    let start = number(1)?;
    let end = if number(0)? > 1 {
        number(2)?
    } else {
        bytes.len()
    };
    bytes.get(start..end).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::value::to_raw_value;
    use serde_json::{Value, json};

    use super::*;

    const HEADER: &str = r#"{"msg_id": "a", "msg_type": "execute_request", "session": "s"}"#;

    fn parts(parts: &[&str]) -> ws::Message {
        let parts: Vec<_> = parts.iter().map(|part| part.as_bytes().to_vec()).collect();
        ws::Message::Binary(joined(&parts))
    }

    #[test]
    fn a_request_is_the_same_in_every_form() {
        let object = format!(
            r#"{{"header": {HEADER}, "parent_header": {{}}, "metadata": {{}},
                "content": {{"code": "1"}}, "channel": "control", "buffers": []}}"#
        );
        let mut with_buffer = [2_u32, 12, 12 + u32::try_from(object.len()).unwrap()]
            .map(u32::to_be_bytes)
            .concat();
        with_buffer.extend_from_slice(object.as_bytes());
        with_buffer.extend_from_slice(b"buffer");
        let text = ws::Message::text(object);
        let binary = ws::Message::Binary(with_buffer.into());
        for (form, message) in [
            (Form::Object, text),
            (Form::Object, binary),
            (
                Form::Parts,
                parts(&["control", HEADER, "{}", "{}", r#"{"code": "1"}"#]),
            ),
            (
                Form::Parts,
                parts(&["control", HEADER, "{}", "{}", r#"{"code": "1"}"#, "b"]),
            ),
        ] {
            let request = form.read(&message).unwrap().unwrap();
            assert_eq!(request.channel, Channel::Control, "{message:?}");
            assert_eq!(request.kind, "execute_request");
            assert_eq!(request.header.get(), HEADER);
            assert_eq!(request.read::<Value>().unwrap(), json!({"code": "1"}));
        }
    }

    #[test]
    fn what_a_kernel_says_is_read_by_both_kinds_of_clients() {
        let parent = Arc::from(to_raw_value(&json!({"msg_id": "a"})).unwrap());
        let content = json!({"name": "stdout", "text": "ü\n"});
        let session = "s".into();
        let message = Message::new(&session, Channel::Iopub, "stream", &parent, &content);

        let ws::Message::Text(text) = Form::Object.write(&message) else {
            panic!("it is text");
        };
        let object: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(object["channel"], "iopub");
        assert_eq!(object["msg_type"], "stream");
        assert_eq!(object["header"]["msg_type"], "stream");
        assert_eq!(object["parent_header"], json!({"msg_id": "a"}));
        assert_eq!(object["content"], content);
        assert_eq!(object["buffers"], json!([]));

        let ws::Message::Binary(bytes) = Form::Parts.write(&message) else {
            panic!("it is binary");
        };
        let number = |index: usize| {
            let eight = bytes[8 * index..].first_chunk().unwrap();
            usize::try_from(u64::from_le_bytes(*eight)).unwrap()
        };
        assert_eq!(number(0), 6);
        assert_eq!(number(6), bytes.len());
        assert_eq!(&bytes[number(1)..number(2)], b"iopub");
        let content_part = &bytes[number(5)..number(6)];
        assert_eq!(
            serde_json::from_slice::<Value>(content_part).unwrap(),
            content
        );
    }

    #[test]
    fn what_is_no_message_is_refused_whatever_it_claims() {
        let far = [u64::MAX; 8].map(u64::to_le_bytes).concat();
        let mut backwards = 6_u64.to_le_bytes().to_vec();
        for offset in [90_u64, 80, 70, 60, 58, 57] {
            backwards.extend_from_slice(&offset.to_le_bytes());
        }
        backwards.resize(120, b' ');
        for bytes in [vec![], vec![0; 7], vec![0; 64], far, backwards] {
            for form in [Form::Object, Form::Parts] {
                let message = ws::Message::Binary(bytes.clone().into());
                assert!(form.read(&message).is_err(), "{form:?} {bytes:?}");
            }
        }
        for text in ["", "[]", "{}", r#"{"header": {"msg_id": "a"}}"#] {
            let message = ws::Message::text(text);
            assert!(Form::Object.read(&message).is_err(), "{text}");
        }
        let no_header = parts(&["shell", "{}", "{}", "{}", "{}"]);
        Form::Parts.read(&no_header).unwrap_err();
        // What nobody asks for is not looked at.
        let elsewhere = parts(&["iopub2", "[", "{}", "{}", "["]);
        assert!(Form::Parts.read(&elsewhere).unwrap().is_none());
    }

    /// It is kept as long as its request, and sent with everything that is said because of it.
    #[test]
    fn a_header_is_not_as_long_as_a_message_may_be() {
        let header = |padding: usize| {
            let padding = "x".repeat(padding);
            format!(r#"{{"msg_id": "a", "msg_type": "t", "session": "{padding}"}}"#)
        };
        let read = |header: &str| {
            let message = parts(&["shell", header, "{}", "{}", "{}"]);
            Form::Parts.read(&message).is_ok()
        };
        assert!(read(&header(60 << 10)));
        assert!(!read(&header(64 << 10)));
    }

    #[test]
    fn what_a_request_says_is_text_until_it_is_looked_at() {
        let deep = "[".repeat(5000) + &"]".repeat(5000);
        let message = parts(&["shell", HEADER, "{}", "{}", &deep]);
        let request = Form::Parts.read(&message).unwrap().unwrap();
        request.read::<Value>().unwrap_err();
    }
}
