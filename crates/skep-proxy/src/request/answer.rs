//! Answering one request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::Either;
use http::header::CONNECTION;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, Version};
use http_body_util::Full;
use hyper::body::Incoming;
use skep_telemetry::trace::{self, EndOnDrop};
use skep_types::{AccessToken, Authenticated, SandboxId, Sleeper};
use skep_wire::agent::AGENT_PORT;
use skep_wire::headers::ACCESS_TOKEN;
use tower::ServiceExt as _;
use tracing::{Instrument as _, Span};

use crate::client::admission::{Credentials, TooManyRequests};
use crate::client::connection::{ClientConnection, Decision, RequestGuard, Sending};
use crate::metrics::RequestKind;
use crate::refusal::Refusal;
use crate::refusal::end_notice;
use crate::refusal::error_format::ErrorFormat;
use crate::request::credentials::{is_shown, shown_to_api, shown_to_sandbox, shows_any};
use crate::request::exchange::{Exchange, Failure};
use crate::request::headers;
use crate::request::ingress::{self, Gate, Passed};
use crate::request::preflight::{self, is_preflight};
use crate::request::request_body::RequestBody;
use crate::request::response_body::{ClientBody, Cut, Source};
use crate::request::wake::{may_wake, wake};
use crate::routing::classify::{Destination, Target, classify};
use crate::routing::control_path::{is_reserved, is_reserved_for_interpreter};
use crate::routing::route::Route;
use crate::routing::signed_url::SignedUrl;
use crate::shared::Shared;
use skep_wire::interpreter::INTERPRETER_PORT;

/// Time limit for the turn of a request to look for the sandbox that signed it.
const SEARCH_TIMEOUT: Duration = Duration::from_secs(2);

/// Answers one request, or says that it must be cut.
///
/// One too many is cut before anything is kept of it: an answer would cost as much as what is
/// refused, as long as its client does not read.
pub(crate) fn answer(
    shared: &Arc<Shared>,
    connection: &Arc<ClientConnection>,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<ClientBody>, Cut>> + Send + use<> {
    let multiplexed = request.version() == Version::HTTP_2;
    match connection
        .activity
        .request(multiplexed, shows_any(request.headers(), request.uri()))
    {
        Ok(serving) => {
            let (shared, connection) = (Arc::clone(shared), Arc::clone(connection));
            Either::Left(Box::pin(serve(shared, connection, serving, request)))
        }
        Err(TooManyRequests) => {
            shared.metrics.anonymous_refused.add_one();
            Either::Right(std::future::ready(Err(Cut::TooManyRequests)))
        }
    }
}

async fn serve(
    shared: Arc<Shared>,
    connection: Arc<ClientConnection>,
    serving: RequestGuard,
    request: Request<Incoming>,
) -> Result<Response<ClientBody>, Cut> {
    let multiplexed = request.version() == Version::HTTP_2;
    let arrived = Instant::now();
    let sending = Sending::new(&connection.activity);
    let request = request.map(|body| RequestBody::new(body, multiplexed, &shared.tasks, sending));
    let (parts, body) = request.into_parts();
    let format = ErrorFormat::of(&parts);
    let admitted = admit(&shared, &parts).await;
    let shown = match &admitted {
        Ok(Admitted::Api) => shown_to_api(&parts.headers, &parts.uri),
        Ok(Admitted::Sandbox(_, _, shown) | Admitted::Asleep(_, shown)) => *shown,
        Ok(Admitted::Exchange(_)) => Credentials::Token,
        Ok(Admitted::Preflight) | Err(_) => Credentials::None,
    };
    let decision = serving.begin(shown);
    if decision != Ok(Decision::Served) {
        shared.metrics.anonymous_refused.add_one();
    }
    if decision.map_err(|TooManyRequests| Cut::TooManyRequests)? == Decision::AnonymousFull {
        let mut response = refused(&shared, &Refusal::AnonymousFull, &format, serving);
        if !multiplexed {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        return Ok(response);
    }
    let (target, route) = match admitted {
        Ok(Admitted::Api) => {
            let request = Request::from_parts(parts, body);
            return answer_by_api(&shared, request, serving).await;
        }
        Ok(Admitted::Sandbox(target, route, _)) => (target, route),
        Ok(Admitted::Preflight) => {
            let response = preflight::answer(&parts);
            return Ok(by_proxy(response, serving));
        }
        Ok(Admitted::Exchange(exchange)) => return Ok(by_proxy(exchange.answer(), serving)),
        Ok(Admitted::Asleep(target, _)) => match wake(&shared, &target.id).await {
            Ok(route) => (target, route),
            Err(refusal) => return Ok(refused(&shared, &refusal, &format, serving)),
        },
        Err(refusal) => return Ok(refused(&shared, &refusal, &format, serving)),
    };
    shared.metrics.sandbox_requests.add_one();
    let kind = match (target.port, parts.uri.path()) {
        (INTERPRETER_PORT, "/execute") => RequestKind::Execute,
        _ => RequestKind::Other,
    };
    let exchange = Exchange {
        connection,
        serving,
        arrived,
        shown,
        probe: parts.uri.path() == "/health" && target.port == AGENT_PORT,
        end_notice: end_notice::wanted(&parts),
        multiplexed,
        target,
        route,
        shared,
    };
    let request = Request::from_parts(parts, body);
    answer_by_sandbox(&exchange, kind, request, &format).await
}

async fn answer_by_sandbox(
    exchange: &Exchange,
    kind: RequestKind,
    request: Request<RequestBody>,
    format: &ErrorFormat,
) -> Result<Response<ClientBody>, Cut> {
    let span = exchange.span(kind, &request);
    // The request is over when the last byte of its answer is, or when there is none.
    let ending = EndOnDrop(span.clone());
    let serving = exchange.serving.clone();
    match exchange.run(request).instrument(span.clone()).await {
        Ok(response) => {
            let metrics = &exchange.shared.metrics;
            metrics.answered(kind, exchange.arrived.elapsed());
            note_status(&span, &response);
            Ok(response.map(|source| ClientBody::new(source, serving).ending(ending)))
        }
        Err(Failure::Refused(refusal)) => {
            let response = refused(&exchange.shared, &refusal, format, serving);
            note_status(&span, &response);
            Ok(response)
        }
        Err(Failure::Cut(cut)) => {
            trace::fail(&span);
            Err(exchange.cut(cut))
        }
    }
}

async fn answer_by_api(
    shared: &Shared,
    mut request: Request<RequestBody>,
    serving: RequestGuard,
) -> Result<Response<ClientBody>, Cut> {
    shared.metrics.api_requests.add_one();
    request.extensions_mut().insert(serving.sent_after());
    let answered = shared.api.clone().oneshot(request).await;
    let mut response = answered.unwrap_or_else(|never| match never {});
    headers::forbid_guessing(response.headers_mut());
    let right = response.extensions().get::<Authenticated>().is_some();
    if let Err(TooManyRequests) = serving.judge(right) {
        shared.metrics.anonymous_refused.add_one();
        return Err(Cut::TooManyRequests);
    }
    Ok(response.map(|body| ClientBody::new(Source::Api(body), serving)))
}

fn note_status<B>(span: &Span, response: &Response<B>) {
    span.record("http.response.status_code", response.status().as_u16());
    if response.status().is_server_error() {
        trace::fail(span);
    }
}

fn refused(
    shared: &Shared,
    refusal: &Refusal,
    format: &ErrorFormat,
    serving: RequestGuard,
) -> Response<ClientBody> {
    shared.metrics.refusals.add_one();
    by_proxy(refusal.render(format), serving)
}

fn by_proxy(response: Response<Bytes>, serving: RequestGuard) -> Response<ClientBody> {
    response.map(|body: Bytes| ClientBody::new(Source::Proxy(Full::new(body)), serving))
}

enum Admitted {
    Api,
    Sandbox(Target, Arc<Route>, Credentials),
    /// A paused sandbox that the request lets go on.
    Asleep(Target, Credentials),
    /// A browser that brings a token in its address.
    Exchange(ingress::Exchange),
    /// A browser that asks what a page may send to a sandbox that cannot say so.
    Preflight,
}

/// Finds out whom a request is for and whether it may go there.
async fn admit(shared: &Shared, parts: &Parts) -> Result<Admitted, Refusal> {
    let admitted = admit_sandbox(shared, parts).await;
    match admitted {
        // It would wake the sandbox for nothing.
        Ok(Admitted::Asleep(..)) if is_preflight(parts) => Ok(Admitted::Preflight),
        Err(refusal) if is_preflight(parts) && refusal.answers_preflight() => {
            Ok(Admitted::Preflight)
        }
        admitted => admitted,
    }
}

async fn admit_sandbox(shared: &Shared, parts: &Parts) -> Result<Admitted, Refusal> {
    if parts.method == Method::CONNECT {
        return Err(Refusal::Unsupported);
    }
    let (target, found) = match classify(parts, &shared.config) {
        Destination::Api => return Ok(Admitted::Api),
        Destination::Misaddressed(mistake) => return Err(Refusal::Misaddressed(mistake)),
        Destination::NoSuchSandbox { name } => {
            return Err(Refusal::SandboxNotFound {
                name,
                departure: None,
            });
        }
        Destination::Sandbox(target) => {
            let Some(found) = named(shared, &target.id).await else {
                return Err(not_found(shared, &target.id, parts).await);
            };
            (target.clone(), found)
        }
        Destination::TokenHolder => found(holder(shared, parts).await)?,
        Destination::Signer => found(signer(shared, parts).await?)?,
    };
    check_reserved(&target, parts)?;
    match found {
        Found::Running(route) if route.ended.is_cancelled() => {
            Err(not_found(shared, &route.id, parts).await)
        }
        Found::Running(route) => {
            let gate = Gate {
                id: &route.id,
                ingress: &route.ingress,
                token: route.access_token.as_ref(),
            };
            let shown = match gate.check(&target, parts)? {
                Passed::Open => shown_to_sandbox(&route, parts),
                Passed::Shown => Credentials::Token,
                Passed::Exchange(exchange) => return Ok(Admitted::Exchange(exchange)),
            };
            Ok(Admitted::Sandbox(target, route, shown))
        }
        Found::Asleep(sleeper) => {
            let gate = Gate {
                id: &sleeper.id,
                ingress: &sleeper.ingress,
                token: sleeper.access_token.as_ref(),
            };
            let shown = match gate.check(&target, parts)? {
                Passed::Open => may_wake(shared, &sleeper, target.port, parts)?,
                Passed::Shown => Credentials::Token,
                Passed::Exchange(exchange) => return Ok(Admitted::Exchange(exchange)),
            };
            Ok(Admitted::Asleep(target, shown))
        }
    }
}

/// A sandbox that was looked for.
enum Found {
    Running(Arc<Route>),
    Asleep(Sleeper),
}

/// The sandbox of a name, running or asleep. One that goes on between the two looks is found by a
/// third.
async fn named(shared: &Shared, id: &SandboxId) -> Option<Found> {
    let running = async || {
        let route = shared.routes.find(id).await;
        route.filter(|route| !route.ended.is_cancelled())
    };
    if let Some(route) = running().await {
        return Some(Found::Running(route));
    }
    match shared.routes.sleeper(id).await {
        Some(sleeper) => Some(Found::Asleep(sleeper)),
        None => running().await.map(Found::Running),
    }
}

fn check_reserved(target: &Target, parts: &Parts) -> Result<(), Refusal> {
    let path = parts.uri.path();
    let reserved = match target.port {
        AGENT_PORT => is_reserved(path),
        INTERPRETER_PORT => is_reserved_for_interpreter(path),
        _ => false,
    };
    if reserved {
        let path = path.to_owned();
        return Err(Refusal::Reserved { path });
    }
    Ok(())
}

fn found(found: Option<Found>) -> Result<(Target, Found), Refusal> {
    let unknown = || Refusal::SandboxNotFound {
        name: String::new(),
        departure: None,
    };
    let found = found.ok_or_else(unknown)?;
    let id = match &found {
        Found::Running(route) => &route.id,
        Found::Asleep(sleeper) => &sleeper.id,
    };
    Ok((Target::agent(id.clone()), found))
}

/// Refuses a request to a sandbox that is not there. Whoever shows its token is told of its end.
async fn not_found(shared: &Shared, id: &SandboxId, parts: &Parts) -> Refusal {
    let accepts = |token: &AccessToken| is_shown(token, parts);
    Refusal::SandboxNotFound {
        name: id.to_string(),
        departure: shared.routes.departure(id, &accepts).await,
    }
}

async fn holder(shared: &Shared, parts: &Parts) -> Option<Found> {
    let token = parts.headers.get(ACCESS_TOKEN)?.to_str().ok()?;
    if let Some(route) = shared.routes.find_by_token(token).await {
        return Some(Found::Running(route));
    }
    let accepts = |known: &AccessToken| known.matches(token);
    let sleeper = shared.routes.find_sleeper(&accepts).await;
    sleeper.map(Found::Asleep)
}

/// The sandbox whose token signed a URL that names none. Every token is tried, so this is done
/// one request after another and not where others wait: what it costs is its caller's time.
async fn signer(shared: &Shared, parts: &Parts) -> Result<Option<Found>, Refusal> {
    let Some(url) = SignedUrl::read(parts) else {
        return Ok(None);
    };
    let turn = Arc::clone(&shared.searches).acquire_owned();
    let Ok(Ok(turn)) = tokio::time::timeout(SEARCH_TIMEOUT, turn).await else {
        return Err(Refusal::ServerFull);
    };
    let routes = Arc::clone(&shared.routes);
    let runtime = tokio::runtime::Handle::current();
    let search = move || {
        let signed = |token: &AccessToken| url.is_signed_with(token);
        let found = runtime.block_on(async {
            match routes.find_by_signature(&signed).await {
                Some(route) => Some(Found::Running(route)),
                None => routes.find_sleeper(&signed).await.map(Found::Asleep),
            }
        });
        // Here, because the search goes on when its caller has gone, and the next must wait for it.
        drop(turn);
        found
    };
    tokio::task::spawn_blocking(search)
        .await
        .map_err(|_panicked_or_stopping| Refusal::ServerFull)
}
