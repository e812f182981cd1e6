//! One request's way to a sandbox and back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Method, Request, Response, StatusCode};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::TrySendError;
use skep_telemetry::{Chain, trace};
use skep_wire::agent::AGENT_PORT;
use skep_wire::headers::{REQUEST_NAME, TRACE_PARENT};
use tracing::field::Empty;
use tracing::{Span, debug_span};

use crate::client::admission::Credentials;
use crate::client::connection::{ClientConnection, Dependence, RequestGuard};
use crate::metrics::RequestKind;
use crate::refusal::Refusal;
use crate::request::hangup::Hangup;
use crate::request::headers::{self, Passage};
use crate::request::request_body::RequestBody;
use crate::request::response_body::{Attendance, Cut, Departing, SandboxBody, Source};
use crate::request::upgrade;
use crate::routing::classify::Target;
use crate::routing::route::Route;
use crate::shared::Shared;
use crate::upstream::{DialError, InFlight, PooledConnection};
use skep_wire::interpreter::INTERPRETER_PORT;

/// Time to wait, after a broken connection, for the news that the sandbox has ended.
const NEWS_DELAY: Duration = Duration::from_millis(250);

/// Failure of a request that was admitted to get an answer from its sandbox.
pub(crate) enum Failure {
    /// The client is told.
    Refused(Refusal),
    /// The client is cut off.
    Cut(Cut),
}

/// A request on its way to a sandbox and back.
pub(crate) struct Exchange {
    pub(crate) shared: Arc<Shared>,
    pub(crate) connection: Arc<ClientConnection>,
    pub(crate) serving: RequestGuard,
    pub(crate) target: Target,
    pub(crate) route: Arc<Route>,
    pub(crate) arrived: Instant,
    /// Credentials of the request.
    pub(crate) shown: Credentials,
    /// True if the client only wants to know if the sandbox lives.
    pub(crate) probe: bool,
    /// True if the client is to get an error envelope when the sandbox ends.
    pub(crate) end_notice: bool,
    /// True if the client's connection serves other requests meanwhile.
    pub(crate) multiplexed: bool,
}

impl Exchange {
    /// Brings the request to the sandbox and the head of the answer back.
    pub(crate) async fn run(
        &self,
        mut request: Request<RequestBody>,
    ) -> Result<Response<Source>, Failure> {
        let in_flight = self.enter()?;
        let (mut parts, body) = request.into_parts();
        let protocol = headers::upgrade(&parts);
        headers::towards_sandbox(&mut parts, &self.passage());
        request = Request::from_parts(parts, body);
        if let Some(protocol) = protocol {
            return upgrade::run(self, request, protocol, in_flight).await;
        }
        let upstreams = &self.shared.upstreams;
        let acquiring = upstreams.acquire(&self.route, self.target.port);
        let dialled = trace::step(debug_span!("connect"), acquiring).await;
        let pooled = self.reached(dialled).await?;
        // Not before there is a connection: dropped, it tells the interpreter to stop a request,
        // which must have got there.
        let mut hangup = Hangup::watch(&self.shared, &self.route, self.target.port);
        if let Some(name) = hangup.name() {
            request.headers_mut().insert(REQUEST_NAME, name.clone());
        }
        let dependence = self.tie();
        match self.send(pooled, request).await {
            // Who asks for a switch is served above. To everybody else the service may not speak
            // something that is not HTTP.
            Ok((_, response)) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
                hangup.answered();
                Err(Failure::Refused(self.no_answer()))
            }
            Ok((pooled, response)) => {
                Ok(self.pass_on(response, pooled, hangup, in_flight, dependence))
            }
            Err(failure) => {
                hangup.answered();
                Err(failure)
            }
        }
    }

    /// The request as whoever wants traces sees it. Paths of our own services are told; those of
    /// others may hold secrets. Only a caller with a token decides whether it is recorded.
    pub(crate) fn span(&self, kind: RequestKind, request: &Request<RequestBody>) -> Span {
        let name = match kind {
            RequestKind::Execute => "execute",
            RequestKind::Other => "proxy",
        };
        let caller = request
            .headers()
            .get(TRACE_PARENT)
            .filter(|_| self.shown == Credentials::Token)
            .and_then(|value| value.to_str().ok());
        let ours = [AGENT_PORT, INTERPRETER_PORT].contains(&self.target.port);
        debug_span!(
            "proxy",
            otel.name = name,
            otel.kind = "server",
            traceparent = caller,
            skep.sandbox.id = %self.route.id,
            skep.sandbox.port = self.target.port,
            http.request.method = request.method().as_str(),
            url.path = ours.then(|| request.uri().path()),
            http.response.status_code = Empty,
        )
    }

    /// Notes that the client is cut off, and with what.
    pub(crate) fn cut(&self, cut: Cut) -> Cut {
        self.shared.metrics.cut_by_end.add_one();
        // On HTTP/2 the connection serves other requests, whose sandboxes live: only the stream is
        // reset.
        if !self.multiplexed {
            self.connection.reset.arm();
        }
        cut
    }

    /// Makes the end of the sandbox the end of the client's connection. From here on the sandbox
    /// may act on the request; until now the client could be told that it is gone.
    pub(crate) fn tie(&self) -> Option<Dependence> {
        let tied = !(self.multiplexed || self.probe || self.end_notice);
        tied.then(|| self.connection.depend_on(self.route.ended.clone()))
    }

    /// The answer as the client gets it.
    pub(crate) fn pass_on(
        &self,
        response: Response<Incoming>,
        pooled: PooledConnection,
        hangup: Hangup,
        in_flight: InFlight,
        dependence: Option<Dependence>,
    ) -> Response<Source> {
        let (mut parts, upstream) = response.into_parts();
        headers::towards_client(&mut parts, self.target.named_by);
        let attendance = Attendance {
            ended: self.route.ended.clone().cancelled_owned(),
            pooled,
            hangup,
            end_notice: self.end_notice,
            departing: self.departing(),
            reset: (!self.multiplexed).then(|| self.connection.reset.clone()),
            in_flight,
            dependence,
        };
        let body = SandboxBody::new(upstream, attendance);
        Response::from_parts(parts, Source::Sandbox(Box::new(body)))
    }

    /// Translates a failed dial into the answer for the client.
    pub(crate) async fn reached(
        &self,
        dialled: Result<PooledConnection, DialError>,
    ) -> Result<PooledConnection, Failure> {
        let elapsed = self.arrived.elapsed();
        match dialled {
            Ok(pooled) => {
                self.shared.metrics.time_to_upstream.record(elapsed);
                Ok(pooled)
            }
            Err(DialError::Ended) => Err(Failure::Refused(self.not_found().await)),
            Err(DialError::Closed) => Err(Failure::Refused(Refusal::PortClosed {
                id: self.route.id.clone(),
                port: self.target.port,
            })),
            Err(error @ (DialError::Handshake(_) | DialError::Tls(_))) => {
                tracing::debug!(sandbox = %self.route.id, error = %Chain(&error), "handshake with sandbox failed");
                Err(Failure::Refused(self.no_answer()))
            }
        }
    }

    /// One try to get an answer, given up when the sandbox ends.
    pub(crate) async fn attempt(
        &self,
        pooled: &mut PooledConnection,
        request: Request<RequestBody>,
    ) -> Result<Result<Response<Incoming>, Broken>, Failure> {
        tokio::select! {
            // The end is looked at first: a connection that breaks because the sandbox ends must
            // not be told as a service that gave no answer.
            biased;
            () = self.route.ended.cancelled() => Err(self.ended().await),
            result = pooled.send(request) => Ok(result),
        }
    }

    /// Translates the failure of a sandbox to answer a request it took.
    pub(crate) async fn broken(&self, broken: Broken) -> Failure {
        // Its processes die before the news that it has ended is out.
        let news = tokio::time::timeout(NEWS_DELAY, self.route.ended.cancelled());
        if news.await.is_ok() {
            return self.ended().await;
        }
        let error = broken.into_error();
        tracing::debug!(sandbox = %self.route.id, error = %Chain(&error), "sandbox closed the connection without an answer");
        Failure::Refused(self.no_answer())
    }

    async fn send(
        &self,
        mut pooled: PooledConnection,
        request: Request<RequestBody>,
    ) -> Result<(PooledConnection, Response<Incoming>), Failure> {
        // A service may close a kept connection just when we use it. A request that did not
        // leave, or that may be made twice, is made again on a new one.
        let spare = pooled.reused.then(|| copy(&request)).flatten();
        let mut broken = match self.attempt(&mut pooled, request).await? {
            Ok(response) => return Ok((pooled, response)),
            Err(broken) => broken,
        };
        let again = broken.take_message().or(spare);
        if let Some(request) = again.filter(|_| pooled.reused) {
            let upstreams = &self.shared.upstreams;
            let dialled = upstreams.connect(&self.route, self.target.port).await;
            pooled = self.reached(dialled).await?;
            broken = match self.attempt(&mut pooled, request).await? {
                Ok(response) => return Ok((pooled, response)),
                Err(broken) => broken,
            };
        }
        drop(pooled);
        Err(self.broken(broken).await)
    }

    fn enter(&self) -> Result<InFlight, Failure> {
        let config = &self.shared.config;
        let run = self.shared.upstreams.run(&self.route);
        let refused = |limit| {
            Failure::Refused(Refusal::TooManyConnections {
                id: self.route.id.clone(),
                limit,
            })
        };
        let limit = config.requests_per_sandbox;
        let in_flight = run
            .enter(limit, &self.shared.metrics)
            .ok_or_else(|| refused(limit))?;
        if self.connection.activity.is_authenticated() {
            return Ok(in_flight);
        }
        let limit = config.anonymous_requests_per_sandbox;
        in_flight
            .into_anonymous(limit)
            .ok_or_else(|| refused(limit))
    }

    fn passage(&self) -> Passage<'_> {
        Passage {
            route: &self.route,
            port: self.target.port,
            named_by: self.target.named_by,
            peer: self.connection.peer.ip(),
            secure: self.connection.secure,
            config: &self.shared.config,
        }
    }

    async fn ended(&self) -> Failure {
        if self.probe || self.end_notice {
            Failure::Refused(self.not_found().await)
        } else {
            Failure::Cut(Cut::SandboxEnded)
        }
    }

    async fn not_found(&self) -> Refusal {
        let departure = match self.departing() {
            Some(departing) => departing.words().await,
            None => None,
        };
        Refusal::SandboxNotFound {
            name: self.route.id.to_string(),
            departure,
        }
    }

    /// Source of the sandbox's end and its reason, if the request has shown that it may know.
    fn departing(&self) -> Option<Departing> {
        (self.shown == Credentials::Token).then(|| Departing {
            routes: Arc::clone(&self.shared.routes),
            id: self.route.id.clone(),
        })
    }

    pub(crate) fn no_answer(&self) -> Refusal {
        Refusal::NoAnswer {
            id: self.route.id.clone(),
            port: self.target.port,
        }
    }
}

/// A request that was not answered.
pub(crate) type Broken = Box<TrySendError<Request<RequestBody>>>;

/// A second copy of a request that may be made twice.
fn copy(request: &Request<RequestBody>) -> Option<Request<RequestBody>> {
    let method = request.method();
    let harmless = [Method::GET, Method::HEAD, Method::OPTIONS].contains(method);
    if !harmless || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(RequestBody::empty());
    *copy.method_mut() = method.clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}
