//! Jupyter's own wire format: messages of several frames, signed with a key that both ends know.

mod content;
mod text;

use bytes::Bytes;
use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::Sha256;

use crate::{Envelope, JsonText, Message, Question, Stream};
use content::Content;
pub use content::KernelInfo;

const DELIMITER: &[u8] = b"<IDS|MSG>";
const VERSION: &str = "5.3";

/// Sockets of a kernel, in the form of its connection file.
#[derive(Debug, Clone, Serialize)]
pub struct Connection {
    /// Transport of the sockets, always `ipc`.
    pub transport: &'static str,
    /// The path of its sockets without their numbers.
    pub ip: String,
    /// The number of the socket for requests.
    pub shell_port: u16,
    /// The number of the socket for output.
    pub iopub_port: u16,
    /// The number of the socket for questions to the user.
    pub stdin_port: u16,
    /// The number of the socket for urgent requests.
    pub control_port: u16,
    /// The number of the socket that echoes.
    pub hb_port: u16,
    /// Key with which messages are signed.
    pub key: String,
    /// Name of the signature algorithm.
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

/// Identity and key with which messages to a kernel are written and read.
#[derive(Debug)]
pub struct Session {
    id: String,
    key: String,
}

/// A request that runs code.
#[derive(Debug)]
pub struct Execute<'a> {
    /// Source text in the language of the kernel.
    pub code: &'a str,
    /// True if it leaves no trace: no number, no output of its value.
    pub silent: bool,
    /// True if somebody answers when the code asks for input.
    pub allows_input: bool,
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
        /// Name of the frame.
        part: &'static str,
        /// Error of the parser.
        source: serde_json::Error,
    },
}

#[derive(Deserialize)]
struct Header {
    #[serde(default)]
    msg_id: String,
    #[serde(default)]
    msg_type: String,
    #[serde(default)]
    date: Option<String>,
}

/// One message of a kernel, which may be several of ours: a long text comes in pieces, and is
/// not held twice.
#[derive(Debug)]
pub struct ReceivedMessages {
    parent: Option<String>,
    time: Option<i64>,
    content: Content,
}

impl Iterator for ReceivedMessages {
    type Item = Envelope;

    fn next(&mut self) -> Option<Envelope> {
        Some(Envelope {
            parent: self.parent.clone(),
            time: self.time,
            message: self.content.next()?,
        })
    }
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
            "allow_stdin": request.allows_input,
            // Each request stands for itself; what follows a failure is not thrown away.
            "stop_on_error": false,
        });
        self.message(id, date, "execute_request", &content)
    }

    /// A question, under an id.
    pub fn ask(&self, id: &str, date: &str, question: &Question) -> Vec<Bytes> {
        // Jupyter knows no cursor that is left out.
        let at = |code: &str, cursor: &Option<u64>| {
            cursor.unwrap_or_else(|| u64::try_from(code.chars().count()).unwrap_or(u64::MAX))
        };
        let (kind, content) = match question {
            Question::Complete { code, cursor } => (
                "complete_request",
                json!({"code": code, "cursor_pos": at(code, cursor)}),
            ),
            Question::Inspect {
                code,
                cursor,
                with_source,
            } => (
                "inspect_request",
                json!({
                    "code": code,
                    "cursor_pos": at(code, cursor),
                    "detail_level": u8::from(*with_source),
                }),
            ),
            Question::IsComplete { code } => ("is_complete_request", json!({"code": code})),
            Question::Info => ("kernel_info_request", json!({})),
        };
        self.message(id, date, kind, &content)
    }

    /// The answer to a request for input: a line, or `None` for the end of input.
    pub fn input_reply(&self, parent: &str, date: &str, value: Option<&str>) -> Vec<Bytes> {
        // Jupyter's front ends send what Ctrl-D types, and its kernels know it.
        const END: &str = "\u{4}";
        let content = json!({"status": "ok", "value": value.unwrap_or(END)});
        let id = format!("{parent}-reply");
        let header = self.header(&id, date, "input_reply");
        let parts = [header, json!({"msg_id": parent}), json!({}), content];
        self.sign(parts.map(|part| Bytes::from(part.to_string())))
    }

    /// A request without a content.
    pub fn plain(&self, id: &str, date: &str, kind: &str) -> Vec<Bytes> {
        self.message(id, date, kind, &json!({}))
    }

    fn message(&self, id: &str, date: &str, kind: &str, content: &Value) -> Vec<Bytes> {
        let header = self.header(id, date, kind);
        self.sign(
            [&header, &json!({}), &json!({}), content].map(|part| Bytes::from(part.to_string())),
        )
    }

    fn header(&self, id: &str, date: &str, kind: &str) -> Value {
        json!({
            "msg_id": id,
            "msg_type": kind,
            "session": self.id,
            "username": "skep",
            "date": date,
            "version": VERSION,
        })
    }

    /// Identity under which all sockets of the session are known to the kernel: it sends its
    /// questions to the one that the request came from, on another socket.
    pub fn identity(&self) -> &str {
        &self.id
    }

    /// A message of these parts: header, parent's header, metadata, content.
    pub fn sign(&self, parts: [Bytes; 4]) -> Vec<Bytes> {
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

    /// Reads a message.
    ///
    /// What cannot be read of its content is told to the user as text, so that nothing is
    /// missing without a word.
    ///
    /// # Errors
    ///
    /// If it is no message, or not signed with the key.
    pub fn read(&self, frames: &[Bytes]) -> Result<ReceivedMessages, SignedError> {
        let (header, parent, content) = self.open(frames)?;
        let read = Content::read(&header.msg_type, &header.msg_id, content);
        Ok(ReceivedMessages {
            parent: (!parent.msg_id.is_empty()).then_some(parent.msg_id),
            time: header.date.as_deref().and_then(microseconds),
            content: read.unwrap_or_else(|_no_json| unreadable(&header.msg_type)),
        })
    }

    /// Returns what a kernel tells about itself, if this is its answer to that question.
    ///
    /// # Errors
    ///
    /// If it is no message, or not signed with the key.
    pub fn kernel_info(&self, frames: &[Bytes]) -> Result<Option<KernelInfo>, SignedError> {
        let (header, _, content) = self.open(frames)?;
        match header.msg_type.as_str() {
            "kernel_info_reply" => parse("content", content).map(Some),
            _ => Ok(None),
        }
    }

    /// Checks the signature; the header, the parent's header, and the content unread.
    fn open<'a>(&self, frames: &'a [Bytes]) -> Result<(Header, Header, &'a Bytes), SignedError> {
        let delimiter = frames.iter().position(|frame| &frame[..] == DELIMITER);
        let rest = &frames[delimiter.ok_or(SignedError::Shape)? + 1..];
        let (signature, parts) = rest.split_first().ok_or(SignedError::Shape)?;
        let parts = parts.get(..4).ok_or(SignedError::Shape)?;
        let shown = unhex(signature).ok_or(SignedError::Signature)?;
        self.mac(parts)
            .verify_slice(&shown)
            .map_err(|_| SignedError::Signature)?;
        let header = parse("header", &parts[0])?;
        let parent = parse("parent header", &parts[1])?;
        Ok((header, parent, &parts[3]))
    }
}

fn unreadable(kind: &str) -> Content {
    let text = format!("[a message of the kernel ({kind}) is no valid JSON and was left out]\n");
    Content::One(Message::Text {
        stream: Stream::Stderr,
        text: JsonText::string(&text),
    })
}

fn microseconds(date: &str) -> Option<i64> {
    let time: jiff::Timestamp = date.parse().ok()?;
    Some(time.as_microsecond())
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
    use crate::{Bundle, Nature, Reply};

    fn session() -> Session {
        Session::new("s".to_owned(), "key".to_owned())
    }

    /// A message as a kernel sends it: it names the request, and is published under a topic.
    fn published(kind: &str, content: &[u8]) -> Vec<Bytes> {
        let session = session();
        let mut frames = session.message("m1", "2026-11-15T17:52:18.228274Z", kind, &json!({}));
        frames[3] = Bytes::from(json!({"msg_id": "e1"}).to_string());
        frames[5] = Bytes::copy_from_slice(content);
        let signature = hex(&session.mac(&frames[2..6]).finalize().into_bytes());
        frames[1] = Bytes::from(signature);
        frames.insert(0, Bytes::from_static(b"kernel.1.stream.stdout"));
        frames
    }

    fn said_as(kind: &str, content: &[u8]) -> Vec<Message> {
        let said = session().read(&published(kind, content)).unwrap();
        let envelopes: Vec<Envelope> = said.collect();
        for envelope in &envelopes {
            assert_eq!(envelope.parent.as_deref(), Some("e1"));
            assert_eq!(envelope.time, Some(1_794_765_138_228_274));
        }
        envelopes.into_iter().map(|said| said.message).collect()
    }

    fn said(kind: &str, content: &Value) -> Vec<Message> {
        said_as(kind, content.to_string().as_bytes())
    }

    #[test]
    fn what_kernels_say_is_understood() {
        let idle = json!({"execution_state": "idle"});
        assert_eq!(said("status", &idle), [Message::Idle]);
        let input = json!({"code": "1", "execution_count": 7});
        assert_eq!(said("execute_input", &input), [Message::Input { count: 7 }]);
        let data = json!({"data": {"text/plain": "ü"}, "metadata": {}, "execution_count": 1});
        let value = Bundle::from(vec![("text/plain".to_owned(), JsonText::string("ü"))]);
        assert_eq!(said("execute_result", &data), [Message::Value(value)]);
        let exit = json!({"status": "ok", "payload": [{"source": "ask_exit"}]});
        let exiting = Reply::Done { exiting: true };
        assert_eq!(said("execute_reply", &exit), [Message::Reply(exiting)]);
        let aborted = json!({"status": "aborted"});
        assert_eq!(
            said("execute_reply", &aborted),
            [Message::Reply(Reply::Aborted)]
        );
        // A widget's data is whatever the widget likes.
        let opened = json!({"comm_id": "c", "data": [1]});
        assert_eq!(said("comm_open", &opened), [Message::Unused]);
    }

    #[test]
    fn r_tells_of_an_error_with_nulls() {
        let error = json!({"ename": "ERROR", "evalue": null, "traceback": null});
        let expected = Message::Error {
            name: "ERROR".to_owned(),
            value: String::new(),
            traceback: Vec::new(),
            nature: Nature::Runtime,
        };
        assert_eq!(said("error", &error), [expected]);
    }

    #[test]
    fn r_names_no_error_but_says_that_it_could_not_parse() {
        for (value, expected) in [
            (
                "Error in parse(text = input): <text>:1:3: unexpected symbol\n1: x y\n      ^\n",
                Nature::Syntax,
            ),
            // This is a call of the user's own.
            (
                "Error in parse(text = \"x y\"): <text>:1:3: unexpected symbol\n",
                Nature::Runtime,
            ),
            ("Error in f(): boom\n", Nature::Runtime),
        ] {
            let error = json!({"ename": "ERROR", "evalue": value, "traceback": []});
            let [Message::Error { nature, .. }] = &said("error", &error)[..] else {
                panic!("{value}");
            };
            assert_eq!(*nature, expected, "{value}");
        }
    }

    #[test]
    fn a_question_to_the_user_is_answered_by_its_id() {
        let asked = json!({"prompt": "name? ", "password": false});
        let request = crate::InputRequest {
            id: "m1".to_owned(),
            prompt: "name? ".to_owned(),
            is_password: false,
        };
        let expected = [Message::InputRequest(request)];
        assert_eq!(said("input_request", &asked), expected);
        for (value, written) in [(Some("Ada"), "Ada"), (None, "\u{4}")] {
            let frames = session().input_reply("m1", "", value);
            let part = |index: usize| -> Value { serde_json::from_slice(&frames[index]).unwrap() };
            assert_eq!(part(2)["msg_type"], "input_reply");
            assert_eq!(part(3)["msg_id"], "m1");
            assert_eq!(part(5)["value"], written);
            session().read(&frames).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        for content in [
            &b"{\"data\": {\"application/json\": NaN}}"[..],
            b"\xff",
            b"[]",
            b"",
        ] {
            let [Message::Text { stream, text }] = &said_as("display_data", content)[..] else {
                panic!("{content:?}");
            };
            assert_eq!(*stream, Stream::Stderr);
            assert!(text.as_str().contains("(display_data) is no valid JSON"));
        }
    }

    #[test]
    fn a_kernel_says_what_it_is() {
        let content = json!({
            "implementation": "ipython",
            "language_info": {"name": "python", "version": "3.13"},
        });
        let frames = published("kernel_info_reply", content.to_string().as_bytes());
        let info = session().kernel_info(&frames).unwrap().unwrap();
        assert_eq!(info.implementation, "ipython");
        assert_eq!(info.language_info.name, "python");
        let other = published("execute_reply", b"{}");
        assert_eq!(session().kernel_info(&other).unwrap(), None);
    }

    #[test]
    fn a_message_that_somebody_else_signed_is_refused() {
        let frames = session().plain("m1", "", "kernel_info_request");
        let other = Session::new("s".to_owned(), "other".to_owned());
        assert!(matches!(other.read(&frames), Err(SignedError::Signature)));
        let mut changed = frames.clone();
        changed[5] = Bytes::from_static(b"{\"code\":1}");
        let refused = session().read(&changed);
        assert!(matches!(refused, Err(SignedError::Signature)));
        for signature in ["", "0", "zz", "\u{fffd}", &"0".repeat(64)] {
            let mut changed = frames.clone();
            changed[1] = Bytes::from(signature.to_owned());
            let refused = session().read(&changed);
            assert!(matches!(refused, Err(SignedError::Signature)));
        }
        for shape in [&frames[..3], &frames[..1], &[]] {
            let refused = session().read(shape);
            assert!(matches!(refused, Err(SignedError::Shape)));
        }
    }
}
