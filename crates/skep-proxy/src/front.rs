//! The front door: listening, accepting, and what a connection may cost.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use skep_telemetry::Tasks;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt as _};

use crate::FrontConfig;
use crate::body::BoxError;
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::request_body::RequestBody;
use crate::route::Routes;
use crate::serve::{answer_in_clear_text, serve};
use crate::shared::Shared;
use crate::upstream::Upstreams;

/// How long to wait after a failed accept: the process is out of descriptors or memory, and
/// asking again at once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How many connections are told at a time that there are too many.
const TURNED_AWAY_AT_A_TIME: usize = 64;

/// An address the front door listens on.
pub struct Listener {
    tcp: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Listener {
    /// Speaks HTTP/1.1 and clear-text HTTP/2.
    pub fn plain(tcp: TcpListener) -> Self {
        Self { tcp, tls: None }
    }

    /// Speaks HTTP/1.1 and HTTP/2 over TLS, also with clients that name neither.
    pub fn tls(tcp: TcpListener, config: Arc<rustls::ServerConfig>) -> Self {
        let tls = Some(TlsAcceptor::from(config));
        Self { tcp, tls }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Listener")
            .field("tcp", &self.tcp)
            .field("tls", &self.tls.is_some())
            .finish()
    }
}

/// One port that serves the API and every sandbox.
pub struct Front {
    shared: Arc<Shared>,
    places: Arc<Semaphore>,
    turning_away: Arc<Semaphore>,
}

impl std::fmt::Debug for Front {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Front")
            .field("config", &self.shared.config)
            .field("metrics", &self.shared.metrics)
            .finish_non_exhaustive()
    }
}

impl Front {
    /// A front door for `api` and the sandboxes of `routes`.
    pub fn new<A, B>(config: FrontConfig, api: A, routes: Arc<dyn Routes>) -> Self
    where
        A: Service<Request<RequestBody>, Response = Response<B>, Error = Infallible>
            + Clone
            + Send
            + Sync
            + 'static,
        A::Future: Send + 'static,
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let metrics = Arc::new(Metrics::default());
        let tasks = Tasks::default();
        let boxed = |response: Response<B>| {
            response.map(|body| body.map_err(Into::<BoxError>::into).boxed_unsync())
        };
        Self {
            places: Arc::new(Semaphore::new(config.connections)),
            turning_away: Arc::new(Semaphore::new(TURNED_AWAY_AT_A_TIME)),
            shared: Arc::new(Shared {
                config,
                api: BoxCloneSyncService::new(api.map_response(boxed)),
                routes,
                upstreams: Arc::new(Upstreams::new(tasks.clone(), Arc::clone(&metrics))),
                metrics,
                tasks,
                stopping: CancellationToken::new(),
            }),
        }
    }

    /// What the front door counts.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.shared.metrics)
    }

    /// Serves until `shutdown` fires and the last request has ended, or the time to drain has.
    pub async fn serve(self, listeners: Vec<Listener>, shutdown: CancellationToken) {
        let accepting = listeners.iter().map(|listener| self.accept_from(listener));
        tokio::select! {
            _ = futures_util::future::join_all(accepting) => {}
            () = shutdown.cancelled() => {}
        }
        drop(listeners);
        self.shared.stopping.cancel();
        let all = u32::try_from(self.shared.config.connections).unwrap_or(u32::MAX);
        let drained = self.places.acquire_many(all);
        if tokio::time::timeout(self.shared.config.drain, drained)
            .await
            .is_err()
        {
            let open = self.shared.metrics.connections_open.get();
            tracing::info!(open, "connections were cut because the server stops");
        }
        self.shared.tasks.finish().await;
    }

    async fn accept_from(&self, listener: &Listener) {
        loop {
            match listener.tcp.accept().await {
                Ok((stream, _)) => self.admit(stream, listener.tls.clone()),
                Err(error) => {
                    if is_fault_of_server(&error) {
                        tracing::warn!(%error, "connection could not be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
    }

    fn admit(&self, stream: TcpStream, tls: Option<TlsAcceptor>) {
        let shared = Arc::clone(&self.shared);
        if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
            shared.metrics.connections_accepted.add_one();
            let tasks = shared.tasks.clone();
            tasks.spawn(
                "client connection",
                serve(shared, stream, tls, place, Instant::now()),
            );
            return;
        }
        shared.metrics.connections_refused.add_one();
        // Over TLS, and when even these are too many, the connection is closed without a word.
        if tls.is_none()
            && let Ok(turn) = Arc::clone(&self.turning_away).try_acquire_owned()
        {
            shared.tasks.spawn("turn away", async move {
                answer_in_clear_text(stream, &Refusal::ServerFull).await;
                drop(turn);
            });
        }
    }
}

/// Whether an accept failed for want of something, rather than because its client left.
fn is_fault_of_server(error: &io::Error) -> bool {
    !matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}
