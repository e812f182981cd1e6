//! Connections of plain HTTP: every request is read, judged by the host that it names, and written
//! anew, so that the host reads what was judged.

mod counted;
mod host;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::header::{
    CONNECTION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, UPGRADE,
};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use skep_types::HostName;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::desk::{Desk, Destination, Reached};
use super::inside::{Failure, Pipes, Scheme};
use super::upstream::Traffic;
use super::{HEAD_BYTES, HELLO_TIMEOUT};
use crate::headers::{forget_connection, upgrade_of};
use crate::message::{Ended, Refusal, Way};
use counted::Counted;
pub(super) use host::name;

/// Time limit for a host to begin its answer. Long, because some compute before they speak.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// The body of an answer.
pub(super) type Body = BoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// A client's connection, and the host that its last request went to.
struct Visitor {
    desk: Arc<Desk>,
    /// Destination of the connection, whatever its requests name.
    aim: Destination,
    last: Mutex<Option<Route>>,
    /// The way of the last request that a rule looks into.
    pipes: Mutex<Option<Arc<Pipes>>>,
    /// Its place among the connections of the sandbox. A tunnel outlives the conversation.
    place: Arc<OwnedSemaphorePermit>,
}

/// A host that is connected.
struct Route {
    /// Its name; none if its address is allowed, and no name was read.
    host: Option<HostName>,
    rule: Option<String>,
    traffic: Arc<Traffic>,
    sender: client::SendRequest<Incoming>,
}

/// The way of a request.
enum Passage {
    Direct(Box<Route>),
    Inside(Arc<Pipes>),
}

/// Passes the requests of a connection on, each to the host that it names.
pub(super) async fn serve(
    stream: TcpStream,
    desk: Arc<Desk>,
    aim: Destination,
    place: Arc<OwnedSemaphorePermit>,
) {
    let visitor = Arc::new(Visitor {
        desk,
        aim,
        last: Mutex::default(),
        pipes: Mutex::default(),
        place,
    });
    let passing = service_fn(move |request| {
        let visitor = Arc::clone(&visitor);
        async move { Ok::<_, Infallible>(visitor.pass(request).await) }
    });
    let connection = server::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HELLO_TIMEOUT)
        .max_buf_size(HEAD_BYTES)
        .preserve_header_case(true)
        // Some have no more to say when they have asked, and wait for the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(stream), passing)
        .with_upgrades();
    // What is wrong with a connection is told on it; a client that goes away is no error.
    drop(connection.await);
}

impl Visitor {
    async fn pass(&self, request: Request<Incoming>) -> Response<Body> {
        let named = host::of(&request, self.aim.port);
        let mut ended = Ended {
            host: named.as_ref().ok().map(HostName::to_string),
            port: self.aim.port,
            method: Some(request.method().to_string()),
            path: Some(request.uri().path().to_owned()),
            ..Ended::default()
        };
        let passed = match named {
            Ok(host) => self.pass_to(Some(host), request, &mut ended).await,
            // It may still be that the address is allowed, whatever is said to it.
            Err(Refusal::NoName) => self.pass_to(None, request, &mut ended).await,
            Err(refusal) => Err(Failure::Untold(refusal)),
        };
        passed.unwrap_or_else(|failure| {
            let refusal = failure.refusal();
            let answer = refused(refusal, ended.host.as_deref());
            if let Failure::Untold(_) = failure {
                ended.status = Some(answer.status().as_u16());
                ended.refusal = Some(refusal);
                self.desk.note(ended);
            }
            answer
        })
    }

    async fn pass_to(
        &self,
        host: Option<HostName>,
        mut request: Request<Incoming>,
        ended: &mut Ended,
    ) -> Result<Response<Body>, Failure> {
        let mut route = match self.passage(host).await? {
            Passage::Direct(route) => *route,
            Passage::Inside(pipes) => return pipes.pass(request).await,
        };
        ended.rule.clone_from(&route.rule);
        let upgrade = upgrade_of(request.headers());
        let ours = upgrade.as_ref().map(|_| hyper::upgrade::on(&mut request));
        prepare(request.headers_mut(), upgrade.as_ref());
        to_origin_form(&mut request)?;
        let before = route.traffic.so_far();
        let sending = route.sender.send_request(request);
        let mut answer = tokio::time::timeout(ANSWER_TIMEOUT, sending)
            .await
            .map_err(|_| Refusal::BrokenOff)?
            .map_err(|_| Refusal::BrokenOff)?;
        let mut ended = std::mem::take(ended);
        ended.status = Some(answer.status().as_u16());
        let counted = Noted {
            desk: Arc::clone(&self.desk),
            traffic: Arc::clone(&route.traffic),
            before,
            ended: Some(ended),
        };
        if let Some(ours) = ours
            && answer.status() == StatusCode::SWITCHING_PROTOCOLS
        {
            let theirs = hyper::upgrade::on(&mut answer);
            tunnel(ours, theirs, counted, Arc::clone(&self.place));
            return Ok(answer.map(|_| empty()));
        }
        let upgrade = None;
        prepare(answer.headers_mut(), upgrade);
        *self.last.lock() = Some(route);
        Ok(answer.map(|body| Counted::new(body, counted).map_err(Into::into).boxed()))
    }

    /// The way to a host: the one of the last request, if it is the same host and still open.
    async fn passage(&self, host: Option<HostName>) -> Result<Passage, Refusal> {
        let last = self.last.lock().take();
        if let Some(mut route) = last
            && route.host == host
            && route.sender.ready().await.is_ok()
        {
            return Ok(Passage::Direct(Box::new(route)));
        }
        let pipes = self.pipes.lock().clone();
        if let (Some(pipes), Some(host)) = (pipes, &host)
            && pipes.lead_to(host)
        {
            return Ok(Passage::Inside(pipes));
        }
        let aim = Destination {
            host: host.clone(),
            ..self.aim.clone()
        };
        let upstream = match self.desk.ask(&aim, Way::Plain).await? {
            Reached::Connected(upstream) => upstream,
            Reached::Inspect(_) => {
                let (desk, place) = (Arc::clone(&self.desk), Arc::clone(&self.place));
                let pipes = Pipes::new(desk, aim, Scheme::Http, place);
                *self.pipes.lock() = Some(Arc::clone(&pipes));
                return Ok(Passage::Inside(pipes));
            }
        };
        let (rule, traffic) = (upstream.rule.clone(), upstream.traffic());
        let (sender, connection) = client::Builder::new()
            .max_buf_size(HEAD_BYTES)
            .preserve_header_case(true)
            .handshake(TokioIo::new(upstream))
            .await
            .map_err(|_| Refusal::NoAnswer)?;
        let connection = async move { drop(connection.with_upgrades().await) };
        drop(skep_telemetry::spawn("host", connection));
        Ok(Passage::Direct(Box::new(Route {
            host,
            rule,
            traffic,
            sender,
        })))
    }
}

/// A request that is noted when nobody reads its answer any more.
pub(super) struct Noted {
    desk: Arc<Desk>,
    traffic: Arc<Traffic>,
    /// Bytes of requests before it on the same connection.
    before: (u64, u64),
    ended: Option<Ended>,
}

impl Drop for Noted {
    fn drop(&mut self) {
        let Some(mut ended) = self.ended.take() else {
            return;
        };
        let (sent, received) = self.traffic.so_far();
        ended.sent = sent.saturating_sub(self.before.0);
        ended.received = received.saturating_sub(self.before.1);
        self.desk.note(ended);
    }
}

/// Passes on what is said in another protocol, until one side has no more to say.
fn tunnel(
    ours: hyper::upgrade::OnUpgrade,
    theirs: hyper::upgrade::OnUpgrade,
    noted: Noted,
    place: Arc<OwnedSemaphorePermit>,
) {
    drop(skep_telemetry::spawn("tunnel", async move {
        if let (Ok(ours), Ok(theirs)) = tokio::join!(ours, theirs) {
            let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
            drop(copy_bidirectional(&mut ours, &mut theirs).await);
        }
        drop((noted, place));
    }));
}

/// Leaves the path alone in the first line: the host is named in its own header.
fn to_origin_form(request: &mut Request<Incoming>) -> Result<(), Refusal> {
    if request.uri().scheme().is_none() {
        return Ok(());
    }
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse().map_err(|_| Refusal::NotUnderstood)?;
    Ok(())
}

/// Takes out what is said for the next hop alone, and says what is to be said to ours.
fn prepare(headers: &mut HeaderMap, upgrade: Option<&HeaderValue>) {
    forget_connection(headers);
    if let Some(protocol) = upgrade {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, protocol.clone());
    }
}

/// The answer to a request that is not passed on.
pub(super) fn refused(refusal: Refusal, host: Option<&str>) -> Response<Body> {
    let status = StatusCode::from_u16(refusal.status()).expect("it is a status");
    let about = host.map(|host| format!(" {host}")).unwrap_or_default();
    let text = format!(
        "Not reached from this sandbox{about}: {}.\n",
        refusal.text()
    );
    let body = Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if refusal == Refusal::TooFast {
        headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(CONTENT_TYPE, plain);
    headers.insert(
        HeaderName::from_static("x-skep-egress"),
        HeaderValue::from_static("refused"),
    );
    response
}

pub(super) fn empty() -> Body {
    let body = http_body_util::Empty::new().map_err(|never: Infallible| match never {});
    body.boxed()
}
