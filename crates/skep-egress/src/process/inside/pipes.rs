//! Pipes to the process that sends requests.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, TRANSFER_ENCODING, UPGRADE};
use hyper::http::uri::PathAndQuery;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncWriteExt as _, copy_bidirectional};
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::codec::{FramedRead, FramedWrite};

use super::super::desk::{Desk, Destination, Reached};
use super::super::upstream::Held;
use super::super::web::{self, Body};
use crate::headers::{forget_connection, upgrade_of};
use crate::message::{Refusal, Way};
use crate::pipe::{AnswerHead, Frame, Frames, PipeBody, RequestHead, Source, Trailers, pump};

/// Pipes that are kept for the next requests of a connection.
const MOST_IDLE: usize = 8;

/// The pipes of a client's connection to one host.
pub(in super::super) struct Pipes {
    desk: Arc<Desk>,
    aim: Destination,
    way: Way,
    idle: Mutex<Vec<Pipe>>,
    /// Its place among the connections of the sandbox. A tunnel outlives the conversation.
    place: Arc<OwnedSemaphorePermit>,
}

/// Protocol in which a client asks, and the host is asked.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Scheme {
    Http,
    /// In HTTP/2, or not.
    Https {
        h2: bool,
    },
}

/// A pipe to the process that sends requests. One request after the other goes through it.
struct Pipe {
    source: Source,
    writer: OwnedWriteHalf,
    held: Held,
}

/// The reason for which there is no answer.
pub(in super::super) enum Failure {
    /// The owner has not been told yet.
    Untold(Refusal),
    /// The sender of the request has told it.
    Told(Refusal),
}

impl Failure {
    pub(in super::super) fn refusal(&self) -> Refusal {
        let (Self::Untold(refusal) | Self::Told(refusal)) = self;
        *refusal
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Untold(refusal)
    }
}

impl Pipes {
    pub(in super::super) fn new(
        desk: Arc<Desk>,
        aim: Destination,
        scheme: Scheme,
        place: Arc<OwnedSemaphorePermit>,
    ) -> Arc<Self> {
        let way = match scheme {
            Scheme::Http => Way::Inside {
                secure: false,
                h2: false,
            },
            Scheme::Https { h2 } => Way::Inside { secure: true, h2 },
        };
        Arc::new(Self {
            desk,
            aim,
            way,
            idle: Mutex::default(),
            place,
        })
    }

    /// Returns true if requests for this host go through these.
    pub(in super::super) fn lead_to(&self, host: &skep_types::HostName) -> bool {
        self.aim.host.as_ref() == Some(host)
    }

    /// Passes a request on, and returns its answer.
    pub(in super::super) async fn pass(
        self: &Arc<Self>,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, Failure> {
        let is_http1 = request.version() < Version::HTTP_2;
        let upgrade = upgrade_of(request.headers()).filter(|_| is_http1);
        let ours = upgrade.as_ref().map(|_| hyper::upgrade::on(&mut request));
        let (parts, body) = request.into_parts();
        let method = parts.method.clone();
        let head = request_head(parts, &body, ours.is_some())?;
        let (pipe, answer, upload) = self.send(&method, head, body).await?;
        let (answer, mut pipe) = match answer {
            Frame::Head(head) => {
                let head = AnswerHead::read(&head).ok_or(Failure::Told(Refusal::BrokenOff))?;
                (head, pipe)
            }
            Frame::Refused(refusal) => return Err(Failure::Told(refusal)),
            Frame::Data(_) | Frame::Trailers(_) | Frame::End => {
                return Err(Failure::Told(Refusal::BrokenOff));
            }
        };
        if answer.status == StatusCode::SWITCHING_PROTOCOLS {
            let (ours, writer) = ours
                .zip(upload.await)
                .ok_or(Failure::Told(Refusal::BrokenOff))?;
            let place = Arc::clone(&self.place);
            drop(skep_telemetry::spawn("tunnel", async move {
                tunnel(ours, &mut pipe.source, writer).await;
                drop((pipe, place));
            }));
            return Ok(switched(answer, upgrade));
        }
        let (body, back) = PipeBody::new(pipe.source, answer.length, Trailers::Kept);
        let pipes = Arc::downgrade(self);
        drop(skep_telemetry::spawn("return a pipe", async move {
            let (source, writer) = tokio::join!(back.wait(), upload);
            if let (Some(source), Some(writer), Some(pipes)) = (source, writer, pipes.upgrade()) {
                let mut idle = pipes.idle.lock();
                if idle.len() < MOST_IDLE {
                    let held = pipe.held;
                    idle.push(Pipe {
                        source,
                        writer,
                        held,
                    });
                }
            }
        }));
        Ok(response(answer, body, &method))
    }

    /// Sends a request, and returns what is said first in answer to it.
    async fn send(
        self: &Arc<Self>,
        method: &Method,
        head: Bytes,
        body: Incoming,
    ) -> Result<(Waiting, Frame, Upload), Failure> {
        let may_repeat = method.is_safe() && body.is_end_stream();
        let mut body = Some(body);
        let mut is_kept = true;
        loop {
            let kept = self.idle.lock().pop().filter(|_| is_kept);
            // One that is closed, or says something before it is asked, is of no use.
            let kept = kept.and_then(|mut pipe| {
                let is_quiet = pipe.source.next().now_or_never().is_none();
                is_quiet.then_some(pipe)
            });
            is_kept = kept.is_some();
            let pipe = match kept {
                Some(pipe) => pipe,
                None => self.open().await?,
            };
            let mut writer = FramedWrite::new(pipe.writer, Frames);
            let sent = writer.send(Frame::Head(head.clone())).await;
            let writer = writer.into_inner();
            let upload: Upload = match body.take_if(|_| !may_repeat) {
                Some(body) => uploading(pump(body, writer, Trailers::None)),
                None => uploading(pump(web::empty(), writer, Trailers::None)),
            };
            let mut waiting = Waiting {
                source: pipe.source,
                held: pipe.held,
            };
            match waiting.source.next().await {
                Some(Ok(frame)) => return Ok((waiting, frame, upload)),
                // The host has closed the connection meanwhile, as hosts do.
                Some(Err(_)) | None if is_kept && may_repeat => is_kept = false,
                Some(Err(_)) | None => {
                    drop(sent);
                    return Err(Failure::Untold(Refusal::BrokenOff));
                }
            }
        }
    }

    /// A new pipe.
    async fn open(&self) -> Result<Pipe, Failure> {
        let Reached::Connected(upstream) = self.desk.ask(&self.aim, self.way).await? else {
            return Err(Failure::Untold(Refusal::NoAnswer));
        };
        let (stream, held) = upstream.into_pipe().ok_or(Refusal::NoAnswer)?;
        let (reader, writer) = stream.into_split();
        Ok(Pipe {
            source: FramedRead::new(reader, Frames),
            writer,
            held,
        })
    }
}

/// A pipe whose answer has begun.
struct Waiting {
    source: Source,
    held: Held,
}

/// A request's body on its way.
type Upload = futures_util::future::BoxFuture<'static, Option<OwnedWriteHalf>>;

/// Writes a body beside whoever waits for the answer.
fn uploading(writing: impl Future<Output = Option<OwnedWriteHalf>> + Send + 'static) -> Upload {
    let (sender, written) = tokio::sync::oneshot::channel();
    drop(skep_telemetry::spawn("request body", async move {
        // Nobody waits for it, if that fails.
        drop(sender.send(writing.await));
    }));
    async move { written.await.ok().flatten() }.boxed()
}

fn request_head(
    mut parts: hyper::http::request::Parts,
    body: &Incoming,
    is_upgrade: bool,
) -> Result<Bytes, Refusal> {
    parts.headers.remove(HOST);
    let target = parts.uri.into_parts().path_and_query;
    let head = RequestHead {
        method: parts.method,
        target: target.unwrap_or_else(|| PathAndQuery::from_static("/")),
        is_upgrade,
        length: body.size_hint().exact(),
        headers: parts.headers,
    };
    head.write().ok_or(Refusal::NotUnderstood)
}

fn response(answer: AnswerHead, body: PipeBody, method: &Method) -> Response<Body> {
    let mut headers = answer.headers;
    forget_connection(&mut headers);
    headers.remove(TRANSFER_ENCODING);
    // Without a body the header says how long it would be.
    if method != Method::HEAD && answer.status != StatusCode::NOT_MODIFIED {
        headers.remove(CONTENT_LENGTH);
    }
    let mut response = Response::new(body.map_err(Into::into).boxed());
    *response.status_mut() = answer.status;
    *response.headers_mut() = headers;
    response
}

fn switched(answer: AnswerHead, protocol: Option<HeaderValue>) -> Response<Body> {
    let mut response = Response::new(web::empty());
    *response.status_mut() = answer.status;
    let mut headers = answer.headers;
    forget_connection(&mut headers);
    headers.remove(TRANSFER_ENCODING);
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        headers.insert(UPGRADE, protocol);
    }
    *response.headers_mut() = headers;
    response
}

/// Passes on what is said in another protocol, until one side has no more to say.
async fn tunnel(ours: OnUpgrade, source: &mut Source, writer: OwnedWriteHalf) {
    let Ok(ours) = ours.await else {
        return;
    };
    let mut ours = TokioIo::new(ours);
    // What came with the last frame is the first that is said.
    let first = source.read_buffer_mut().split();
    if ours.write_all(&first).await.is_err() {
        return;
    }
    let mut theirs = tokio::io::join(source.get_mut(), writer);
    drop(copy_bidirectional(&mut ours, &mut theirs).await);
}
