//! Contents of messages, by their type.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::text::Pieces;
use super::{SignedError, parse};
use crate::frame::{RawBundle, is_true};
use crate::question;
use crate::{Bundle, InputRequest, Message, Nature, Reply, Stream};

/// A kernel's description of itself.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct KernelInfo {
    /// Name of the program, such as `ipython`.
    #[serde(default)]
    pub implementation: String,
    /// Language that it runs.
    #[serde(default)]
    pub language_info: LanguageInfo,
}

/// Language that a kernel runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct LanguageInfo {
    /// The language, such as `python`.
    #[serde(default)]
    pub name: String,
}

/// The messages that one content means.
#[derive(Debug)]
pub(super) enum Content {
    One(Message),
    Text(Pieces),
    Nothing,
}

impl Iterator for Content {
    type Item = Message;

    fn next(&mut self) -> Option<Message> {
        match std::mem::replace(self, Self::Nothing) {
            Self::One(message) => Some(message),
            Self::Text(mut pieces) => {
                let (stream, text) = (pieces.stream, pieces.next()?);
                *self = Self::Text(pieces);
                Some(Message::Text { stream, text })
            }
            Self::Nothing => None,
        }
    }
}

#[derive(Deserialize)]
struct Status {
    execution_state: Option<String>,
}

#[derive(Deserialize)]
struct Input {
    execution_count: Option<u64>,
}

#[derive(Deserialize)]
struct Text<'a> {
    name: Option<String>,
    #[serde(borrow)]
    text: &'a RawValue,
}

#[derive(Deserialize)]
struct Shown<'a> {
    #[serde(borrow)]
    data: Option<RawBundle<'a>>,
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow)]
    transient: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Cleared<'a> {
    #[serde(borrow)]
    wait: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Failed {
    ename: Option<String>,
    evalue: Option<String>,
    traceback: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Asked {
    prompt: Option<String>,
    password: Option<bool>,
}

#[derive(Deserialize)]
struct Replied<'a> {
    status: Option<String>,
    ename: Option<String>,
    evalue: Option<String>,
    #[serde(borrow)]
    payload: Option<&'a RawValue>,
}

impl Content {
    /// Reads the content of a message of this type and id.
    pub(super) fn read(kind: &str, id: &str, frame: &Bytes) -> Result<Self, SignedError> {
        let message = match kind {
            "status" => state(&parse("content", frame)?),
            "execute_input" => {
                let input: Input = parse("content", frame)?;
                Message::Input {
                    count: input.execution_count.unwrap_or_default(),
                }
            }
            "stream" => {
                let text: Text<'_> = parse("content", frame)?;
                let stream = match text.name.as_deref() {
                    Some("stderr") => Stream::Stderr,
                    Some(_) | None => Stream::Stdout,
                };
                return Ok(Self::Text(Pieces::new(stream, frame, text.text)));
            }
            "display_data" => Message::Display(bundle(frame)?),
            "update_display_data" => Message::Update(bundle(frame)?),
            "execute_result" => Message::Value(bundle(frame)?),
            "clear_output" => {
                let cleared: Cleared<'_> = parse("content", frame)?;
                Message::Clear {
                    wait: is_true(cleared.wait),
                }
            }
            "error" => {
                let failed: Failed = parse("content", frame)?;
                let name = failed.ename.unwrap_or_default();
                let value = failed.evalue.unwrap_or_default();
                Message::Error {
                    nature: nature(&name, &value),
                    name,
                    value,
                    traceback: failed.traceback.unwrap_or_default(),
                }
            }
            "input_request" => {
                let asked: Asked = parse("content", frame)?;
                Message::InputRequest(InputRequest {
                    id: id.to_owned(),
                    prompt: asked.prompt.unwrap_or_default(),
                    is_password: asked.password.unwrap_or_default(),
                })
            }
            "execute_reply" => Message::Reply(reply(parse("content", frame)?)),
            kind => match question::jupyter_reply(kind, frame) {
                Some(answer) => answer.map_err(|source| SignedError::Json {
                    part: "content",
                    source,
                })?,
                None => Message::Unused,
            },
        };
        Ok(Self::One(message))
    }
}

fn state(status: &Status) -> Message {
    match status.execution_state.as_deref() {
        Some("busy") => Message::Busy,
        Some("idle") => Message::Idle,
        Some("restarting") => Message::Restarting,
        Some(_) | None => Message::Unused,
    }
}

/// A foreign kernel does not say what an exception is; these names do in all that we know.
fn nature(name: &str, value: &str) -> Nature {
    // R has no name for it: its kernel parses a cell by these calls, in old and new versions.
    const R_PARSES: [&str; 2] = [
        "Error in parse(text = input): <text>:",
        "Error in parse(text = x, srcfile = src): <text>:",
    ];
    match name {
        "SyntaxError" | "_IncompleteInputError" | "IndentationError" | "TabError" => Nature::Syntax,
        "ERROR" if R_PARSES.iter().any(|call| value.starts_with(call)) => Nature::Syntax,
        "KeyboardInterrupt" => Nature::Interrupted,
        _ => Nature::Runtime,
    }
}

fn reply(replied: Replied<'_>) -> Reply {
    let exiting = replied
        .payload
        .is_some_and(|payload| payload.get().contains("\"ask_exit\""));
    match replied.status.as_deref() {
        Some("error") => Reply::Failed {
            name: replied.ename.unwrap_or_default(),
            value: replied.evalue.unwrap_or_default(),
            exiting,
        },
        Some("abort" | "aborted") => Reply::Aborted,
        Some(_) | None => Reply::Done { exiting },
    }
}

fn bundle(frame: &Bytes) -> Result<Bundle, SignedError> {
    let shown: Shown<'_> = parse("content", frame)?;
    let data = shown.data.unwrap_or(RawBundle(Vec::new()));
    Ok(data.in_frame(frame, shown.metadata, shown.transient))
}
