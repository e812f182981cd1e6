//! Sandboxes' requests.

mod visitors;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{
    ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue,
    IF_MODIFIED_SINCE, LAST_MODIFIED, VARY,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use skep_telemetry::{Chain, Tasks};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::body::{self, Body};
use crate::error::FetchError;
use crate::fetch::{Fetcher, Found};
use crate::npm::Extent;
use crate::route::Route;
use crate::upstream::Upstream;
use crate::{Access, Metrics, Sandboxes, debian, npm, pypi};
use visitors::{Visit, Visitors};

/// Time limit for the head of a request, and for a connection without one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which a client that reads nothing is cut.
const STALL_MILLISECONDS: u32 = 60_000;
/// The largest head of a request.
const HEAD_BYTES: usize = 16 * 1024;
/// Time for which clients keep things without asking again: an index, and what is called by its digest.
const SOON: HeaderValue = HeaderValue::from_static("max-age=60");
const NEVER: HeaderValue = HeaderValue::from_static("max-age=31536000, immutable");

/// The registries, as they are asked.
#[derive(Debug)]
pub(crate) struct Upstreams {
    pub(crate) pypi: Arc<Upstream>,
    pub(crate) npm: Arc<Upstream>,
    pub(crate) debian: Arc<Upstream>,
    pub(crate) debian_security: Arc<Upstream>,
}

/// Answers requests.
#[derive(Debug)]
pub(crate) struct Service {
    fetcher: Arc<Fetcher>,
    upstreams: Upstreams,
    sandboxes: Arc<dyn Sandboxes>,
    /// URL of the mirror. What a client calls it means nothing: an answer may be another client's.
    url: String,
    visitors: Arc<Visitors>,
    metrics: Arc<Metrics>,
}

/// Answers whoever connects, until the tasks are stopped.
pub(crate) fn serve(service: Arc<Service>, listener: TcpListener, tasks: &Tasks) {
    let (stop, own) = (tasks.stopping(), tasks.clone());
    tasks.spawn("mirror", async move {
        tokio::select! {
            () = stop.cancelled() => {}
            () = service.accept(listener, own) => {}
        }
    });
}

impl Service {
    pub(crate) fn new(
        fetcher: Arc<Fetcher>,
        upstreams: Upstreams,
        sandboxes: Arc<dyn Sandboxes>,
        url: String,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            fetcher,
            upstreams,
            sandboxes,
            url,
            visitors: Arc::default(),
            metrics,
        }
    }

    async fn accept(self: Arc<Self>, listener: TcpListener, tasks: Tasks) {
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok((stream, peer)) => (stream, peer.ip()),
                Err(error) => {
                    tracing::debug!(%error, "the mirror's listener");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let IpAddr::V4(peer) = peer else { continue };
            // One too many is closed: a client that has so many may try again.
            let Some(visit) = self.visitors.enter(peer) else {
                self.metrics.refused.add_one();
                continue;
            };
            let (service, stop) = (Arc::clone(&self), tasks.stopping());
            tasks.spawn("connection to the mirror", async move {
                service.metrics.connections.enter();
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = service.converse(stream, peer, &visit) => {}
                }
                service.metrics.connections.leave();
            });
        }
    }

    async fn converse(self: &Arc<Self>, stream: TcpStream, peer: Ipv4Addr, visit: &Visit) {
        if let Err(error) = prepare(&stream) {
            tracing::debug!(error = %Chain(&error), "a connection to the mirror");
            return;
        }
        let answering = service_fn(|request| {
            let (service, turns) = (Arc::clone(self), visit.turns());
            async move { Ok::<_, Infallible>(service.answer(request, peer, turns).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_buf_size(HEAD_BYTES)
            .serve_connection(TokioIo::new(stream), answering);
        if let Err(error) = connection.await {
            tracing::debug!(error = %Chain(&error), "a connection to the mirror was broken off");
        }
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        peer: Ipv4Addr,
        turns: Arc<Semaphore>,
    ) -> Response<Body> {
        let is_npm = request.uri().path().starts_with("/npm/");
        let answered = self.try_answer(&request, peer, turns).await;
        let mut response = answered.unwrap_or_else(|refusal| {
            self.metrics.refused.add_one();
            refusal.response(is_npm)
        });
        if request.method() == Method::HEAD {
            *response.body_mut() = body::whole("");
        }
        response
    }

    async fn try_answer(
        &self,
        request: &Request<Incoming>,
        peer: Ipv4Addr,
        turns: Arc<Semaphore>,
    ) -> Result<Response<Body>, Refusal> {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return Err(Refusal::Method);
        }
        let route = Route::of(request.uri().path()).ok_or(Refusal::NoSuchPath)?;
        let upstream = self.upstream_of(&route);
        let access = self.sandboxes.access(peer, upstream.host());
        if access == Access::Nothing {
            return Err(Refusal::NotAllowed(upstream.host().to_owned()));
        }
        // Waits for the sandbox's other requests, as long as these take.
        let turn = turns
            .acquire_owned()
            .await
            .map_err(|_| Refusal::Fetch(FetchError::Stopping))?;
        self.answer_route(request, route, access, turn).await
    }

    fn upstream_of(&self, route: &Route) -> &Arc<Upstream> {
        match route {
            Route::Project(_) | Route::Distribution(..) => &self.upstreams.pypi,
            Route::Package(_) | Route::Archive(..) => &self.upstreams.npm,
            Route::Debian(_) => &self.upstreams.debian,
            Route::DebianSecurity(_) => &self.upstreams.debian_security,
        }
    }

    async fn answer_route(
        &self,
        request: &Request<Incoming>,
        route: Route,
        access: Access,
        turn: OwnedSemaphorePermit,
    ) -> Result<Response<Body>, Refusal> {
        let upstream = self.upstream_of(&route);
        let fetcher = &self.fetcher;
        match route {
            Route::Project(name) => {
                let project = pypi::project(fetcher, upstream, &name, access).await?;
                let is_json = accepts(request.headers(), pypi::JSON);
                let (kind, page) = match is_json {
                    Accepts::It => (pypi::JSON, project.to_json(&name)),
                    Accepts::Other => ("text/html; charset=utf-8", project.to_html(&name)),
                };
                Ok(page_of(kind, page))
            }
            Route::Distribution(project, digest, file) => {
                let file = (&project, digest.as_str(), &file);
                let found = pypi::file(fetcher, upstream, file, access).await?;
                Ok(file_of(request, found, turn, Some(NEVER)))
            }
            Route::Package(package) => {
                let extent = match accepts(request.headers(), npm::ABBREVIATED) {
                    Accepts::It => Extent::Abbreviated,
                    Accepts::Other => Extent::Full,
                };
                let mirror = format!("{}/npm", self.url);
                let wanted = (&package, extent);
                let document = npm::document(fetcher, upstream, wanted, mirror, access).await?;
                Ok(page_of(extent.content_type(), document))
            }
            Route::Archive(package, file) => {
                let found = npm::archive(fetcher, upstream, (&package, &file), access).await?;
                Ok(file_of(request, found, turn, Some(NEVER)))
            }
            Route::Debian(path) | Route::DebianSecurity(path) => {
                let wanted = (&path, asks_anew(request.headers()));
                let found = debian::file(fetcher, upstream, wanted, access).await?;
                Ok(file_of(request, found, turn, None))
            }
        }
    }
}

/// Cuts a client that reads nothing: the kernel gives up if it takes no byte for so long.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    rustix::net::sockopt::set_tcp_user_timeout(stream, STALL_MILLISECONDS)?;
    Ok(())
}

/// Answer to the question whether a client takes a content type.
enum Accepts {
    It,
    Other,
}

fn accepts(headers: &HeaderMap, kind: &str) -> Accepts {
    let mut accepted = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    if accepted.any(|value| value.contains(kind)) {
        Accepts::It
    } else {
        Accepts::Other
    }
}

/// A client that says so could not use what it got before.
fn asks_anew(headers: &HeaderMap) -> bool {
    let mut says = headers
        .get_all(CACHE_CONTROL)
        .iter()
        .filter_map(|value| value.to_str().ok());
    says.any(|value| value.contains("no-cache"))
}

fn page_of(kind: &'static str, page: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(body::whole(page));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, SOON);
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    response
}

fn file_of(
    request: &Request<Incoming>,
    found: Found,
    turn: OwnedSemaphorePermit,
    kept: Option<HeaderValue>,
) -> Response<Body> {
    let head = match &found {
        Found::Stored(stored) => &stored.head,
        Found::Coming(coming) => &coming.source.head,
    };
    let modified = head
        .last_modified
        .as_deref()
        .and_then(|text| HeaderValue::from_str(text).ok());
    if modified.is_some() && request.headers().get(IF_MODIFIED_SINCE) == modified.as_ref() {
        let mut response = Response::new(body::whole(""));
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return response;
    }
    let (body, length) = body::of(found, turn);
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    // What a registry calls it could make a browser run it.
    let bytes = HeaderValue::from_static("application/octet-stream");
    headers.insert(CONTENT_TYPE, bytes);
    let length = length.map(HeaderValue::from);
    let more = [
        (CONTENT_LENGTH, length),
        (LAST_MODIFIED, modified),
        (CACHE_CONTROL, kept),
    ];
    for (name, value) in more {
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
    response
}

/// A request that is not answered with what it asks for.
#[derive(Debug)]
enum Refusal {
    Method,
    NoSuchPath,
    NotAllowed(String),
    Fetch(FetchError),
}

impl From<FetchError> for Refusal {
    fn from(error: FetchError) -> Self {
        Self::Fetch(error)
    }
}

impl Refusal {
    fn response(self, is_npm: bool) -> Response<Body> {
        let status = match &self {
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::NoSuchPath => StatusCode::NOT_FOUND,
            Self::NotAllowed(_) => StatusCode::FORBIDDEN,
            Self::Fetch(error) => error.status(),
        };
        let text = match self {
            Self::Method => "the package mirror only answers GET and HEAD".to_owned(),
            Self::NoSuchPath => {
                "the package mirror has no such path; it has /pypi/simple/, /npm/, \
                 /debian/ and /debian-security/"
                    .to_owned()
            }
            Self::NotAllowed(host) => format!(
                "this sandbox's network rules do not let it reach {host}, and the operator has not \
                 opened the package mirror to such sandboxes (`mirror.offline`)"
            ),
            Self::Fetch(error) => format!("package mirror: {error}"),
        };
        let (kind, body) = if is_npm {
            let error = serde_json::json!({"error": text});
            ("application/json", error.to_string())
        } else {
            ("text/plain; charset=utf-8", format!("{text}\n"))
        };
        let mut response = Response::new(body::whole(body));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(
            HeaderName::from_static("x-skep-mirror"),
            HeaderValue::from_static("refused"),
        );
        if status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        response
    }
}
