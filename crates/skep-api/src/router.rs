//! The table of routes.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, VARY};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{any, delete, get, patch, post, put};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use skep_control::{Control, Full, Quota, QuotaGuard};
use skep_http::Destinations;
use skep_telemetry::trace::{self, EndOnDrop};
use skep_types::{Check, TeamId};
use skep_wire::headers::TRACE_PARENT;
use tracing::field::Empty;
use tracing::{Instrument as _, Span, debug_span};

use crate::authorized::recognised;
use crate::error::{ApiError, Retry};
use crate::tickets::Tickets;
use crate::{beside, cors, local_only, routes};

/// Path of the console.
const CONSOLE: &str = "/console/";

/// The largest request body.
const BODY_LIMIT: usize = 16 * 1024 * 1024;

/// Dependencies and settings of the API.
#[derive(Debug, Clone)]
pub struct Options {
    /// The control plane that requests are passed to.
    pub control: Control,
    /// Authentication of callers.
    pub access: Access,
    /// Name under which sandboxes are reached. It is in every answer: clients that are told none
    /// turn to the vendor's.
    pub domain: String,
    /// True if clients speak TLS with this server itself.
    pub is_secure: bool,
    /// Limit on concurrent requests of a team.
    pub requests_per_team: u32,
    /// Routes of others, whose callers are let in as those of the API are; they find them as
    /// [`LetInCaller`](crate::LetInCaller) among the extensions of a request.
    pub beside: Router,
    /// Pages for browsers, below `/console`, which anybody may read.
    pub pages: Router,
    /// Tickets with which the console is opened.
    pub tickets: Tickets,
    /// Destinations that webhooks may have.
    pub webhook_destinations: Destinations,
    /// The server's metrics.
    pub metrics: Arc<dyn ServerMetrics>,
    /// Checks of the server's host.
    pub host_checks: Arc<dyn HostChecks>,
}

/// Metrics of the server, for its operator.
pub trait ServerMetrics: std::fmt::Debug + Send + Sync {
    /// The text that Prometheus reads.
    fn render(&self) -> String;

    /// Problems that an operator should see to now; empty if all is well.
    fn problems(&self) -> Vec<Problem>;
}

/// Checks of the server's host, for its operator.
pub trait HostChecks: std::fmt::Debug + Send + Sync {
    /// Looks at the host, or tells what was found a moment ago.
    ///
    /// # Errors
    ///
    /// The reason, for display, if there is no answer within the time that a caller waits.
    fn look(&self) -> BoxFuture<'_, Result<Vec<Check>, String>>;
}

/// Something that an operator should see to. The server answers all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// A stable name.
    pub code: &'static str,
    /// Description of the problem, in a sentence.
    pub message: String,
}

/// Ways to authenticate callers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Callers need an API key.
    Keys,
    /// Everybody who reaches the server is let in, as the default team. Only for servers that
    /// listen on loopback; what a browser sends on behalf of another site is refused.
    Trusted,
}

/// State shared by all handlers.
#[derive(Debug, Clone)]
pub(crate) struct Edge {
    options: Arc<Options>,
    requests: Quota,
    /// Streams of events.
    streams: Quota,
}

impl Edge {
    pub(crate) fn control(&self) -> &Control {
        &self.options.control
    }

    pub(crate) fn access(&self) -> Access {
        self.options.access
    }

    pub(crate) fn domain(&self) -> &str {
        &self.options.domain
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.options.is_secure
    }

    pub(crate) fn streams(&self) -> &Quota {
        &self.streams
    }

    pub(crate) fn tickets(&self) -> &Tickets {
        &self.options.tickets
    }

    pub(crate) fn webhook_destinations(&self) -> &Destinations {
        &self.options.webhook_destinations
    }

    pub(crate) fn metrics(&self) -> &dyn ServerMetrics {
        self.options.metrics.as_ref()
    }

    pub(crate) fn host_checks(&self) -> &dyn HostChecks {
        self.options.host_checks.as_ref()
    }

    /// Counts a request of a team until the place is dropped.
    pub(crate) fn begin_request(&self, team: &TeamId) -> Result<QuotaGuard, ApiError> {
        let limit = self.options.requests_per_team;
        self.requests.take(team, limit).map_err(|Full| {
            let message =
                format!("your team has {limit} requests under way; wait until one has ended");
            ApiError::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", message)
                .retry(Retry::After(1))
        })
    }
}

/// The REST API.
///
/// Paths are matched as they were sent, and each segment is decoded afterwards, so `%2F` never
/// splits one.
pub fn router(mut options: Options) -> Router {
    let beside = std::mem::take(&mut options.beside);
    let pages = std::mem::take(&mut options.pages).with_state(());
    let edge = Edge {
        options: Arc::new(options),
        requests: Quota::default(),
        streams: Quota::default(),
    };
    let routes = Router::new()
        .merge(sandboxes())
        .merge(teams())
        .merge(templates())
        .merge(volumes())
        .merge(secrets())
        .merge(events())
        .merge(webhooks())
        .merge(console())
        .route("/health", get(routes::health::health))
        .route(
            "/.well-known/openid-configuration",
            get(routes::identity::configuration),
        )
        .route("/.well-known/jwks.json", get(routes::identity::keys))
        .fallback(unknown_route)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(middleware::from_fn(guarded))
        .layer(middleware::from_fn_with_state(edge.clone(), recognised));
    let beside = beside::guard(beside, &edge)
        .layer(middleware::from_fn(guarded))
        .layer(middleware::from_fn_with_state(edge.clone(), recognised));
    let routes = match edge.access() {
        // Pages may use the API with a key of their visitor, and nothing beside it.
        Access::Keys => routes
            .layer(cors::layer())
            .merge(beside.with_state(()))
            .merge(pages),
        Access::Trusted => routes
            .merge(beside.with_state(()))
            .merge(pages)
            .layer(middleware::from_fn_with_state(edge.clone(), local_callers)),
    };
    routes.with_state(edge)
}

fn sandboxes() -> Router<Edge> {
    Router::new()
        .route(
            "/sandboxes",
            post(routes::create_sandbox::create_sandbox).get(routes::list_sandboxes::v1),
        )
        .route(
            "/v2/sandboxes",
            post(routes::create_sandbox::create_sandbox_v2).get(routes::list_sandboxes::v2),
        )
        .route("/sandboxes/metrics", get(routes::sandbox_metrics::many))
        .route(
            "/sandboxes/{id}",
            get(routes::get_sandbox::get_sandbox).delete(routes::kill_sandbox::kill_sandbox),
        )
        .route(
            "/sandboxes/{id}/timeout",
            post(routes::set_timeout::set_timeout),
        )
        .route("/sandboxes/{id}/refreshes", post(routes::refresh::refresh))
        .route("/sandboxes/{id}/connect", post(routes::connect::v1))
        .route("/v2/sandboxes/{id}/connect", post(routes::connect::v2))
        .route("/sandboxes/{id}/resume", post(routes::resume::resume))
        .route(
            "/sandboxes/{id}/network",
            put(routes::set_network::set_network),
        )
        .route("/sandboxes/{id}/pause", post(routes::pause::pause))
        .route("/sandboxes/{id}/metrics", get(routes::sandbox_metrics::one))
        .route("/sandboxes/{id}/logs", get(routes::sandbox_logs::v1))
        .route("/v2/sandboxes/{id}/logs", get(routes::sandbox_logs::v2))
        .route("/sandboxes/{id}/fork", post(routes::fork::fork))
        .route("/sandboxes/{id}/snapshots", post(routes::snapshots::create))
        .route("/snapshots", get(routes::snapshots::list))
        .route(
            "/skep/sandboxes/{id}/rollback",
            post(routes::rollback::rollback),
        )
        .route(
            "/skep/sandboxes/{id}/checkpoints",
            get(routes::rollback::checkpoints),
        )
        .route(
            "/skep/sandboxes/{id}/requests",
            get(routes::sandbox_requests::sandbox_requests),
        )
        .route("/skep/sandboxes", get(routes::list_records::list_records))
        .route("/skep/doctor", get(routes::doctor::doctor))
        .route("/skep/metrics", get(routes::server_metrics::server_metrics))
}

fn teams() -> Router<Edge> {
    Router::new()
        .route("/teams", get(routes::list_teams::list_teams))
        .route("/teams/{id}/metrics", get(routes::team_metrics::series))
        .route("/teams/{id}/metrics/max", get(routes::team_metrics::max))
        .route(
            "/api-keys",
            get(routes::api_keys::list).post(routes::api_keys::create),
        )
        .route(
            "/api-keys/{id}",
            patch(routes::api_keys::rename).delete(routes::api_keys::revoke),
        )
        .route("/access-tokens", post(routes::access_tokens::create))
        .route("/access-tokens/{id}", delete(routes::access_tokens::delete))
}

fn templates() -> Router<Edge> {
    Router::new()
        .route(
            "/templates",
            get(routes::list_templates::v1).post(routes::not_yet::docker_build),
        )
        .route(
            "/v2/templates",
            get(routes::list_templates::v2).post(routes::request_build::request_build),
        )
        .route("/v3/templates", post(routes::request_build::request_build))
        .route(
            "/templates/aliases/{alias}",
            get(routes::template_alias::template_alias),
        )
        .route(
            "/templates/tags",
            post(routes::template_tags::assign).delete(routes::template_tags::remove),
        )
        .route(
            "/templates/{id}",
            get(routes::template::get)
                .post(routes::not_yet::docker_build)
                .delete(routes::template::delete)
                .patch(routes::template::update_v1),
        )
        .route("/v2/templates/{id}", patch(routes::template::update))
        .route("/templates/{id}/tags", get(routes::template_tags::list))
        .route(
            "/templates/{id}/files/{hash}",
            get(routes::build_files::link),
        )
        .route("/_upload/{link}", put(routes::build_files::upload))
        .route(
            "/templates/{id}/builds/{build}",
            post(routes::not_yet::docker_build),
        )
        .route(
            "/v2/templates/{id}/builds/{build}",
            post(routes::start_build::start_build),
        )
        .route(
            "/templates/{id}/builds/{build}/status",
            get(routes::build_status::status),
        )
        .route(
            "/templates/{id}/builds/{build}/logs",
            get(routes::build_status::logs),
        )
        .route("/skep/templates/{id}", get(routes::versions::get))
        .route("/skep/templates/{id}/builds", get(routes::versions::list))
        .route("/skep/templates/{id}/files", get(routes::versions::files))
        .route(
            "/skep/templates/{id}/builds/{build}",
            delete(routes::versions::delete),
        )
        .route(
            "/skep/templates/{id}/builds/{build}/cancel",
            post(routes::versions::cancel),
        )
}

fn volumes() -> Router<Edge> {
    use routes::{volume_content, volumes};
    Router::new()
        .route("/volumes", get(volumes::list).post(volumes::create))
        .route("/volumes/{id}", get(volumes::get).delete(volumes::delete))
        .route(
            "/volumecontent/{id}/path",
            get(volume_content::stat)
                .patch(volume_content::change)
                .delete(volume_content::remove),
        )
        .route(
            "/volumecontent/{id}/dir",
            get(volume_content::list).post(volume_content::make_directory),
        )
        .route(
            "/volumecontent/{id}/file",
            get(volume_content::read).put(volume_content::write),
        )
}

/// Events of a team's sandboxes.
fn events() -> Router<Edge> {
    use routes::events::{follow, list, list_of_sandbox};
    Router::new()
        .route("/events/sandboxes", get(list))
        .route("/events/sandboxes/{id}", get(list_of_sandbox))
        .route("/skep/events", get(follow))
}

/// Secrets of a team. No answer about one is kept by anybody on the way.
fn secrets() -> Router<Edge> {
    use routes::secrets::{create, delete, get as find, list, nowhere, update};
    Router::new()
        .route("/secrets", get(list).post(create))
        .route("/secrets/{id}", get(find).post(update).delete(delete))
        .route("/secrets/{id}/{*rest}", any(nowhere))
        .layer(middleware::map_response(never_stored))
}

async fn never_stored(mut response: Response) -> Response {
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
}

/// Webhooks of a team, and what was sent to them.
fn webhooks() -> Router<Edge> {
    use routes::{webhook_deliveries as deliveries, webhooks};
    Router::new()
        .route(
            "/events/webhooks",
            get(webhooks::list).post(webhooks::create),
        )
        .route(
            "/events/webhooks/{id}",
            get(webhooks::get)
                .patch(webhooks::update)
                .delete(webhooks::delete),
        )
        .route("/events/webhooks/{id}/deliveries", get(deliveries::list))
        .route("/events/webhooks/{id}/stats", get(deliveries::stats))
        .route("/skep/webhooks/dead-letters", get(deliveries::dead_letters))
        .route("/skep/webhooks/{id}/redeliver", post(deliveries::redeliver))
        .layer(middleware::map_response(never_stored))
}

/// Opening the console. What is answered is a secret.
fn console() -> Router<Edge> {
    use routes::console::{issue, open};
    Router::new()
        .route("/skep/console/tickets", post(issue))
        .route("/skep/console/sessions", post(open))
        .layer(middleware::map_response(never_stored))
}

/// Browsers that are led to the server itself are shown the console.
async fn unknown_route(request: Request) -> Response {
    if request.uri().path() == "/" && request.method() == Method::GET && wants_page(&request) {
        return (
            [(VARY, HeaderValue::from_static("accept"))],
            Redirect::to(CONSOLE),
        )
            .into_response();
    }
    ApiError::not_found("not_found", "there is no such route").into_response()
}

fn wants_page(request: &Request) -> bool {
    let accepted = request.headers().get_all(ACCEPT).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|kind| kind.trim().starts_with("text/html"))
}

async fn wrong_method() -> ApiError {
    ApiError::method_not_allowed()
}

/// Gives each request a span, and turns the panic of a handler into an answer: one request's
/// bug is one request's failure.
async fn guarded(request: Request, next: Next) -> Response {
    let span = request_span(&request);
    let _ending = EndOnDrop(span.clone());
    let handling = AssertUnwindSafe(next.run(request)).catch_unwind();
    let handled = handling.instrument(span.clone()).await;
    let status = handled
        .as_ref()
        .map_or(500, |response| response.status().as_u16());
    span.record("http.response.status_code", status);
    if status >= 500 {
        trace::fail(&span);
    }
    match handled {
        Ok(response) => response,
        Err(panic) => {
            let message = panic
                .downcast_ref::<&str>()
                .copied()
                .or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            let _entered = span.entered();
            tracing::error!(message, "handler panicked");
            ApiError::internal("the request could not be handled").into_response()
        }
    }
}

/// The span of a request, which names its route and not what is in its path.
fn request_span(request: &Request) -> Span {
    let path = request.extensions().get::<MatchedPath>();
    let route = path.map_or("unknown route", MatchedPath::as_str);
    let caller = request
        .headers()
        .get(TRACE_PARENT)
        .and_then(|value| value.to_str().ok());
    let method = request.method().as_str();
    debug_span!(
        "request",
        otel.name = %format_args!("{method} {route}"),
        otel.kind = "server",
        traceparent = caller,
        http.request.method = method,
        http.route = route,
        http.response.status_code = Empty,
    )
}

async fn local_callers(State(edge): State<Edge>, request: Request, next: Next) -> Response {
    match local_only::check(&request, edge.domain()) {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    async fn broken() -> &'static str {
        panic!("as intended");
    }

    #[tokio::test]
    async fn a_panic_is_one_requests_failure_and_has_a_body() {
        let routes: Router = Router::new()
            .fallback(broken)
            .layer(middleware::from_fn(guarded));
        let request = Request::get("/").body(Body::empty()).unwrap();
        let response = routes.oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(
            body,
            r#"{"code":500,"error_code":"internal_server_error","message":"the request could not be handled"}"#
        );
    }
}
