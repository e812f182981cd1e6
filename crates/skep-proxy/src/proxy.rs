//! The proxy as a whole: what it is made of, and how it starts and stops.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use http_body_util::BodyExt;
use skep_telemetry::Tasks;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt as _};

use crate::ProxyConfig;
use crate::client::admission::{Admission, Refused};
use crate::client::listener::Listener;
use crate::client::protocol::Protocols;
use crate::client::reject::reject;
use crate::client::serve::serve;
use crate::metrics::Metrics;
use crate::refusal::Refusal;
use crate::request::request_body::RequestBody;
use crate::request::response_body::BoxError;
use crate::request::wake::Wakes;
use crate::routing::route::Routes;
use crate::shared::Shared;
use crate::upstream::Upstreams;

/// Number of requests that look through the tokens of all sandboxes at a time.
const SEARCHES_AT_A_TIME: usize = 1;
/// Number of connections that are told at a time that there are too many.
const REJECTIONS_AT_A_TIME: usize = 64;

/// One port that serves the API and every sandbox.
pub struct Proxy {
    shared: Arc<Shared>,
    admission: Arc<Admission>,
    rejections: Arc<Semaphore>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Proxy")
            .field("config", &self.shared.config)
            .field("metrics", &self.shared.metrics)
            .finish_non_exhaustive()
    }
}

impl Proxy {
    /// A proxy for `api` and the sandboxes of `routes`.
    pub fn new<A, B>(config: ProxyConfig, api: A, routes: Arc<dyn Routes>) -> Self
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
            admission: Arc::new(Admission::new(&config)),
            rejections: Arc::new(Semaphore::new(REJECTIONS_AT_A_TIME)),
            shared: Arc::new(Shared {
                config,
                api: BoxCloneSyncService::new(api.map_response(boxed)),
                routes,
                upstreams: Arc::new(Upstreams::new(tasks.clone(), Arc::clone(&metrics))),
                metrics,
                tasks,
                searches: Arc::new(Semaphore::new(SEARCHES_AT_A_TIME)),
                wakes: Wakes::default(),
                stopping: CancellationToken::new(),
            }),
        }
    }

    /// The metrics of the proxy.
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
        // Closed before others are drained: who connects now is refused at once, instead of waiting
        // in a queue that nobody empties.
        drop(listeners);
        self.shared.stopping.cancel();
        let drained = self.admission.drained();
        if tokio::time::timeout(self.shared.config.drain, drained)
            .await
            .is_err()
        {
            let open = self.shared.metrics.connections_open.get();
            tracing::info!(open, "connections closed at shutdown");
        }
        self.shared.tasks.finish().await;
    }

    async fn accept_from(&self, listener: &Listener) {
        loop {
            let (stream, peer) = listener.accept().await;
            self.admit(stream, peer, listener.protocols());
        }
    }

    fn admit(&self, stream: TcpStream, peer: SocketAddr, protocols: Protocols) {
        let shared = Arc::clone(&self.shared);
        let tasks = shared.tasks.clone();
        let refusal = match self.admission.admit(peer.ip()) {
            Ok(permit) => {
                shared.metrics.connections_accepted.add_one();
                let serving = serve(shared, stream, peer, protocols, permit);
                tasks.spawn("client connection", serving);
                return;
            }
            Err(Refused::Server) => {
                shared.metrics.connections_refused_server.add_one();
                Refusal::ServerFull
            }
            Err(Refused::Address) => {
                shared.metrics.connections_refused_address.add_one();
                Refusal::AddressFull
            }
        };
        // When even these are too many, the connection is closed without a word.
        if let Ok(turn) = Arc::clone(&self.rejections).try_acquire_owned() {
            tasks.spawn("reject connection", async move {
                reject(stream, protocols, refusal).await;
                drop(turn);
            });
        }
    }
}
