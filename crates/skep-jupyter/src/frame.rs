//! The messages of our own kernels: JSON objects as `kernels/python/PROTOCOL.md` describes them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::{Bundle, Envelope, JsonText, Message, Nature, Reply, Stream};

/// The version of the protocol that is read here.
pub const PROTOCOL: u64 = 1;

/// What we ask of a kernel.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request<'a> {
    /// Run code.
    Execute {
        /// What the answers will name.
        id: &'a str,
        /// The code.
        code: &'a str,
        /// Variables for this execution.
        env: &'a BTreeMap<String, String>,
    },
    /// Replace a layer of the environment.
    Environment {
        /// What the answer will name.
        id: &'a str,
        /// Which layer.
        layer: Layer,
        /// All its variables.
        variables: &'a BTreeMap<String, String>,
    },
    /// Change the working directory.
    Chdir {
        /// What the answer will name.
        id: &'a str,
        /// The new directory.
        path: &'a str,
    },
    /// End.
    Shutdown {
        /// What the answer will name.
        id: &'a str,
    },
}

/// A lasting layer of a kernel's environment; later ones win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The whole sandbox's.
    Sandbox,
    /// One context's.
    Context,
}

/// A frame is not what a kernel of ours would say.
#[derive(Debug, thiserror::Error)]
#[error("the kernel sent a frame that is no message")]
pub struct FrameError(#[from] serde_json::Error);

/// The fields of all messages together; which are there depends on the type.
#[derive(Deserialize)]
struct Fields<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(default, borrow)]
    parent: Option<Cow<'a, str>>,
    #[serde(default)]
    time: Option<i64>,
    #[serde(default)]
    protocol: u64,
    #[serde(default, borrow)]
    state: Cow<'a, str>,
    #[serde(default, borrow)]
    status: Cow<'a, str>,
    #[serde(default, borrow)]
    name: Cow<'a, str>,
    #[serde(rename = "kind", default, borrow)]
    nature: Cow<'a, str>,
    #[serde(default)]
    execution_count: u64,
    #[serde(default, borrow)]
    text: Option<&'a RawValue>,
    #[serde(default, borrow)]
    data: Option<RawBundle<'a>>,
    #[serde(default, borrow)]
    ename: Cow<'a, str>,
    #[serde(default, borrow)]
    evalue: Cow<'a, str>,
    #[serde(default)]
    traceback: Vec<String>,
    #[serde(default)]
    exiting: bool,
}

/// An object whose keys keep their order.
pub(crate) struct RawBundle<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawBundle<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object of representations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(Entries).map(RawBundle)
    }
}

/// Reads the body of one frame.
///
/// # Errors
///
/// [`FrameError`] if it is no message. Kernels run user code, which may write anything.
pub fn parse(frame: &Bytes) -> Result<Envelope, FrameError> {
    let mut fields: Fields<'_> = serde_json::from_slice(frame)?;
    let parent = fields.parent.take().map(Cow::into_owned);
    let time = fields.time;
    let message = message(frame, fields)?;
    Ok(Envelope {
        parent,
        time,
        message,
    })
}

fn message(frame: &Bytes, fields: Fields<'_>) -> Result<Message, FrameError> {
    let missing = |field| FrameError(serde::de::Error::missing_field(field));
    let bundle = |data: Option<RawBundle<'_>>| -> Result<Bundle, FrameError> {
        let entries = data.ok_or_else(|| missing("data"))?.0;
        let in_frame =
            |(mime, value): (String, &RawValue)| (mime, JsonText::in_frame(frame, value));
        Ok(Bundle(entries.into_iter().map(in_frame).collect()))
    };
    Ok(match fields.kind.as_ref() {
        "hello" => Message::Hello {
            protocol: fields.protocol,
        },
        "status" => match fields.state.as_ref() {
            "idle" => Message::Idle,
            "busy" => Message::Busy,
            _ => Message::Unused,
        },
        "execute_input" => Message::Input {
            count: fields.execution_count,
        },
        "stream" => Message::Text {
            stream: match fields.name.as_ref() {
                "stderr" => Stream::Stderr,
                _ => Stream::Stdout,
            },
            text: JsonText::in_frame(
                frame,
                fields
                    .text
                    .filter(|text| text.get().starts_with('"'))
                    .ok_or_else(|| missing("text"))?,
            ),
        },
        "display_data" => Message::Display(bundle(fields.data)?),
        "execute_result" => Message::Value(bundle(fields.data)?),
        "error" => Message::Error {
            nature: match fields.nature.as_ref() {
                "syntax" => Nature::Syntax,
                "interrupted" => Nature::Interrupted,
                _ => Nature::Runtime,
            },
            name: fields.ename.into_owned(),
            value: fields.evalue.into_owned(),
            traceback: fields.traceback,
        },
        "reply" => Message::Reply(reply(fields)),
        _ => Message::Unused,
    })
}

fn reply(fields: Fields<'_>) -> Reply {
    match fields.status.as_ref() {
        "error" => Reply::Failed {
            name: fields.ename.into_owned(),
            value: fields.evalue.into_owned(),
            exiting: fields.exiting,
        },
        "aborted" | "abort" => Reply::Aborted,
        _ => Reply::Done {
            exiting: fields.exiting,
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &'static str) -> Envelope {
        parse(&Bytes::from_static(text.as_bytes())).unwrap()
    }

    #[test]
    fn text_is_passed_on_as_it_is_written() {
        let envelope = parsed(
            r#"{"type":"stream","parent":"e1","name":"stderr","time":17,"text":"a\u2028b\n"}"#,
        );
        assert_eq!(envelope.parent.as_deref(), Some("e1"));
        assert_eq!(envelope.time, Some(17));
        let Message::Text { stream, text } = envelope.message else {
            panic!("{envelope:?}");
        };
        assert_eq!((stream, text.as_str()), (Stream::Stderr, r#""a\u2028b\n""#));
    }

    #[test]
    fn a_bundle_keeps_its_order_and_its_values() {
        let envelope = parsed(
            r#"{"type":"execute_result","parent":"e1","time":1,"execution_count":2,
               "data":{"text/plain":"5","application/json":{"b":[1,null],"a":2}},"metadata":{}}"#,
        );
        let Message::Value(Bundle(entries)) = envelope.message else {
            panic!("{envelope:?}");
        };
        let entries: Vec<_> = entries
            .iter()
            .map(|(mime, value)| (mime.as_str(), value.as_str()))
            .collect();
        assert_eq!(
            entries,
            [
                ("text/plain", "\"5\""),
                ("application/json", r#"{"b":[1,null],"a":2}"#)
            ]
        );
    }

    #[test]
    fn the_nature_of_an_exception_is_told() {
        for (kind, nature) in [
            ("syntax", Nature::Syntax),
            ("interrupted", Nature::Interrupted),
            ("exit", Nature::Runtime),
            ("runtime", Nature::Runtime),
        ] {
            let text = format!(
                r#"{{"type":"error","parent":null,"kind":"{kind}","ename":"E","evalue":"v","traceback":["a"]}}"#
            );
            let envelope = parse(&Bytes::from(text)).unwrap();
            assert_eq!(envelope.parent, None);
            let Message::Error { nature: found, .. } = envelope.message else {
                panic!("{envelope:?}");
            };
            assert_eq!(found, nature);
        }
    }

    #[test]
    fn an_unknown_message_is_not_an_error_and_a_broken_one_is() {
        assert_eq!(parsed(r#"{"type":"news"}"#).message, Message::Unused);
        for text in [
            "{",
            "[]",
            "{}",
            r#"{"type":"stream"}"#,
            r#"{"type":"stream","text":5}"#,
            r#"{"type":"display_data"}"#,
        ] {
            assert!(
                parse(&Bytes::from_static(text.as_bytes())).is_err(),
                "{text}"
            );
        }
    }

    #[test]
    fn requests_carry_values_as_data() {
        let env = BTreeMap::from([("A".to_owned(), "'\"\n".to_owned())]);
        let request = Request::Execute {
            id: "e1",
            code: "x",
            env: &env,
        };
        assert_eq!(
            serde_json::to_string(&request).unwrap(),
            r#"{"type":"execute","id":"e1","code":"x","env":{"A":"'\"\n"}}"#
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(envelope) = parse(&Bytes::from(bytes)) {
                prop_assert!(envelope.parent.is_none_or(|parent| parent.len() < 64));
            }
        }
    }
}
