//! State shared by all connections and requests.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use skep_telemetry::Tasks;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower::util::BoxCloneSyncService;

use crate::ProxyConfig;
use crate::metrics::Metrics;
use crate::request::request_body::RequestBody;
use crate::request::response_body::BoxError;
use crate::request::wake::Wakes;
use crate::routing::route::Routes;
use crate::upstream::Upstreams;

/// The REST API, whoever implements it.
pub(crate) type Api =
    BoxCloneSyncService<Request<RequestBody>, Response<UnsyncBoxBody<Bytes, BoxError>>, Infallible>;

/// State shared by all connections and requests.
pub(crate) struct Shared {
    pub(crate) config: ProxyConfig,
    pub(crate) api: Api,
    pub(crate) routes: Arc<dyn Routes>,
    pub(crate) upstreams: Arc<Upstreams>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) tasks: Tasks,
    /// Permits to look through all tokens for the one that signed a URL.
    pub(crate) searches: Arc<Semaphore>,
    pub(crate) wakes: Wakes,
    /// Fires when the server was told to stop: from then on a lost client means nothing.
    pub(crate) stopping: CancellationToken,
}
