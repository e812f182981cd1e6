//! Messages of Jupyter's protocol, whatever form they have on a WebSocket.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::activity::written;

/// Version of the protocol that headers tell.
pub(crate) const PROTOCOL: &str = "5.4";

/// Channels that a WebSocket carries. Heartbeats are its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Channel {
    Shell,
    Control,
    Stdin,
    Iopub,
}

/// Longest header of a client's message. It comes back with everything that is said because of it.
const LONGEST_HEADER: usize = 64 << 10;

/// A message of a client. What waits for its turn is text: it takes the memory that it was counted
/// with.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) channel: Channel,
    /// Its type, such as `execute_request`.
    pub(crate) kind: String,
    /// Its header: parent of everything that is said because of it.
    pub(crate) header: Arc<RawValue>,
    content: Box<RawValue>,
}

/// A message of a kernel.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) channel: Channel,
    pub(crate) header: Header,
    pub(crate) parent: Arc<RawValue>,
    pub(crate) content: Box<RawValue>,
}

/// Header of a message of a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Header {
    pub(crate) msg_id: String,
    pub(crate) msg_type: String,
    username: &'static str,
    session: Arc<str>,
    date: String,
    version: &'static str,
}

impl Channel {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "shell" => Some(Self::Shell),
            "control" => Some(Self::Control),
            "stdin" => Some(Self::Stdin),
            "iopub" => Some(Self::Iopub),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Control => "control",
            Self::Stdin => "stdin",
            Self::Iopub => "iopub",
        }
    }
}

impl Request {
    /// A message with these parts; `None` if its header does not say what it is, or is too long.
    pub(crate) fn new(channel: Channel, header: &RawValue, content: &RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        struct Named {
            msg_type: String,
            #[serde(rename = "msg_id")]
            _id: String,
        }

        if header.get().len() > LONGEST_HEADER {
            return None;
        }
        let named: Named = serde_json::from_str(header.get()).ok()?;
        Some(Self {
            channel,
            kind: named.msg_type,
            header: Arc::from(header.to_owned()),
            content: content.to_owned(),
        })
    }

    /// Content of the message.
    ///
    /// # Errors
    ///
    /// [`serde_json::Error`] if it does not say what it must.
    pub(crate) fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.content.get())
    }

    /// Type of the reply: that of `execute_request` is `execute_reply`.
    pub(crate) fn reply_kind(&self) -> Option<String> {
        let subject = self.kind.strip_suffix("_request")?;
        Some(format!("{subject}_reply"))
    }
}

impl Message {
    /// A message of the kernel with this session, new and sent now.
    pub(crate) fn new(
        session: &Arc<str>,
        channel: Channel,
        kind: &str,
        parent: &Arc<RawValue>,
        content: &impl Serialize,
    ) -> Self {
        Self {
            channel,
            header: Header {
                msg_id: Uuid::new_v4().to_string(),
                msg_type: kind.to_owned(),
                username: "skep",
                session: Arc::clone(session),
                date: written(Timestamp::now()),
                version: PROTOCOL,
            },
            parent: Arc::clone(parent),
            content: to_raw_value(content).expect("keys are text"),
        }
    }

    /// The message in place of this one, which is too large for clients.
    pub(crate) fn too_large(&self, size: usize) -> Self {
        let kind = self.header.msg_type.as_str();
        let session = &self.header.session;
        if kind.ends_with("_reply") {
            let text = format!("the answer has {size} bytes, which is more than clients take");
            let content = failed("TooLarge", &text);
            return Self::new(session, self.channel, kind, &self.parent, &content);
        }
        let text = format!("an output of {size} bytes is too large and was left out\n");
        let content = json!({"name": "stderr", "text": text});
        Self::new(session, Channel::Iopub, "stream", &self.parent, &content)
    }
}

/// Parent of what nobody has asked for.
pub(crate) fn nobody() -> Arc<RawValue> {
    Arc::from(to_raw_value(&json!({})).expect("it is valid"))
}

/// Content of a reply to a request that could not be answered.
pub(crate) fn failed(name: &str, value: &str) -> Value {
    json!({"status": "error", "ename": name, "evalue": value, "traceback": []})
}

/// Content of a reply to a request that was answered with this.
pub(crate) fn ok(content: Value) -> Value {
    let mut reply = match content {
        Value::Object(content) => content,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Map::new()
        }
    };
    reply.insert("status".to_owned(), Value::from("ok"));
    Value::Object(reply)
}
