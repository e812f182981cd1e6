//! Connections to sandboxes, kept for the next request.

mod bounded;
mod dial;
mod socket;
mod tls;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use skep_telemetry::Tasks;
use skep_types::ExecutionId;
use skep_wire::agent::AGENT_PORT;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::metrics::Metrics;
use crate::request::request_body::RequestBody;
use crate::reset_on_close::ResetOnClose;
use crate::routing::route::Route;
use bounded::{BoundedIo, BoundedSender};
pub(crate) use dial::DialError;
use dial::{Dialled, Way};
use skep_wire::interpreter::INTERPRETER_PORT;

/// Kept connections of one port of one sandbox.
const IDLE_MAX: usize = 64;
/// Idle timeout of a connection to the agent. The agent never closes one by itself.
const IDLE_AGENT: Duration = Duration::from_secs(300);
/// Idle timeout of a connection to a service of the user: shorter than any common server keeps its
/// end, so that we seldom write into a connection that is being closed.
const IDLE_USER: Duration = Duration::from_secs(2);
/// Interval between two searches for expired connections.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The largest head of an answer, and the largest part of its body that is kept for a client
/// that does not read.
const HEAD_MAX: usize = 256 * 1024;
const HEADERS_MAX: usize = 512;

/// All kept connections.
#[derive(Debug)]
pub(crate) struct Upstreams {
    runs: Mutex<HashMap<ExecutionId, Arc<Run>>>,
    tasks: Tasks,
    metrics: Arc<Metrics>,
}

/// State of the proxy for one execution of a sandbox.
#[derive(Debug, Default)]
pub(crate) struct Run {
    ports: Mutex<HashMap<u16, Port>>,
    requests: AtomicUsize,
    /// Those of them that have shown neither a key nor a token.
    anonymous_requests: AtomicUsize,
}

#[derive(Debug, Default)]
struct Port {
    way: Option<Way>,
    idle: Vec<Idle>,
}

#[derive(Debug)]
struct Idle {
    sender: BoundedSender,
    cut: DropGuard,
    reset: ResetOnClose,
    since: Instant,
}

impl Upstreams {
    pub(crate) fn new(tasks: Tasks, metrics: Arc<Metrics>) -> Self {
        Self {
            runs: Mutex::default(),
            tasks,
            metrics,
        }
    }

    /// Returns the state of this execution of a sandbox, which is kept until it ends.
    pub(crate) fn run(self: &Arc<Self>, route: &Route) -> Arc<Run> {
        let mut runs = self.runs.lock();
        if let Some(run) = runs.get(&route.execution) {
            return Arc::clone(run);
        }
        let run = Arc::new(Run::default());
        // A run that has ended is not remembered: nobody would forget it again.
        if !route.ended.is_cancelled() {
            runs.insert(route.execution, Arc::clone(&run));
            let (upstreams, execution) = (Arc::downgrade(self), route.execution);
            let (ended, stopping) = (route.ended.clone(), self.tasks.stopping());
            let swept = Arc::clone(&run);
            self.tasks.spawn("sweep run", async move {
                tokio::select! {
                    () = ended.cancelled() => {}
                    () = stopping.cancelled() => {}
                    () = swept.sweep() => {}
                }
                forget(&upstreams, execution);
            });
        }
        run
    }

    /// A connection to a port of a sandbox, kept or new.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        route: &Route,
        port: u16,
    ) -> Result<PooledConnection, DialError> {
        let run = self.run(route);
        if let Some(pooled) = run.take_idle(port) {
            self.metrics.upstream_reused.add_one();
            return Ok(pooled);
        }
        self.connect(route, port).await
    }

    /// A new connection to a port of a sandbox.
    pub(crate) async fn connect(
        self: &Arc<Self>,
        route: &Route,
        port: u16,
    ) -> Result<PooledConnection, DialError> {
        let run = self.run(route);
        let known = run.ports.lock().get(&port).and_then(|port| port.way);
        let reset = ResetOnClose::default();
        let dialled = dial::dial(route, port, known, &reset).await?;
        // The address may have been given to another sandbox while we were connecting.
        if route.ended.is_cancelled() {
            return Err(DialError::Ended);
        }
        self.metrics.upstream_connected.add_one();
        let (way, (sender, cut)) = match dialled {
            Dialled::Direct(io) => {
                let attached = self.attach_port(io.into_inner(), route, port);
                (Way::Direct, attached.await?)
            }
            Dialled::Tunnel(io) => {
                self.metrics.upstream_tunnelled.add_one();
                let attached = self.attach_port(TokioIo::new(io), route, port);
                (Way::Tunnel, attached.await?)
            }
        };
        run.ports.lock().entry(port).or_default().way = Some(way);
        reset.arm();
        Ok(PooledConnection {
            reset,
            sender,
            cut,
            home: run,
            port,
            reused: false,
        })
    }

    /// Speaks HTTP/1.1 on a connection to a port, over TLS if that is what the port speaks.
    async fn attach_port<I>(
        &self,
        io: I,
        route: &Route,
        port: u16,
    ) -> Result<(BoundedSender, DropGuard), DialError>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        if !route.ingress.https_ports.contains(port) {
            return self.attach(io, route).await;
        }
        let secured = tokio::select! {
            biased;
            () = route.ended.cancelled() => return Err(DialError::Ended),
            secured = tls::wrap(io, route.address) => secured.map_err(DialError::Tls)?,
        };
        self.attach(secured, route).await
    }

    /// Speaks HTTP/1.1 on a connection until it is done, cut, or the sandbox has ended.
    async fn attach<I>(&self, io: I, route: &Route) -> Result<(BoundedSender, DropGuard), DialError>
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (io, interim) = BoundedIo::new(io);
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(HEAD_MAX)
            .max_headers(HEADERS_MAX)
            .handshake(TokioIo::new(io))
            .await
            .map_err(DialError::Handshake)?;
        let cut = CancellationToken::new();
        let (cut_here, ended) = (cut.clone(), route.ended.clone());
        self.tasks.spawn("upstream connection", async move {
            tokio::select! {
                result = connection.with_upgrades() => if let Err(error) = result {
                    tracing::debug!(%error, "connection to a sandbox broke");
                },
                () = cut_here.cancelled() => {}
                () = ended.cancelled() => {}
            }
        });
        Ok((BoundedSender::new(sender, interim), cut.drop_guard()))
    }
}

fn forget(upstreams: &Weak<Upstreams>, execution: ExecutionId) {
    if let Some(upstreams) = upstreams.upgrade() {
        upstreams.runs.lock().remove(&execution);
    }
}

impl Run {
    /// Takes a place among the requests this sandbox serves at a time.
    pub(crate) fn enter(self: Arc<Self>, limit: usize, metrics: &Arc<Metrics>) -> Option<InFlight> {
        count_up(&self.requests, limit)?;
        metrics.sandbox_requests_open.enter();
        Some(InFlight {
            run: self,
            metrics: Arc::clone(metrics),
            anonymous: false,
        })
    }

    /// Closes, again and again, what was kept too long: a service that serves one connection at
    /// a time must not wait for us.
    async fn sweep(&self) {
        loop {
            tokio::time::sleep(SWEEP_INTERVAL).await;
            for (number, port) in self.ports.lock().iter_mut() {
                port.drop_expired(*number);
            }
        }
    }

    fn take_idle(self: &Arc<Self>, port: u16) -> Option<PooledConnection> {
        let mut ports = self.ports.lock();
        let known = ports.get_mut(&port)?;
        known.drop_expired(port);
        let idle = &mut known.idle;
        // The newest first: it is the least likely to be closed by the other side.
        let ready = idle.iter().rposition(|kept| kept.sender.is_ready())?;
        let Idle {
            sender, cut, reset, ..
        } = idle.remove(ready);
        drop(ports);
        reset.arm();
        Some(PooledConnection {
            reset,
            sender,
            cut,
            home: Arc::clone(self),
            port,
            reused: true,
        })
    }
}

impl Port {
    fn drop_expired(&mut self, number: u16) {
        let kept = idle_time(number);
        self.idle.retain(|idle| {
            let keep = !idle.sender.is_closed() && idle.since.elapsed() < kept;
            // A service may have answered without reading all of the request.
            if !keep && !idle.sender.is_ready() {
                idle.reset.arm();
            }
            keep
        });
    }
}

fn idle_time(port: u16) -> Duration {
    match port {
        AGENT_PORT | INTERPRETER_PORT => IDLE_AGENT,
        _ => IDLE_USER,
    }
}

fn count_up(count: &AtomicUsize, limit: usize) -> Option<()> {
    let take = |taken: usize| (taken < limit).then_some(taken + 1);
    let order = Ordering::Relaxed;
    count.fetch_update(order, order, take).ok().map(drop)
}

/// One request's place among those its sandbox serves.
#[derive(Debug)]
pub(crate) struct InFlight {
    run: Arc<Run>,
    metrics: Arc<Metrics>,
    anonymous: bool,
}

impl InFlight {
    /// The same, also among those that have shown neither a key nor a token.
    pub(crate) fn into_anonymous(mut self, limit: usize) -> Option<Self> {
        count_up(&self.run.anonymous_requests, limit)?;
        self.anonymous = true;
        Some(self)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.run.requests.fetch_sub(1, Ordering::Relaxed);
        if self.anonymous {
            self.run.anonymous_requests.fetch_sub(1, Ordering::Relaxed);
        }
        self.metrics.sandbox_requests_open.leave();
    }
}

/// A connection in use. Dropped, it is reset at once, so that the sandbox notices and nothing
/// of the request is left.
#[derive(Debug)]
pub(crate) struct PooledConnection {
    /// Armed as long as it is in use: whatever ends the connection then, ends it unfinished.
    reset: ResetOnClose,
    sender: BoundedSender,
    cut: DropGuard,
    home: Arc<Run>,
    port: u16,
    /// True if it has served another request before, so that it may be closing just now.
    pub(crate) reused: bool,
}

impl PooledConnection {
    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn send(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, Box<TrySendError<Request<RequestBody>>>> {
        self.sender.send(request).await
    }

    /// Keeps the connection for the next request. The answer must have been read to its end.
    pub(crate) fn keep(self) {
        let Self {
            reset,
            sender,
            cut,
            home,
            port,
            ..
        } = self;
        // The exchange is complete, so also a connection that is not kept may end in good order.
        reset.disarm();
        if sender.is_closed() {
            return;
        }
        let mut ports = home.ports.lock();
        let idle = &mut ports.entry(port).or_default().idle;
        if idle.len() < IDLE_MAX {
            let since = Instant::now();
            idle.push(Idle {
                sender,
                cut,
                reset,
                since,
            });
        }
    }

    /// Leaves the connection to those who speak something else on it now.
    pub(crate) fn hand_over(self) {
        self.reset.disarm();
    }
}
