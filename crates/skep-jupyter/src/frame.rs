//! The messages of our own kernels: JSON objects as `kernels/PROTOCOL.md` describes them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::question;
use crate::{Bundle, Envelope, InputRequest, JsonText, Message, Nature, Reply, Stream};

/// The version of the protocol that is read here.
pub const PROTOCOL: u64 = 1;

/// Requests to a kernel.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Request<'a> {
    /// Runs code, and sends its output.
    Execute {
        /// Id that the answers will name as their parent.
        id: &'a str,
        /// Source text in the language of the kernel.
        code: &'a str,
        /// Variables for this execution.
        env: &'a BTreeMap<String, String>,
        /// True if somebody answers when the code asks for input.
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        allow_stdin: bool,
    },
    /// Answers a request of the running code for input. The kernel does not answer to it.
    InputReply {
        /// Id of the kernel's request.
        parent: &'a str,
        /// The line, without its end; `None` for the end of input.
        value: Option<&'a str>,
    },
    /// Replaces a layer of the environment.
    Environment {
        /// Id that the answer will name as its parent.
        id: &'a str,
        /// The layer to replace.
        layer: Layer,
        /// All its variables.
        variables: &'a BTreeMap<String, String>,
    },
    /// Changes the working directory.
    Chdir {
        /// Id that the answer will name as its parent.
        id: &'a str,
        /// The new directory.
        path: &'a str,
    },
    /// Asks for the texts that could stand at the cursor.
    Complete {
        /// Id that the answer will name as its parent.
        id: &'a str,
        /// Source text in the language of the kernel.
        code: &'a str,
        /// Number of characters before the cursor; the end if missing.
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<u64>,
    },
    /// Asks for the documentation of the name at the cursor.
    Inspect {
        /// Id that the answer will name as its parent.
        id: &'a str,
        /// Source text in the language of the kernel.
        code: &'a str,
        /// Number of characters before the cursor; the end if missing.
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<u64>,
        /// 1 for the source too, else 0.
        detail: u8,
    },
    /// Asks whether a prompt should run the code or ask for another line.
    IsComplete {
        /// Id that the answer will name as its parent.
        id: &'a str,
        /// Source text in the language of the kernel.
        code: &'a str,
    },
    /// Asks for the language and the kernel.
    Info {
        /// Id that the answer will name as its parent.
        id: &'a str,
    },
    /// Has the kernel fork a copy of itself, which says hello over the socket that comes with this
    /// request, and stands still.
    Fork {
        /// Id that the answer of the original will name as its parent.
        id: &'a str,
    },
    /// Lets a copy that stands still go on.
    Continue {
        /// Id that the answer will name as its parent.
        id: &'a str,
        /// True if its origin goes on as well, so that both must not draw the same random numbers.
        another: bool,
    },
    /// Ends the kernel.
    Shutdown {
        /// Id that the answer will name as its parent.
        id: &'a str,
    },
}

/// A lasting layer of a kernel's environment; later ones win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// The whole sandbox's.
    Sandbox,
    /// The variables of one context.
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
    #[serde(default)]
    heap_limit: Option<u64>,
    #[serde(default)]
    forks: bool,
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
    metadata: Option<&'a RawValue>,
    #[serde(default, borrow)]
    transient: Option<&'a RawValue>,
    #[serde(default, borrow)]
    wait: Option<&'a RawValue>,
    #[serde(default, borrow)]
    ename: Cow<'a, str>,
    #[serde(default, borrow)]
    evalue: Cow<'a, str>,
    #[serde(default, deserialize_with = "traceback_lines")]
    traceback: Vec<String>,
    #[serde(default)]
    exiting: bool,
    #[serde(default, borrow)]
    id: Cow<'a, str>,
    #[serde(default, borrow)]
    prompt: Cow<'a, str>,
    #[serde(default)]
    password: bool,
}

/// Most lines of a traceback, and most representations of a value. User code can write to the
/// kernel's socket itself, and each empty string takes eight times as much memory here as in its
/// frame: without a bound one frame would use all the memory that the agent has.
const MOST_LINES: usize = 100_000;
const MOST_ENTRIES: usize = 10_000;

fn traceback_lines<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Lines;
    impl<'de> Visitor<'de> for Lines {
        type Value = Vec<String>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(formatter, "at most {MOST_LINES} lines")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut lines: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(line) = lines.next_element()? {
                if all.len() == MOST_LINES {
                    return Err(A::Error::invalid_length(MOST_LINES + 1, &self));
                }
                all.push(line);
            }
            Ok(all)
        }
    }
    deserializer.deserialize_seq(Lines)
}

/// Returns true if a value that user code gave for a truth is one.
pub(crate) fn is_true(value: Option<&RawValue>) -> bool {
    value.is_some_and(|value| !matches!(value.get(), "false" | "null" | "0" | "\"\""))
}

/// The id in what is told with a display and is not part of it. User code chooses it, so it may
/// be no string.
fn display_id(transient: &RawValue) -> Option<String> {
    let entries: RawBundle<'_> = serde_json::from_str(transient.get()).ok()?;
    let mut ids = entries.0.iter().filter(|(name, _)| name == "display_id");
    let id = ids.next()?.1.get();
    match serde_json::from_str(id) {
        Ok(Some(text)) => Some(text),
        Ok(None) => None,
        Err(_no_string) => Some(id.to_owned()),
    }
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
                    if entries.len() == MOST_ENTRIES {
                        return Err(A::Error::invalid_length(MOST_ENTRIES + 1, &self));
                    }
                    entries.push(entry);
                }
                Ok(entries)
            }
        }
        deserializer.deserialize_map(Entries).map(RawBundle)
    }
}

impl RawBundle<'_> {
    /// The bundle, as far as possible without a copy of what lies in `frame`.
    pub(crate) fn in_frame(
        self,
        frame: &Bytes,
        metadata: Option<&RawValue>,
        transient: Option<&RawValue>,
    ) -> Bundle {
        let in_frame =
            |(mime, value): (String, &RawValue)| (mime, JsonText::in_frame(frame, value));
        let is_telling = |metadata: &&RawValue| {
            let text = metadata.get();
            text.starts_with('{') && text.trim_end_matches('}').len() > 1
        };
        Bundle {
            entries: self.0.into_iter().map(in_frame).collect(),
            metadata: metadata
                .filter(is_telling)
                .map(|metadata| JsonText::in_frame(frame, metadata)),
            display_id: transient.and_then(display_id),
        }
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
    let bundle = |fields: Fields<'_>| -> Result<Bundle, FrameError> {
        let data = fields.data.ok_or_else(|| missing("data"))?;
        Ok(data.in_frame(frame, fields.metadata, fields.transient))
    };
    Ok(match fields.kind.as_ref() {
        "hello" => Message::Hello {
            protocol: fields.protocol,
            heap_limit: fields.heap_limit,
            forks: fields.forks,
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
        "display_data" => Message::Display(bundle(fields)?),
        "update_display_data" => Message::Update(bundle(fields)?),
        "clear_output" => Message::Clear {
            wait: is_true(fields.wait),
        },
        "execute_result" => Message::Value(bundle(fields)?),
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
        "input_request" => Message::InputRequest(InputRequest {
            id: fields.id.into_owned(),
            prompt: fields.prompt.into_owned(),
            is_password: fields.password,
        }),
        "reply" => match question::in_reply(frame) {
            Some(answer) => Message::Answer(answer),
            None => Message::Reply(reply(fields)),
        },
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
    fn a_frame_of_countless_empty_things_is_refused() {
        let frame = |text: String| parse(&Bytes::from(text));
        let error = |lines: usize| {
            let lines = vec![r#""""#; lines].join(",");
            frame(format!(
                r#"{{"type":"error","ename":"x","evalue":"y","traceback":[{lines}]}}"#
            ))
        };
        error(MOST_LINES).unwrap();
        error(MOST_LINES + 1).unwrap_err();
        let value = |entries: usize| {
            let entries = vec![r#""":0"#; entries].join(",");
            frame(format!(
                r#"{{"type":"display_data","data":{{{entries}}},"metadata":{{}}}}"#
            ))
        };
        value(MOST_ENTRIES).unwrap();
        value(MOST_ENTRIES + 1).unwrap_err();
    }

    #[test]
    fn a_request_for_input_is_read_and_its_answer_names_it() {
        let envelope = parsed(
            r#"{"type":"input_request","parent":"e1","time":1,"id":"i7","prompt":"na\u00efve? ","password":true}"#,
        );
        let request = InputRequest {
            id: "i7".to_owned(),
            prompt: "na\u{ef}ve? ".to_owned(),
            is_password: true,
        };
        assert_eq!(envelope.message, Message::InputRequest(request));
        let written = |value| {
            let reply = Request::InputReply {
                parent: "i7",
                value,
            };
            serde_json::to_string(&reply).unwrap()
        };
        let answer = r#"{"type":"input_reply","parent":"i7","value":"yes"}"#;
        assert_eq!(written(Some("yes")), answer);
        let end = r#"{"type":"input_reply","parent":"i7","value":null}"#;
        assert_eq!(written(None), end);
    }

    #[test]
    fn a_bundle_keeps_its_order_and_its_values() {
        let envelope = parsed(
            r#"{"type":"execute_result","parent":"e1","time":1,"execution_count":2,
               "data":{"text/plain":"5","application/json":{"b":[1,null],"a":2}},"metadata":{}}"#,
        );
        let Message::Value(bundle) = envelope.message else {
            panic!("{envelope:?}");
        };
        assert_eq!((bundle.metadata, bundle.display_id), (None, None));
        let entries: Vec<_> = bundle
            .entries
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
    fn a_display_keeps_its_metadata_and_its_id() {
        let envelope = parsed(
            r#"{"type":"update_display_data","parent":"e1","time":1,"data":{"text/plain":"5"},
               "metadata":{"image/png":{"width":5}},"transient":{"display_id":"d"}}"#,
        );
        let Message::Update(bundle) = envelope.message else {
            panic!("{envelope:?}");
        };
        assert_eq!(bundle.display_id.as_deref(), Some("d"));
        let metadata = bundle.metadata.unwrap();
        assert_eq!(metadata.as_str(), r#"{"image/png":{"width":5}}"#);
    }

    #[test]
    fn what_user_code_may_choose_freely_breaks_nothing() {
        for (wait, meant) in [("true", true), ("1", true), ("null", false), ("[]", true)] {
            let text = format!(r#"{{"type":"clear_output","parent":"e1","wait":{wait}}}"#);
            let cleared = parse(&Bytes::from(text)).unwrap();
            assert_eq!(cleared.message, Message::Clear { wait: meant });
        }
        for (transient, id) in [
            ("null", None),
            ("[1]", None),
            (r#"{"a":1}"#, None),
            (r#"{"display_id":null}"#, None),
            (r#"{"display_id":7}"#, Some("7")),
        ] {
            let text = format!(
                r#"{{"type":"display_data","data":{{}},"metadata":[],"transient":{transient}}}"#
            );
            let Message::Display(bundle) = parse(&Bytes::from(text)).unwrap().message else {
                panic!("{transient}");
            };
            assert_eq!(bundle.display_id.as_deref(), id, "{transient}");
            assert_eq!(bundle.metadata, None);
        }
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
            allow_stdin: false,
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
