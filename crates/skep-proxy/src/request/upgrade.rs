//! Connections that stop speaking HTTP: WebSocket and whatever else both sides agree on.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, copy_bidirectional};

use crate::client::connection::{ClientConnection, RequestGuard, Sending, Times};
use crate::request::exchange::{Exchange, Failure};
use crate::request::hangup::Hangup;
use crate::request::headers;
use crate::request::request_body::RequestBody;
use crate::request::response_body::Source;
use crate::routing::route::Route;
use crate::shared::Shared;
use crate::upstream::InFlight;

/// Time limit for the two ends to switch after both have agreed.
const UPGRADE_TIMEOUT: Duration = Duration::from_secs(10);

/// Passes on a request to switch to `protocol`, and what follows if the sandbox agrees.
pub(crate) async fn run(
    exchange: &Exchange,
    mut request: Request<RequestBody>,
    protocol: HeaderValue,
    in_flight: InFlight,
) -> Result<Response<Source>, Failure> {
    let client = hyper::upgrade::on(&mut request);
    let upgrade = HeaderValue::from_static("upgrade");
    request.headers_mut().insert(CONNECTION, upgrade);
    request.headers_mut().insert(UPGRADE, protocol.clone());
    let (route, port) = (&exchange.route, exchange.target.port);
    // A connection that may change its language is never one that was kept.
    let dialled = exchange.shared.upstreams.connect(route, port).await;
    let mut pooled = exchange.reached(dialled).await?;
    let dependence = exchange.tie();
    let mut response = match exchange.attempt(&mut pooled, request).await? {
        Ok(response) => response,
        Err(broken) => return Err(exchange.broken(broken).await),
    };
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let hangup = Hangup::watch(&exchange.shared, route, port);
        return Ok(exchange.pass_on(response, pooled, hangup, in_flight, dependence));
    }
    let chosen = response.headers().get(UPGRADE).cloned();
    let Some(chosen) = chosen.filter(|chosen| headers::offers(&protocol, chosen)) else {
        return Err(Failure::Refused(exchange.no_answer()));
    };
    let tunnel = Tunnel {
        shared: Arc::clone(&exchange.shared),
        connection: Arc::clone(&exchange.connection),
        route: Arc::clone(route),
        _in_flight: in_flight,
        // The answer is over soon, but its connection goes on serving somebody.
        _serving: exchange.serving.clone(),
    };
    pooled.hand_over();
    let upstream = hyper::upgrade::on(&mut response);
    exchange
        .shared
        .tasks
        .spawn("upgraded connection", tunnel.carry(client, upstream));
    let (mut parts, _) = response.into_parts();
    headers::towards_client(&mut parts, exchange.target.named_by);
    parts
        .headers
        .insert(CONNECTION, HeaderValue::from_static("upgrade"));
    parts.headers.insert(UPGRADE, chosen);
    let nothing = Source::Proxy(Full::new(Bytes::new()));
    Ok(Response::from_parts(parts, nothing))
}

/// Bytes between a client and a sandbox.
struct Tunnel {
    shared: Arc<Shared>,
    connection: Arc<ClientConnection>,
    route: Arc<Route>,
    _in_flight: InFlight,
    _serving: RequestGuard,
}

impl Tunnel {
    async fn carry(self, client: OnUpgrade, upstream: OnUpgrade) {
        let both = async { tokio::try_join!(client, upstream) };
        let (client, upstream) = match tokio::time::timeout(UPGRADE_TIMEOUT, both).await {
            Ok(Ok(ends)) => ends,
            Ok(Err(error)) => {
                tracing::debug!(%error, "protocol upgrade failed");
                return;
            }
            Err(_) => {
                tracing::debug!("protocol upgrade timed out");
                return;
            }
        };
        self.copy(client, upstream).await;
    }

    async fn copy(&self, client: Upgraded, upstream: Upgraded) {
        let mut client = TokioIo::new(client);
        let mut upstream = Watched {
            stream: TokioIo::new(upstream),
            sending: Sending::new(&self.connection.activity),
        };
        let times = Times::of(&self.shared.config);
        tokio::select! {
            biased;
            () = self.route.ended.cancelled() => {
                self.shared.metrics.cut_by_end.add_one();
                self.connection.reset.arm();
            }
            () = self.shared.tasks.stopping().cancelled_owned() => {}
            () = self.connection.activity.stalled(&times) => {
                self.shared.metrics.connections_stalled.add_one();
                self.connection.reset.arm();
            }
            result = copy_bidirectional(&mut client, &mut upstream) => {
                if let Err(error) = result {
                    tracing::debug!(%error, "upgraded connection broke");
                }
            }
        }
    }
}

/// The sandbox's end of a tunnel, watched for whether it takes what it is sent.
struct Watched {
    stream: TokioIo<Upgraded>,
    sending: Sending,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, buffer);
        if written.is_pending() {
            self.sending.waits();
        } else {
            self.sending.is_taken();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
