//! Messages of Jupyter's protocol, whatever form they have on a WebSocket.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
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

/// A message of a client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    pub(crate) channel: Channel,
    /// Its type, such as `execute_request`.
    pub(crate) kind: String,
    /// Its header: parent of everything that is said because of it.
    pub(crate) header: Arc<Value>,
    pub(crate) content: Value,
}

/// A message of a kernel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    pub(crate) channel: Channel,
    pub(crate) header: Header,
    pub(crate) parent: Arc<Value>,
    pub(crate) content: Value,
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
    /// A message with these parts; `None` if its header does not say what it is.
    pub(crate) fn new(channel: Channel, header: Value, content: Value) -> Option<Self> {
        let kind = header.get("msg_type")?.as_str()?.to_owned();
        header.get("msg_id")?.as_str()?;
        Some(Self {
            channel,
            kind,
            header: Arc::new(header),
            content,
        })
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
        parent: &Arc<Value>,
        content: Value,
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
            content,
        }
    }
}

/// Parent of what nobody has asked for.
pub(crate) fn nobody() -> Arc<Value> {
    Arc::new(json!({}))
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
