//! Many clients, over streamable HTTP.
//!
//! Clients of the newest revision have no sessions: every request says all, and its usual sandbox
//! is found by what the client calls itself. Older ones begin a session, which has a sandbox of its
//! own that ends with it. Sessions belong to the team whose key began them.

mod calls;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body::Body;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty, Full, Limited};
use parking_lot::Mutex;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use skep_client::Client;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

pub(crate) use calls::Calls;
use calls::Counts;

use crate::service::{Service, Shown};
use crate::settings::Settings;

/// Largest body of a request: a file that is written is part of it.
const LARGEST_BODY: usize = 16 << 20;
/// Time limit for a client to send the body of a request.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time that a session outlives its sandboxes, so that a call up to their last moment is answered.
const GRACE: Duration = Duration::from_secs(60);
/// Interval of signs of life on streams that have nothing to say.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
const SESSION_ID: &str = "mcp-session-id";

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// Caller of a request, authenticated.
#[derive(Debug, Clone)]
pub struct Caller {
    /// A client of the API with the key that the request showed.
    pub client: Client,
    /// Team of the key: sessions and limits are those of a team.
    pub team: String,
}

/// Limits on what clients can hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointLimits {
    /// Number of sessions of all teams together.
    pub sessions: usize,
    /// Number of sessions of one team.
    pub sessions_per_team: usize,
    /// Number of tools of one team that work at the same time.
    pub calls_per_team: usize,
}

impl Default for EndpointLimits {
    fn default() -> Self {
        Self {
            sessions: 1024,
            sessions_per_team: 128,
            calls_per_team: 64,
        }
    }
}

/// The endpoint `/mcp`. It authenticates nobody: whoever mounts it does. Cheap to clone.
#[derive(Clone)]
pub struct Endpoint {
    protocol: StreamableHttpService<Service, LocalSessionManager>,
    sessions: Arc<Sessions>,
    counts: Counts,
    limits: EndpointLimits,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Endpoint")
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

struct Sessions {
    manager: Arc<LocalSessionManager>,
    /// Team of every session that was begun, by its ID.
    teams: Mutex<HashMap<String, String>>,
    /// Taken while a session begins, so that two do not take the last place.
    beginning: AsyncMutex<()>,
}

tokio::task_local! {
    /// The caller whose session begins, while the protocol asks for a service; `None` for a
    /// request without a session.
    static BEGINS: Option<Caller>;
}

/// The part of a message that says what it is.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    method: Option<std::borrow::Cow<'a, str>>,
}

impl Endpoint {
    /// An endpoint with these settings for everybody.
    pub fn new(settings: Settings, limits: EndpointLimits) -> Self {
        let idle = settings.lifetime + GRACE;
        let mut session_config = SessionConfig::default();
        session_config.keep_alive = Some(idle);
        let mut manager = LocalSessionManager::default();
        manager.session_config = session_config;
        let manager = Arc::new(manager);
        let settings = Arc::new(settings);
        let service = move || {
            let begins = BEGINS.try_with(Clone::clone).ok().flatten();
            Ok(match begins {
                Some(caller) => {
                    Service::of_session(Arc::clone(&settings), caller.client, &caller.team)
                }
                None => Service::of_requests(Arc::clone(&settings)),
            })
        };
        // Names and origins are checked by whoever mounts this, who knows those of the server.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_sse_keep_alive(Some(KEEP_ALIVE))
            .with_max_request_body_bytes(LARGEST_BODY);
        Self {
            protocol: StreamableHttpService::new(service, Arc::clone(&manager), config),
            sessions: Arc::new(Sessions {
                manager,
                teams: Mutex::default(),
                beginning: AsyncMutex::default(),
            }),
            counts: Counts::default(),
            limits,
        }
    }

    /// Answers a request of `caller`.
    pub async fn answer<B>(&self, caller: Caller, request: Request<B>) -> Answer
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let session = request
            .headers()
            .get(SESSION_ID)
            .map(|id| id.to_str().unwrap_or_default());
        if let Some(session) = session
            && !self.sessions.is_of(session, &caller.team)
        {
            // As for one that has ended: whose it is, is nobody's business.
            return refused(
                StatusCode::NOT_FOUND,
                "there is no such session; begin a new one",
            );
        }
        let has_session = session.is_some();
        let (mut parts, body) = request.into_parts();
        let body = Limited::new(body, LARGEST_BODY).collect();
        let body = match timeout(BODY_TIMEOUT, body).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(_)) => {
                return refused(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "the body is too large or broken",
                );
            }
            Err(_elapsed) => return refused(StatusCode::REQUEST_TIMEOUT, "the body took too long"),
        };
        let calls = self.counts.of(&caller.team, self.limits.calls_per_team);
        parts.extensions.insert(Shown {
            client: caller.client.clone(),
            calls,
        });
        let begins = parts.method == Method::POST && !has_session && is_initialize(&body);
        let request = Request::from_parts(parts, Full::new(body));
        if begins {
            return self.begin(caller, request).await;
        }
        BEGINS.scope(None, self.protocol.handle(request)).await
    }

    /// Begins a session, if there is room for one more.
    async fn begin(&self, caller: Caller, request: Request<Full<Bytes>>) -> Answer {
        let _turn = self.sessions.beginning.lock().await;
        let (all, own) = self.sessions.count(&caller.team).await;
        if own >= self.limits.sessions_per_team || all >= self.limits.sessions {
            let message = "too many sessions: end one (DELETE with its Mcp-Session-Id), or wait until one times out";
            let mut answer = refused(StatusCode::TOO_MANY_REQUESTS, message);
            answer
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
            return answer;
        }
        let handled = self.protocol.handle(request);
        let answer = BEGINS.scope(Some(caller.clone()), handled).await;
        let begun = answer
            .headers()
            .get(SESSION_ID)
            .and_then(|id| id.to_str().ok());
        if let Some(id) = begun {
            self.sessions
                .teams
                .lock()
                .insert(id.to_owned(), caller.team);
        }
        answer
    }
}

impl Sessions {
    fn is_of(&self, id: &str, team: &str) -> bool {
        self.teams.lock().get(id).is_some_and(|owner| owner == team)
    }

    /// Numbers of sessions of all teams and of this one, without those that have ended.
    async fn count(&self, team: &str) -> (usize, usize) {
        let living = self.manager.sessions.read().await;
        let mut teams = self.teams.lock();
        teams.retain(|id, _| living.contains_key(id.as_str()));
        let own = teams.values().filter(|owner| *owner == team).count();
        (teams.len(), own)
    }
}

/// Returns true if a body is the first message of a session.
fn is_initialize(body: &[u8]) -> bool {
    let message = serde_json::from_slice::<Message<'_>>(body);
    message.is_ok_and(|message| message.method.as_deref() == Some("initialize"))
}

/// A refusal before anything was understood, in the shape of the protocol's errors.
fn refused(status: StatusCode, message: &str) -> Answer {
    let body = serde_json::json!({
        "jsonrpc": "2.0",
        "id": null,
        "error": { "code": -32000, "message": message },
    });
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(body.to_string())).boxed())
        .unwrap_or_else(|_| Response::new(Empty::new().boxed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
        "protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
    const LIST: &str = r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#;

    fn endpoint() -> Endpoint {
        let limits = EndpointLimits {
            sessions: 3,
            sessions_per_team: 2,
            calls_per_team: 1,
        };
        Endpoint::new(Settings::default(), limits)
    }

    fn caller(team: &str) -> Caller {
        Caller {
            client: Client::new("http://127.0.0.1:1", "").unwrap(),
            team: team.to_owned(),
        }
    }

    async fn send(
        endpoint: &Endpoint,
        team: &str,
        (method, session): (&str, Option<&str>),
        body: &str,
    ) -> Answer {
        let mut request = Request::builder()
            .method(method)
            .uri("/mcp")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header(SESSION_ID, session);
        }
        let request = request
            .body(Full::new(Bytes::from(body.to_owned())))
            .unwrap();
        endpoint.answer(caller(team), request).await
    }

    async fn begin(endpoint: &Endpoint, team: &str) -> Result<String, StatusCode> {
        let answer = send(endpoint, team, ("POST", None), INITIALIZE).await;
        let id = answer
            .headers()
            .get(SESSION_ID)
            .map(|id| id.to_str().unwrap().to_owned());
        id.ok_or(answer.status())
    }

    #[tokio::test]
    async fn a_session_is_of_the_team_that_began_it() {
        let endpoint = endpoint();
        let session = begin(&endpoint, "a").await.unwrap();
        for (method, body) in [("POST", LIST), ("GET", ""), ("DELETE", "")] {
            let answer = send(&endpoint, "b", (method, Some(&session)), body).await;
            assert_eq!(answer.status(), StatusCode::NOT_FOUND, "{method}");
        }
        let answer = send(&endpoint, "a", ("POST", Some(&session)), LIST).await;
        assert_eq!(answer.status(), StatusCode::OK);
    }

    #[tokio::test]
    async fn sessions_have_a_limit_and_a_place_is_given_back() {
        let endpoint = endpoint();
        let first = begin(&endpoint, "a").await.unwrap();
        begin(&endpoint, "a").await.unwrap();
        assert_eq!(
            begin(&endpoint, "a").await,
            Err(StatusCode::TOO_MANY_REQUESTS)
        );
        begin(&endpoint, "b").await.unwrap();
        assert_eq!(
            begin(&endpoint, "c").await,
            Err(StatusCode::TOO_MANY_REQUESTS)
        );
        let ended = send(&endpoint, "a", ("DELETE", Some(&first)), "").await;
        assert!(ended.status().is_success(), "{}", ended.status());
        begin(&endpoint, "a").await.unwrap();
    }

    #[tokio::test]
    async fn a_body_that_is_too_large_is_refused() {
        let body = " ".repeat(LARGEST_BODY + 1);
        let answer = send(&endpoint(), "a", ("POST", None), &body).await;
        assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
    }
}
