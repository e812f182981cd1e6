//! Authentication of requests by their headers.

use std::sync::{Arc, OnceLock};

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use skep_control::{ApiKey, Caller, QuotaGuard};
use skep_telemetry::Chain;
use skep_types::{Authenticated, TeamId};
use skep_wire::headers::{API_KEY, TRACE_PARENT};

use crate::error::{ApiError, MissingSandbox};
use crate::router::{Access, Edge};

/// Prefix of a key that is offered as a protocol.
const SOCKET_KEY_PREFIX: &str = "skep.key.";

/// A caller that was let in. The first argument of every handler that looks at anything, so
/// that nobody learns what exists before it is known who they are.
#[derive(Debug)]
pub(crate) struct Authorized {
    pub(crate) caller: Caller,
    /// The key that was shown; `None` where none is asked for.
    pub(crate) key: Option<ApiKey>,
    /// Guard that counts it among the requests of its team, until it was handled.
    _quota: QuotaGuard,
}

/// Team of the caller of a request, set when that was let in.
#[derive(Debug, Clone, Default)]
struct LetIn(Arc<OnceLock<TeamId>>);

/// Tells the proxy whether the caller was let in, and keeps from the handlers what only
/// such a caller decides: whether the request is traced.
pub(crate) async fn recognised(
    State(edge): State<Edge>,
    mut request: Request,
    next: Next,
) -> Response {
    if request.headers().contains_key(TRACE_PARENT) && !is_known(&edge, request.headers()).await {
        request.headers_mut().remove(TRACE_PARENT);
    }
    let let_in = LetIn::default();
    request.extensions_mut().insert(let_in.clone());
    let mut response = next.run(request).await;
    if let Some(team) = let_in.0.get() {
        response = explained(&edge, team, response).await;
        response.extensions_mut().insert(Authenticated);
    }
    response
}

/// Adds the end of a sandbox to the answer that it is not there, if it was the team's.
async fn explained(edge: &Edge, team: &TeamId, mut response: Response) -> Response {
    let Some(MissingSandbox(id)) = response.extensions_mut().remove() else {
        return response;
    };
    match edge.control().departure(team, &id).await {
        Ok(Some(departure)) => ApiError::sandbox_ended(&id, &departure).into_response(),
        Ok(None) => response,
        Err(error) => {
            // The answer is right without it.
            tracing::debug!(error = %Chain(&error), "cannot say how a sandbox ended");
            response
        }
    }
}

/// Returns true if a caller would be let in.
async fn is_known(edge: &Edge, headers: &HeaderMap) -> bool {
    match (edge.access(), shown_key(headers)) {
        (Access::Trusted, _) => true,
        (Access::Keys, Ok(key)) => edge.control().authenticate(&key).await.is_ok(),
        (Access::Keys, Err(_)) => false,
    }
}

impl Authorized {
    /// Refuses everybody but the default team, which is the operator's.
    pub(crate) fn require_operator(&self) -> Result<(), ApiError> {
        if self.caller.team.is_default {
            return Ok(());
        }
        Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "operator_only",
            "only a key of the default team opens this",
        ))
    }
}

impl FromRequestParts<Edge> for Authorized {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, edge: &Edge) -> Result<Self, ApiError> {
        let (caller, key) = match edge.access() {
            Access::Trusted => (edge.control().trusted_caller().await?, None),
            Access::Keys => {
                let key = shown_key(&parts.headers)?;
                (edge.control().authenticate(&key).await?, Some(key))
            }
        };
        if let Some(let_in) = parts.extensions.get::<LetIn>() {
            // Handlers ask once; the first answer stays.
            let_in.0.get_or_init(|| caller.team.id.clone());
        }
        Ok(Self {
            _quota: edge.begin_request(&caller.team.id)?,
            caller,
            key,
        })
    }
}

/// The key among the protocols that the page of a WebSocket offers: browsers let pages choose no
/// other header of these.
fn socket_key(headers: &HeaderMap) -> Option<String> {
    let offered = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter();
    offered
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .find_map(|protocol| protocol.trim().strip_prefix(SOCKET_KEY_PREFIX))
        .map(str::to_owned)
}

/// `X-API-Key`, or else a key in `Authorization`. Old command-line clients send a token of
/// their own beside a valid key, so the latter is looked at only when there is no other.
fn shown_key(headers: &HeaderMap) -> Result<ApiKey, ApiError> {
    let text = |value: &axum::http::HeaderValue| value.to_str().map(str::to_owned).ok();
    let api_key = headers
        .get(API_KEY)
        .and_then(text)
        .filter(|key| !key.is_empty());
    let bearer = || {
        let value = headers.get(header::AUTHORIZATION).and_then(text)?;
        value.strip_prefix("Bearer ").map(str::to_owned)
    };
    let shown = api_key
        .or_else(bearer)
        .or_else(|| socket_key(headers))
        .ok_or_else(|| ApiError::unauthorized("authorization header is missing"))?;
    shown
        .parse()
        .map_err(|_malformed| skep_control::AuthError::Unknown.into())
}
