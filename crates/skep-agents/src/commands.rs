//! Commands and files in a sandbox, by its agent.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek as _};
use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::{Buf as _, Bytes, BytesMut};
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use skep_types::AccessToken;
use skep_wire::agent::AGENT_PORT;
use skep_wire::headers::ACCESS_TOKEN;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Time limit for an agent to take a connection. One that is well needs a millisecond.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time beyond a command's own after which its agent has certainly ended it.
const GRACE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for a file. It takes seconds, unless it is very large.
const UPLOAD_TIMEOUT: Duration = Duration::from_mins(10);

/// Largest message of a stream: an agent sends pieces of output that are far smaller.
const LARGEST_MESSAGE: usize = 16 << 20;

/// Bytes of a file that are sent at once.
const PIECE: usize = 256 << 10;

/// Bit of a message that ends a stream.
const END_OF_STREAM: u8 = 2;

/// An agent, and the token that it wants.
#[derive(Debug, Clone)]
pub(crate) struct AgentAddress {
    pub(crate) address: IpAddr,
    pub(crate) token: AccessToken,
}

/// A command for an agent.
#[derive(Debug)]
pub(crate) struct AgentCommand<'a> {
    pub(crate) arguments: &'a [String],
    pub(crate) user: &'a str,
    pub(crate) directory: Option<&'a str>,
    pub(crate) environment: &'a BTreeMap<String, String>,
    /// Time after which its agent kills it; `None` for one that goes on when nobody listens.
    pub(crate) timeout: Option<Duration>,
}

/// News of a command: its beginning, or a piece of its output.
pub(crate) enum Printed<'a> {
    Started,
    Stdout(&'a [u8]),
    Stderr(&'a [u8]),
}

/// The end of a command.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Missing if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) status: String,
}

/// Failure to run a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The agent refused.
    #[error("{code}: {message}")]
    Refused { code: String, message: String },
    #[error("the command took longer than {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("the agent does not answer")]
    Lost(#[source] anyhow::Error),
}

impl AgentAddress {
    /// Runs a command until it has ended. One without a time limit is waited for without one: the
    /// caller has one of its own.
    pub(crate) async fn run(
        &self,
        command: &AgentCommand<'_>,
        mut print: impl FnMut(Printed<'_>),
    ) -> Result<Ended, CommandError> {
        let running = async {
            let response = self.start(command).await.map_err(CommandError::Lost)?;
            follow(response.into_body(), &mut print).await
        };
        let Some(limit) = command.timeout else {
            return running.await;
        };
        let ended = timeout(limit + GRACE_TIMEOUT, running).await;
        match ended.unwrap_or(Err(CommandError::TimedOut(limit))) {
            Err(CommandError::Refused { code, .. }) if code == "deadline_exceeded" => {
                Err(CommandError::TimedOut(limit))
            }
            ended => ended,
        }
    }

    async fn start(&self, command: &AgentCommand<'_>) -> anyhow::Result<Response<Incoming>> {
        let (program, arguments) = command.arguments.split_first().context("no program")?;
        let mut process = json!({
            "cmd": program,
            "args": arguments,
            "envs": command.environment,
        });
        if let Some(directory) = command.directory {
            process["cwd"] = directory.into();
        }
        let message = json!({ "process": process, "stdin": false });
        let message = serde_json::to_vec(&message)?;
        let length = u32::try_from(message.len()).context("the command is too long")?;
        let mut body = vec![0];
        body.extend(length.to_be_bytes());
        body.extend(message);
        let user = BASE64.encode(format!("{}:", command.user));
        let mut request = Request::post("/process.Process/Start");
        if let Some(limit) = command.timeout {
            request = request.header("Connect-Timeout-Ms", limit.as_millis().to_string());
        }
        let request = request
            .header(CONTENT_TYPE, "application/connect+json")
            .header("Connect-Protocol-Version", "1")
            .header(AUTHORIZATION, format!("Basic {user}"))
            .header(ACCESS_TOKEN, self.token.reveal())
            .header(HOST, "agent")
            .body(
                Full::new(Bytes::from(body))
                    .map_err(io::Error::other)
                    .boxed_unsync(),
            )?;
        self.send(request).await
    }

    /// Writes a file as root, from the beginning of `content`.
    pub(crate) async fn write(&self, path: &str, mut content: File) -> anyhow::Result<()> {
        content.rewind()?;
        let pieces = stream::try_unfold(tokio::fs::File::from_std(content), async |mut file| {
            let mut piece = BytesMut::with_capacity(PIECE);
            let read = file.read_buf(&mut piece).await?;
            io::Result::Ok((read > 0).then(|| (Frame::data(piece.freeze()), file)))
        });
        let query = format!("/files?path={}&username=root", in_query(path));
        let request = Request::post(query)
            .header(CONTENT_TYPE, "application/octet-stream")
            .header(ACCESS_TOKEN, self.token.reveal())
            .header(HOST, "agent")
            .body(StreamBody::new(Box::pin(pieces)).boxed_unsync())?;
        let sending = async {
            let response = self.send(request).await?;
            let status = response.status();
            if !status.is_success() {
                let said = response.into_body().collect().await?.to_bytes();
                bail!("answer is {status}: {}", String::from_utf8_lossy(&said));
            }
            Ok(())
        };
        timeout(UPLOAD_TIMEOUT, sending).await?
    }

    async fn send(
        &self,
        request: Request<UnsyncBoxBody<Bytes, io::Error>>,
    ) -> anyhow::Result<Response<Incoming>> {
        let connecting = TcpStream::connect((self.address, AGENT_PORT));
        let stream = timeout(CONNECT_TIMEOUT, connecting).await??;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        skep_telemetry::spawn("connection to an agent", async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to an agent ended");
            }
        });
        Ok(sender.send_request(request).await?)
    }
}

/// Reads the events of a command up to its end.
async fn follow(
    mut body: Incoming,
    print: &mut impl FnMut(Printed<'_>),
) -> Result<Ended, CommandError> {
    let mut buffer = BytesMut::new();
    let mut ended = None;
    loop {
        while let Some((flags, message)) = message(&mut buffer).map_err(CommandError::Lost)? {
            let lost = |error: serde_json::Error| CommandError::Lost(error.into());
            let message: Value = serde_json::from_slice(&message).map_err(lost)?;
            if flags & END_OF_STREAM != 0 {
                return finished(&message, ended);
            }
            let event = &message["event"];
            if event.get("start").is_some() {
                print(Printed::Started);
            }
            if let Some(bytes) = data(event, "stdout") {
                print(Printed::Stdout(&bytes));
            }
            if let Some(bytes) = data(event, "stderr") {
                print(Printed::Stderr(&bytes));
            }
            if let Some(end) = event.get("end") {
                ended = Some(end_of(end));
            }
        }
        let frame = body
            .frame()
            .await
            .transpose()
            .map_err(|error| CommandError::Lost(error.into()))?;
        let Some(frame) = frame else {
            let lost = || CommandError::Lost(anyhow::anyhow!("the stream broke off"));
            return ended.ok_or_else(lost);
        };
        if let Some(data) = frame.data_ref() {
            buffer.extend_from_slice(data);
        }
    }
}

fn finished(message: &Value, ended: Option<Ended>) -> Result<Ended, CommandError> {
    let text = |name: &str| {
        message["error"][name]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    match ended {
        Some(ended) => Ok(ended),
        None => Err(CommandError::Refused {
            code: text("code"),
            message: text("message"),
        }),
    }
}

/// Takes one whole message of a stream, if it is there.
fn message(buffer: &mut BytesMut) -> anyhow::Result<Option<(u8, BytesMut)>> {
    let Some(head) = buffer.get(..5) else {
        return Ok(None);
    };
    let flags = head[0];
    let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    ensure!(length <= LARGEST_MESSAGE, "a message of {length} bytes");
    if buffer.len() < 5 + length {
        return Ok(None);
    }
    buffer.advance(5);
    Ok(Some((flags, buffer.split_to(length))))
}

fn data(event: &Value, stream: &str) -> Option<Vec<u8>> {
    BASE64.decode(event["data"][stream].as_str()?).ok()
}

fn end_of(end: &Value) -> Ended {
    let code = end["exitCode"].as_i64().unwrap_or(0);
    let has_exited = end["exited"].as_bool().unwrap_or(false);
    Ended {
        code: has_exited.then(|| i32::try_from(code).unwrap_or(i32::MAX)),
        status: end["status"].as_str().unwrap_or_default().to_owned(),
    }
}

/// A path of ours as part of a query.
fn in_query(path: &str) -> String {
    let mut text = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}
