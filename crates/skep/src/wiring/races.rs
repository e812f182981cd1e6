//! Requests that meet: what is under way with a sandbox is a row, what arrives meanwhile a column.
//!
//! Everything is the server's own but the host, which stands still in the middle of a change as long as a
//! test wants.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use skep_agent_protocol::AgentConfig;
use skep_api::Access;
use skep_control::{
    ApiKey, Control, FakeBuilds, FakeTemplates, FakeUploads, FakeVolumes, Parts, Reports,
    TeamLimits,
};
use skep_isolation::FakeIsolation;
use skep_node::{
    Agents, ConfigureError, Layers, Node, NodeOptions, PausePolicy, StartCommandError,
};
use skep_store::Store;
use skep_types::{AdmissionPolicy, LayerKey, NodeId, TemplateStart};
use tempfile::TempDir;
use tower::ServiceExt as _;

use super::{LocalNodes, ReportJournal};

/// Time limit for an answer.
const ANSWER: Duration = Duration::from_secs(30);
/// Time in which a request that need not wait is answered, or has taken its place among those that wait.
const ARRIVED: Duration = Duration::from_millis(30);

/// Agents that answer.
#[derive(Debug)]
struct Well;

impl Agents for Well {
    fn configure<'a>(
        &'a self,
        _address: IpAddr,
        _config: &'a AgentConfig,
    ) -> BoxFuture<'a, Result<(), ConfigureError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn trust<'a>(
        &'a self,
        _address: IpAddr,
        _control_token: &'a str,
        _authority: &'a str,
    ) -> BoxFuture<'a, Result<(), ConfigureError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn start<'a>(
        &'a self,
        _address: IpAddr,
        _config: &'a AgentConfig,
        _start: &'a TemplateStart,
    ) -> BoxFuture<'a, Result<(), StartCommandError>> {
        std::future::ready(Ok(())).boxed()
    }

    fn answers(&self, _address: IpAddr) -> BoxFuture<'_, bool> {
        std::future::ready(true).boxed()
    }
}

/// The layers of templates that have none.
#[derive(Debug)]
struct NoLayers;

impl Layers for NoLayers {
    fn path(&self, key: LayerKey) -> PathBuf {
        unreachable!("no template has the layer {key}")
    }
}

#[derive(Debug)]
struct NoMetrics;

impl skep_api::ServerMetrics for NoMetrics {
    fn problems(&self) -> Vec<skep_api::Problem> {
        Vec::new()
    }

    fn render(&self) -> String {
        String::new()
    }
}

impl skep_api::HostChecks for NoMetrics {
    fn look(&self) -> futures_util::future::BoxFuture<'_, Result<Vec<skep_types::Check>, String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}

/// A server over a host that can be held.
struct Server {
    router: Router,
    key: String,
    host: FakeIsolation,
    _directory: TempDir,
}

impl Server {
    async fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let store = Store::open(&directory.path().join("skep.db")).unwrap();
        let reports = Reports::new(store.clone(), NodeId::local());
        let host = FakeIsolation::default();
        let node = Node::new(NodeOptions {
            isolation: Arc::new(host.clone()),
            layers: Arc::new(NoLayers),
            journal: Arc::new(ReportJournal(reports.clone())),
            agents: Arc::new(Well),
            authority: None,
            spares: 0,
            admission: AdmissionPolicy::default(),
            pauses: PausePolicy {
                checkpoint_after: Duration::from_secs(600),
                ..PausePolicy::default()
            },
        });
        let parts = Parts {
            living: reports.living().await.unwrap(),
            store,
            nodes: Arc::new(LocalNodes(node)),
            templates: Arc::new(FakeTemplates::named(&["base"])),
            builds: Arc::new(FakeBuilds::default()),
            uploads: Arc::new(FakeUploads::default()),
            volumes: Arc::new(FakeVolumes::default()),
            vault: skep_seal::KeySource::OwnFile(directory.path().join("key")),
            limits: TeamLimits::default(),
        };
        let control = Control::open(parts).await.unwrap();
        let team = control.default_team().await.unwrap();
        let key = ApiKey::random();
        control.register_key(&team, "test", &key).await.unwrap();
        let router = skep_api::router(skep_api::Options {
            control,
            access: Access::Keys,
            domain: "sandbox.test".to_owned(),
            is_secure: false,
            requests_per_team: 64,
            webhook_destinations: skep_http::Destinations::default(),
            metrics: Arc::new(NoMetrics),
            host_checks: Arc::new(NoMetrics),
            beside: axum::Router::new(),
            pages: axum::Router::new(),
            tickets: skep_api::Tickets::default(),
        });
        Self {
            router,
            key: key.reveal().to_owned(),
            host,
            _directory: directory,
        }
    }

    /// Sends `METHOD PATH [BODY]`, and returns the status with the body.
    fn send(&self, line: &str) -> impl Future<Output = (u16, String)> + Send + 'static {
        let mut words = line.splitn(3, ' ');
        let request = Request::builder()
            .method(words.next().unwrap())
            .uri(words.next().unwrap())
            .header("X-API-KEY", &self.key);
        let body = words.next().unwrap_or_default().to_owned();
        let answering = self
            .router
            .clone()
            .oneshot(request.body(Body::from(body)).unwrap());
        async move {
            let answered = tokio::time::timeout(ANSWER, answering).await;
            let answer = answered.expect("nobody waits for ever").unwrap();
            let status = answer.status().as_u16();
            let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await;
            (status, String::from_utf8(body.unwrap().to_vec()).unwrap())
        }
    }

    async fn create(&self, body: &str) -> String {
        let (status, body) = self.send(&format!("POST /v2/sandboxes {body}")).await;
        assert_eq!(status, 201, "{body}");
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        body["sandboxID"].as_str().unwrap().to_owned()
    }

    async fn state(&self, id: &str) -> Option<String> {
        let (status, body) = self.send(&format!("GET /sandboxes/{id}")).await;
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        (status == 200).then(|| body["state"].as_str().unwrap().to_owned())
    }
}

/// A request to a sandbox, as `METHOD PATH [BODY]` with its id left out.
fn line(verb: &str, id: &str) -> String {
    match verb {
        "pause" => format!("POST /sandboxes/{id}/pause"),
        "connect" => format!(r#"POST /v2/sandboxes/{id}/connect {{"timeout":600}}"#),
        "resume" => format!(r#"POST /sandboxes/{id}/resume {{"timeout":600}}"#),
        "snapshot" => format!("POST /sandboxes/{id}/snapshots {{}}"),
        "fork" => format!("POST /sandboxes/{id}/fork {{}}"),
        "timeout" => format!(r#"POST /sandboxes/{id}/timeout {{"timeout":600}}"#),
        "kill" => format!("DELETE /sandboxes/{id}"),
        verb => unreachable!("no request is called {verb}"),
    }
}

/// Table: operation under way, request that arrives, its answer, and the state afterwards.
type Meeting = (&'static str, &'static str, u16, Option<&'static str>);

/// Section 4.2 of the contract; where that has two answers, the better one.
const MEETINGS: [Meeting; 33] = [
    ("pause", "pause", 204, Some("paused")),
    ("pause", "connect", 201, Some("running")),
    ("pause", "resume", 201, Some("running")),
    ("pause", "snapshot", 409, Some("paused")),
    ("pause", "fork", 409, Some("paused")),
    ("pause", "timeout", 409, Some("paused")),
    ("pause", "kill", 204, None),
    ("snapshot", "pause", 204, Some("paused")),
    ("snapshot", "connect", 200, Some("running")),
    ("snapshot", "resume", 409, Some("running")),
    ("snapshot", "snapshot", 409, Some("running")),
    ("snapshot", "fork", 409, Some("running")),
    // A change of the deadline is applied, not refused.
    ("snapshot", "timeout", 204, Some("running")),
    ("snapshot", "kill", 204, None),
    ("fork", "pause", 204, Some("paused")),
    ("fork", "snapshot", 409, Some("running")),
    ("fork", "kill", 204, None),
    ("connect", "pause", 204, Some("paused")),
    ("connect", "connect", 201, Some("running")),
    ("connect", "resume", 201, Some("running")),
    ("connect", "snapshot", 409, Some("running")),
    ("connect", "fork", 409, Some("running")),
    ("connect", "timeout", 409, Some("running")),
    // A kill that is refused is a leak for most callers.
    ("connect", "kill", 204, None),
    ("resume", "connect", 201, Some("running")),
    ("resume", "kill", 204, None),
    ("kill", "pause", 404, None),
    ("kill", "connect", 409, None),
    ("kill", "resume", 404, None),
    ("kill", "snapshot", 404, None),
    ("kill", "fork", 404, None),
    ("kill", "timeout", 409, None),
    // The first is told that it was killed.
    ("kill", "kill", 404, None),
];

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_meet_are_answered_as_the_contract_says() {
    let server = Server::new().await;
    let mut failures = Vec::new();
    for (under_way, arrives, expected, state) in MEETINGS {
        let id = server.create(r#"{"templateID":"base"}"#).await;
        if matches!(under_way, "connect" | "resume") {
            assert_eq!(server.send(&line("pause", &id)).await.0, 204);
        }
        server.host.hold_changes();
        let first = skep_telemetry::spawn("under way", server.send(&line(under_way, &id)));
        server.host.held_change().await;
        let mut second = skep_telemetry::spawn("arrives", server.send(&line(arrives, &id)));
        let at_once = tokio::time::timeout(ARRIVED, &mut second).await;
        server.host.release_changes();
        let answer = match at_once {
            Ok(answer) => answer.unwrap().unwrap(),
            Err(_) => second.await.unwrap().unwrap(),
        };
        let done = first.await.unwrap().unwrap();
        let left = server.state(&id).await;
        let first_is_well = (200..300).contains(&done.0);
        if answer.0 != expected || left.as_deref() != state || !first_is_well {
            failures.push(format!(
                "{arrives} during {under_way}: {answer:?} and {left:?} after {done:?}"
            ));
        }
        server.send(&line("kill", &id)).await;
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Answers of a paused sandbox, when nothing is under way.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_sandbox_answers_as_the_contract_says() {
    let server = Server::new().await;
    for (verb, expected, state) in [
        ("pause", 409, Some("paused")),
        ("timeout", 404, Some("paused")),
        ("fork", 409, Some("paused")),
        // Better than the contract, which finds no sandbox.
        ("snapshot", 201, Some("paused")),
        ("connect", 201, Some("running")),
        ("resume", 201, Some("running")),
        ("kill", 204, None),
    ] {
        let id = server.create(r#"{"templateID":"base"}"#).await;
        assert_eq!(server.send(&line("pause", &id)).await.0, 204);
        let (status, body) = server.send(&line(verb, &id)).await;
        assert_eq!((verb, status), (verb, expected), "{body}");
        assert_eq!(server.state(&id).await.as_deref(), state, "after {verb}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_during_a_snapshot_holds_after_it() {
    let server = Server::new().await;
    let body = r#"{"templateID":"base","timeout":1,"autoPause":true}"#;
    let id = server.create(body).await;
    server.host.hold_changes();
    let taking = skep_telemetry::spawn("snapshot", server.send(&line("snapshot", &id)));
    server.host.held_change().await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(server.state(&id).await.as_deref(), Some("running"));
    server.host.release_changes();
    assert_eq!(taking.await.unwrap().unwrap().0, 201);
    skep_testkit::wait_until(ANSWER, async || match server.state(&id).await {
        Some(state) if state == "paused" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_during_a_pause_is_forgotten_with_it() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base","timeout":1}"#).await;
    server.host.hold_changes();
    let pausing = skep_telemetry::spawn("pause", server.send(&line("pause", &id)));
    server.host.held_change().await;
    tokio::time::sleep(Duration::from_millis(1200)).await;
    server.host.release_changes();
    assert_eq!(pausing.await.unwrap().unwrap().0, 204);
    assert_eq!(server.state(&id).await.as_deref(), Some("paused"));
    assert_eq!(server.send(&line("connect", &id)).await.0, 201);
    assert_eq!(server.state(&id).await.as_deref(), Some("running"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_hangs_up_does_not_stop_a_pause() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    server.host.hold_changes();
    let pausing = skep_telemetry::spawn("pause", server.send(&line("pause", &id)));
    server.host.held_change().await;
    pausing.abort();
    server.host.release_changes();
    skep_testkit::wait_until(ANSWER, async || match server.state(&id).await {
        Some(state) if state == "paused" => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
}
