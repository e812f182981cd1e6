//! Jupyter's own wire format: messages of several frames, signed with a key that both ends know.

use bytes::Bytes;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::Sha256;

use crate::frame::RawBundle;
use crate::{Bundle, Envelope, JsonText, Message, Nature, Reply, Stream};

const DELIMITER: &[u8] = b"<IDS|MSG>";
const VERSION: &str = "5.3";

/// The characters in one stream message that is passed on; clients need time quadratic in the
/// length of a line.
const LARGEST_TEXT: usize = 65_536;

/// Where a kernel listens, as its connection file says.
#[derive(Debug, Clone, Serialize)]
pub struct Connection {
    /// Always `ipc`.
    pub transport: &'static str,
    /// The path of its sockets without their numbers.
    pub ip: String,
    /// The number of the socket for requests.
    pub shell_port: u16,
    /// The number of the socket for output.
    pub iopub_port: u16,
    /// The number of the socket for questions to the user, which nobody asks here.
    pub stdin_port: u16,
    /// The number of the socket for urgent requests.
    pub control_port: u16,
    /// The number of the socket that echoes.
    pub hb_port: u16,
    /// What messages are signed with.
    pub key: String,
    /// How.
    pub signature_scheme: &'static str,
}

impl Connection {
    /// Sockets next to each other at `path`.
    pub fn at(path: &str, key: &str) -> Self {
        Self {
            transport: "ipc",
            ip: path.to_owned(),
            shell_port: 1,
            iopub_port: 2,
            stdin_port: 3,
            control_port: 4,
            hb_port: 5,
            key: key.to_owned(),
            signature_scheme: "hmac-sha256",
        }
    }

    /// The path of a socket.
    pub fn path(&self, port: u16) -> String {
        format!("{}-{port}", self.ip)
    }
}

/// What a caller of a kernel needs to write and read messages.
#[derive(Debug)]
pub struct Session {
    id: String,
    key: String,
}

/// A request that runs code.
#[derive(Debug)]
pub struct Execute<'a> {
    /// The code.
    pub code: &'a str,
    /// Whether it leaves no trace: no number, no output of its value.
    pub silent: bool,
}

/// A message is not one of a kernel's.
#[derive(Debug, thiserror::Error)]
pub enum SignedError {
    /// Frames are missing.
    #[error("the message has no delimiter or too few frames")]
    Shape,
    /// It was not signed with our key.
    #[error("the message is not signed with the key")]
    Signature,
    /// A frame is not what it must be.
    #[error("the {part} of a message cannot be read")]
    Json {
        /// Which frame.
        part: &'static str,
        /// Why.
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    msg_id: String,
    #[serde(default)]
    msg_type: String,
}

impl Session {
    /// A session under a name, with the key of a connection file.
    pub fn new(id: String, key: String) -> Self {
        Self { id, key }
    }

    /// A request to run code, under an id.
    pub fn execute(&self, id: &str, date: &str, request: &Execute<'_>) -> Vec<Bytes> {
        let content = json!({
            "code": request.code,
            "silent": request.silent,
            "store_history": !request.silent,
            "user_expressions": {},
            "allow_stdin": false,
            // Each request stands for itself; what follows a failure is not thrown away.
            "stop_on_error": false,
        });
        self.message(id, date, "execute_request", &content)
    }

    /// A request without a content.
    pub fn plain(&self, id: &str, date: &str, kind: &str) -> Vec<Bytes> {
        self.message(id, date, kind, &json!({}))
    }

    fn message(&self, id: &str, date: &str, kind: &str, content: &Value) -> Vec<Bytes> {
        let header = json!({
            "msg_id": id,
            "msg_type": kind,
            "session": self.id,
            "username": "skep",
            "date": date,
            "version": VERSION,
        });
        let parts =
            [&header, &json!({}), &json!({}), content].map(|part| Bytes::from(part.to_string()));
        let signature = hex(&self.mac(&parts).finalize().into_bytes());
        [Bytes::from_static(DELIMITER), Bytes::from(signature)]
            .into_iter()
            .chain(parts)
            .collect()
    }

    fn mac(&self, parts: &[Bytes]) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.key.as_bytes()).expect("a key may have any length");
        for part in parts {
            mac.update(part);
        }
        mac
    }

    /// Reads a message, which may be several of ours: text that is too long is split.
    ///
    /// # Errors
    ///
    /// If it is no message, or not signed with the key.
    pub fn read(&self, frames: &[Bytes]) -> Result<Vec<Envelope>, SignedError> {
        let delimiter = frames.iter().position(|frame| &frame[..] == DELIMITER);
        let rest = &frames[delimiter.ok_or(SignedError::Shape)? + 1..];
        let (signature, parts) = rest.split_first().ok_or(SignedError::Shape)?;
        let parts = parts.get(..4).ok_or(SignedError::Shape)?;
        let shown = unhex(signature).ok_or(SignedError::Signature)?;
        self.mac(parts)
            .verify_slice(&shown)
            .map_err(|_| SignedError::Signature)?;
        let header: Header = parse("header", &parts[0])?;
        let parent: Header = parse("parent header", &parts[1])?;
        let envelope = |message| Envelope {
            parent: (!parent.msg_id.is_empty()).then(|| parent.msg_id.clone()),
            time: None,
            message,
        };
        let messages = messages(&header.msg_type, &parts[3])?;
        Ok(messages.into_iter().map(envelope).collect())
    }
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(default)]
    execution_state: String,
    #[serde(default)]
    execution_count: Option<u64>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    text: String,
    #[serde(default, borrow)]
    data: Option<RawBundle<'a>>,
    #[serde(default)]
    status: String,
    #[serde(default)]
    ename: String,
    #[serde(default)]
    evalue: String,
    #[serde(default)]
    traceback: Vec<String>,
    #[serde(default, borrow)]
    payload: Option<&'a RawValue>,
}

fn messages(kind: &str, frame: &Bytes) -> Result<Vec<Message>, SignedError> {
    let content: Content<'_> = parse("content", frame)?;
    Ok(vec![match kind {
        "status" => match content.execution_state.as_str() {
            "busy" => Message::Busy,
            "idle" => Message::Idle,
            "restarting" => Message::Restarting,
            _ => Message::Unused,
        },
        "execute_input" => Message::Input {
            count: content.execution_count.unwrap_or_default(),
        },
        "stream" => return Ok(texts(&content)),
        "display_data" => Message::Display(bundle(frame, content.data)),
        "execute_result" => Message::Value(bundle(frame, content.data)),
        "error" => Message::Error {
            nature: nature(&content.ename),
            name: content.ename,
            value: content.evalue,
            traceback: content.traceback,
        },
        "execute_reply" => Message::Reply(reply(content)),
        "kernel_info_reply" => Message::Hello { protocol: 0 },
        _ => Message::Unused,
    }])
}

fn texts(content: &Content<'_>) -> Vec<Message> {
    let stream = match content.name.as_str() {
        "stderr" => Stream::Stderr,
        _ => Stream::Stdout,
    };
    let mut rest = content.text.as_str();
    let mut texts = Vec::new();
    while !rest.is_empty() {
        let end = rest.floor_char_boundary(LARGEST_TEXT.min(rest.len()));
        let (piece, after) = rest.split_at(end);
        texts.push(Message::Text {
            stream,
            text: JsonText::string(piece),
        });
        rest = after;
    }
    texts
}

/// A foreign kernel does not say what an exception is; these names do in all that we know.
fn nature(name: &str) -> Nature {
    match name {
        "SyntaxError" | "IndentationError" | "TabError" => Nature::Syntax,
        "KeyboardInterrupt" => Nature::Interrupted,
        _ => Nature::Runtime,
    }
}

fn reply(content: Content<'_>) -> Reply {
    let exiting = content
        .payload
        .is_some_and(|payload| payload.get().contains("\"ask_exit\""));
    match content.status.as_str() {
        "error" => Reply::Failed {
            name: content.ename,
            value: content.evalue,
            exiting,
        },
        "abort" | "aborted" => Reply::Aborted,
        _ => Reply::Done { exiting },
    }
}

fn bundle(frame: &Bytes, data: Option<RawBundle<'_>>) -> Bundle {
    let entries = data.map(|data| data.0).unwrap_or_default();
    let in_frame = |(mime, value): (String, &RawValue)| (mime, JsonText::in_frame(frame, value));
    Bundle(entries.into_iter().map(in_frame).collect())
}

fn parse<'a, T: Deserialize<'a>>(part: &'static str, frame: &'a Bytes) -> Result<T, SignedError> {
    serde_json::from_slice(frame).map_err(|source| SignedError::Json { part, source })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let pair = |pair: &[u8]| u8::try_from(digit(pair[0])? << 4 | digit(*pair.get(1)?)?).ok();
    text.chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session::new("s".to_owned(), "key".to_owned())
    }

    fn said(kind: &str, content: &Value) -> Vec<Message> {
        let session = session();
        let mut frames = session.message("m1", "", kind, content);
        // A kernel names the request it answers, and publishes under a topic.
        frames[3] = Bytes::from(json!({"msg_id": "e1"}).to_string());
        let signature = hex(&session.mac(&frames[2..6]).finalize().into_bytes());
        frames[1] = Bytes::from(signature);
        frames.insert(0, Bytes::from_static(b"kernel.1.stream.stdout"));
        let envelopes = session.read(&frames).unwrap();
        assert!(
            envelopes
                .iter()
                .all(|said| said.parent.as_deref() == Some("e1"))
        );
        envelopes.into_iter().map(|said| said.message).collect()
    }

    #[test]
    fn what_kernels_say_is_understood() {
        assert_eq!(
            said("status", &json!({"execution_state": "idle"})),
            [Message::Idle]
        );
        assert_eq!(
            said("execute_input", &json!({"code": "1", "execution_count": 7})),
            [Message::Input { count: 7 }]
        );
        let data = json!({"data": {"text/plain": "ü"}, "metadata": {}, "execution_count": 1});
        let value = Bundle(vec![("text/plain".to_owned(), JsonText::string("ü"))]);
        assert_eq!(said("execute_result", &data), [Message::Value(value)]);
        let exit =
            json!({"status": "ok", "payload": [{"source": "ask_exit", "keepkernel": false}]});
        assert_eq!(
            said("execute_reply", &exit),
            [Message::Reply(Reply::Done { exiting: true })]
        );
        assert_eq!(
            said("execute_reply", &json!({"status": "aborted"})),
            [Message::Reply(Reply::Aborted)]
        );
        assert_eq!(
            said("comm_open", &json!({"comm_id": "c"})),
            [Message::Unused]
        );
    }

    #[test]
    fn a_long_text_becomes_several() {
        let text = "ü".repeat(LARGEST_TEXT);
        let said = said("stream", &json!({"name": "stdout", "text": text}));
        assert_eq!(said.len(), 2);
        let joined: String = said
            .iter()
            .map(|message| match message {
                Message::Text { text, .. } => text.decode().unwrap(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(joined, text);
    }

    #[test]
    fn a_message_that_somebody_else_signed_is_refused() {
        let frames = session().plain("m1", "", "kernel_info_request");
        let other = Session::new("s".to_owned(), "other".to_owned());
        assert!(matches!(other.read(&frames), Err(SignedError::Signature)));
        let mut changed = frames.clone();
        changed[5] = Bytes::from_static(b"{\"code\":1}");
        assert!(matches!(
            session().read(&changed),
            Err(SignedError::Signature)
        ));
        assert!(matches!(
            session().read(&frames[..3]),
            Err(SignedError::Shape)
        ));
        assert!(matches!(session().read(&[]), Err(SignedError::Shape)));
    }
}
