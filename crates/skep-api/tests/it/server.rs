//! A server without a network: requests and answers are lines of text.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use jiff::Timestamp;
use serde_json::Value;
use skep_api::{Access, Options};
use skep_control::{
    ApiKey, Control, FakeBuilds, FakeNodes, FakeTemplates, FakeUploads, FakeVolumes, Parts,
    Reports, TeamLimits, Templates,
};
use skep_store::{Standing, Store, Team};
use skep_types::{SandboxId, TeamId};
use tempfile::TempDir;
use tower::ServiceExt;

use crate::openapi;

/// Limit on a team's concurrent requests in these tests.
pub(crate) const REQUESTS_PER_TEAM: u32 = 2048;

pub(crate) struct Server {
    pub(crate) router: Router,
    pub(crate) control: Control,
    pub(crate) store: Store,
    pub(crate) nodes: FakeNodes,
    pub(crate) builds: FakeBuilds,
    uploads: FakeUploads,
    pub(crate) volumes: Arc<FakeVolumes>,
    pub(crate) team: Team,
    pub(crate) key: String,
    templates: Arc<dyn Templates>,
    limits: TeamLimits,
    directory: TempDir,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Server {
    pub(crate) async fn new() -> Self {
        Self::with(TeamLimits::default(), Access::Keys).await
    }

    pub(crate) async fn with(limits: TeamLimits, access: Access) -> Self {
        let templates = FakeTemplates::named(&["base", "code-interpreter-v1"]);
        Self::with_templates(limits, access, templates).await
    }

    pub(crate) async fn with_templates(
        limits: TeamLimits,
        access: Access,
        templates: FakeTemplates,
    ) -> Self {
        let directory = TempDir::new().unwrap();
        let store = Store::open(&directory.path().join("skep.db")).unwrap();
        let nodes = FakeNodes::new(store.clone());
        let templates: Arc<dyn Templates> = Arc::new(templates);
        let (builds, uploads) = (FakeBuilds::default(), FakeUploads::default());
        let volumes = Arc::new(FakeVolumes::default());
        let fakes = (&nodes, &builds, &uploads, &volumes);
        let control = open(&store, fakes, &templates, limits).await;
        let team = control.default_team().await.unwrap();
        let key = ApiKey::random();
        control.register_key(&team, "test", &key).await.unwrap();
        Self {
            router: router(&control, access),
            control,
            store,
            nodes,
            builds,
            uploads,
            volumes,
            team,
            key: key.reveal().to_owned(),
            templates,
            limits,
            directory,
        }
    }

    /// The same hosts under a new server, as after a crash.
    pub(crate) async fn restarted(self) -> Self {
        let fakes = (&self.nodes, &self.builds, &self.uploads, &self.volumes);
        let control = open(&self.store, fakes, &self.templates, self.limits).await;
        Self {
            router: router(&control, Access::Keys),
            control,
            ..self
        }
    }

    /// A second team and its key.
    pub(crate) async fn second_team(&self) -> (Team, String) {
        let team = Team {
            id: TeamId::random(),
            slug: "second".to_owned(),
            name: "Second".to_owned(),
            is_default: false,
            max_sandboxes: None,
            max_lifetime: None,
            standing: Standing::Good,
            created_at: Timestamp::now(),
        };
        self.store
            .teams()
            .insert(team.clone())
            .recorded()
            .await
            .unwrap();
        let key = ApiKey::random();
        self.control
            .register_key(&team, "second", &key)
            .await
            .unwrap();
        (team, key.reveal().to_owned())
    }

    /// Sends `METHOD PATH [BODY]` with the team's key.
    pub(crate) async fn send(&self, line: &str) -> Answer {
        self.send_as(&self.key, line).await
    }

    pub(crate) async fn send_as(&self, key: &str, line: &str) -> Answer {
        self.send_with(&[("X-API-KEY", key)], line).await
    }

    pub(crate) async fn send_with(&self, headers: &[(&str, &str)], line: &str) -> Answer {
        let mut words = line.splitn(3, ' ');
        let mut request = Request::builder()
            .method(words.next().unwrap())
            .uri(words.next().unwrap());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = words.next().unwrap_or_default().to_owned();
        self.run(request.body(Body::from(body)).unwrap()).await
    }

    /// Sends a line whose answer has no end, and gives the answer's body.
    pub(crate) async fn stream(&self, line: &str) -> Body {
        let (method, uri) = line.split_once(' ').unwrap();
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("X-API-Key", &self.key)
            .body(Body::empty())
            .unwrap();
        let response: Response<Body> = self.router.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), 200, "{line}");
        response.into_body()
    }

    /// Sends a request, and compares the answer with the OpenAPI file.
    pub(crate) async fn run(&self, request: Request<Body>) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let response: Response<Body> = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let answer = Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8(bytes.to_vec()).unwrap(),
        };
        openapi::check(method.as_str(), &path, &answer);
        answer
    }

    /// Sends a line and compares the answer: `STATUS [BODY]`, with what is random or a time
    /// replaced by what it is.
    pub(crate) async fn check(&self, line: &str, expected: &str) {
        self.check_as(&self.key, line, expected).await;
    }

    pub(crate) async fn check_as(&self, key: &str, line: &str, expected: &str) {
        let answer = self.send_as(key, line).await;
        assert_eq!(answer.text(), expected, "{line}");
    }

    /// Makes a sandbox and gives its id.
    pub(crate) async fn create(&self, body: &str) -> SandboxId {
        self.create_as(&self.key, body).await
    }

    pub(crate) async fn create_as(&self, key: &str, body: &str) -> SandboxId {
        let answer = self
            .send_as(key, &format!("POST /v2/sandboxes {body}"))
            .await;
        assert_eq!(answer.status, 201, "{}", answer.body);
        answer.json()["sandboxID"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    }

    /// Remaining lifetime of a sandbox.
    pub(crate) async fn left(&self, id: &SandboxId) -> Duration {
        let end = self.end_at(id).await;
        Duration::try_from(end.duration_since(Timestamp::now())).unwrap_or_default()
    }

    pub(crate) async fn end_at(&self, id: &SandboxId) -> Timestamp {
        let answer = self.send(&format!("GET /sandboxes/{id}")).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.json()["endAt"].as_str().unwrap().parse().unwrap()
    }

    /// The ids in a list, in its order.
    pub(crate) async fn listed(&self, line: &str) -> Vec<String> {
        let answer = self.send(line).await;
        assert_eq!(answer.status, 200, "{line}: {}", answer.body);
        answer.ids()
    }

    pub(crate) fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }
}

impl Answer {
    /// `STATUS BODY`, with what is random or a time replaced by what it is.
    pub(crate) fn text(&self) -> String {
        let body = match serde_json::from_str::<Value>(&self.body) {
            Ok(mut value) => {
                mask(&mut value);
                value.to_string()
            }
            Err(_) => self.body.clone(),
        };
        format!("{} {body}", self.status).trim_end().to_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn ids(&self) -> Vec<String> {
        let items = self.json();
        let ids = items.as_array().unwrap().iter();
        ids.map(|item| item["sandboxID"].as_str().unwrap().to_owned())
            .collect()
    }
}

fn mask(value: &mut Value) {
    match value {
        Value::String(text) => {
            if text.parse::<SandboxId>().is_ok() {
                *text = "SANDBOX".to_owned();
            } else if text.parse::<TeamId>().is_ok() {
                *text = "ID".to_owned();
            } else if text.parse::<Timestamp>().is_ok() {
                *text = "TIME".to_owned();
            } else if text.parse::<ApiKey>().is_ok() {
                *text = "KEY".to_owned();
            } else if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                *text = "TOKEN".to_owned();
            } else if text.len() == 36 && text.split('-').count() == 5 {
                *text = "UUID".to_owned();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(mask),
        Value::Object(fields) => fields.values_mut().for_each(mask),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

async fn open(
    store: &Store,
    (nodes, builds, uploads, volumes): (&FakeNodes, &FakeBuilds, &FakeUploads, &Arc<FakeVolumes>),
    templates: &Arc<dyn Templates>,
    limits: TeamLimits,
) -> Control {
    let parts = Parts {
        store: store.clone(),
        nodes: Arc::new(nodes.clone()),
        templates: Arc::clone(templates),
        builds: Arc::new(builds.clone()),
        uploads: Arc::new(uploads.clone()),
        volumes: Arc::<FakeVolumes>::clone(volumes),
        vault: skep_seal::KeySource::OwnFile(store.path().with_extension("key")),
        limits,
        living: Reports::new(store.clone(), skep_types::NodeId::local())
            .living()
            .await
            .unwrap(),
    };
    let control = Control::open(parts).await.unwrap();
    let issuer = "https://api.skep.test".parse().unwrap();
    control.issue_identity(issuer, Duration::from_hours(24));
    control
}

fn router(control: &Control, access: Access) -> Router {
    skep_api::router(Options {
        control: control.clone(),
        access,
        domain: "sandbox.test".to_owned(),
        is_secure: false,
        requests_per_team: REQUESTS_PER_TEAM,
        beside: Router::new().route("/beside", axum::routing::get(whoami)),
        pages: Router::new().route("/console/", axum::routing::get(page)),
        tickets: skep_api::Tickets::default(),
        webhook_destinations: receivers(),
        metrics: Arc::new(Counted),
        host_checks: Arc::new(Looked),
    })
}

/// Destinations of webhooks in these tests: one address of this host.
pub(crate) fn receivers() -> skep_http::Destinations {
    skep_http::Destinations::trusting(["127.0.0.1".to_owned()])
}

/// A page for everybody.
async fn page() -> &'static str {
    "the console"
}

/// A route beside the API that says who was let in.
async fn whoami(axum::Extension(caller): axum::Extension<skep_api::LetInCaller>) -> String {
    format!("{} {}", caller.team, caller.key.is_some())
}

/// Metrics of this server: nothing but that it was asked.
#[derive(Debug)]
struct Counted;

impl skep_api::ServerMetrics for Counted {
    fn problems(&self) -> Vec<skep_api::Problem> {
        vec![skep_api::Problem {
            code: "record_not_written",
            message: "the disk is full".to_owned(),
        }]
    }

    fn render(&self) -> String {
        "asked 1\n".to_owned()
    }
}

/// Checks of a host that lacks something.
#[derive(Debug)]
struct Looked;

impl skep_api::HostChecks for Looked {
    fn look(&self) -> futures_util::future::BoxFuture<'_, Result<Vec<skep_types::Check>, String>> {
        let check = skep_types::Check {
            name: "swap",
            status: skep_types::CheckStatus::Limited,
            detail: "there is none".to_owned(),
            cure: Some("make some".to_owned()),
        };
        Box::pin(std::future::ready(Ok(vec![check])))
    }
}
