//! As much of the API as starting and finding kernels needs. The key is the name of the team.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use parking_lot::Mutex;
use serde_json::{Value, json};

type Shared = State<Arc<Mutex<Content>>>;
type Answer = (StatusCode, Json<Value>);

#[derive(Debug, Default)]
struct Content {
    /// Team and metadata of each sandbox.
    sandboxes: BTreeMap<String, (String, Value)>,
    made: usize,
    refusal: Option<(StatusCode, String)>,
}

#[derive(Debug, Clone)]
pub(crate) struct FakeApi {
    pub(crate) url: String,
    content: Arc<Mutex<Content>>,
}

impl FakeApi {
    pub(crate) async fn start() -> Self {
        let content = Arc::<Mutex<Content>>::default();
        let routes = Router::new()
            .route("/sandboxes", post(create))
            .route("/v2/sandboxes", get(list))
            .route("/sandboxes/{id}", get(info).delete(kill))
            .route("/sandboxes/{id}/timeout", post(prolong))
            .route("/sandboxes/{id}/refreshes", post(prolong))
            .route("/templates", get(templates))
            .route("/skep/templates/{name}", get(version))
            .route("/contexts", get(contexts).post(create_context))
            .with_state(Arc::clone(&content));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(skep_telemetry::spawn("fake API", async move {
            axum::serve(listener, routes).await
        }));
        Self { url, content }
    }

    /// Number of sandboxes that run.
    pub(crate) fn count(&self) -> usize {
        self.content.lock().sandboxes.len()
    }

    /// Makes a copy of every sandbox, as forks are: with its metadata, younger, and listed first.
    pub(crate) fn fork_all(&self) {
        let mut content = self.content.lock();
        let forks: Vec<_> = content
            .sandboxes
            .iter()
            .map(|(id, sandbox)| (format!("fork-{id}"), sandbox.clone()))
            .collect();
        content.sandboxes.extend(forks);
    }

    /// Writes this into the metadata of every sandbox.
    pub(crate) fn describe_all(&self, key: &str, value: &str) {
        for (_, metadata) in self.content.lock().sandboxes.values_mut() {
            metadata[key] = json!(value);
        }
    }

    /// IDs of the sandboxes that run.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.content.lock().sandboxes.keys().cloned().collect()
    }

    /// Refuses every new sandbox from now on.
    pub(crate) fn refuse(&self, status: StatusCode, message: &str) {
        self.content.lock().refusal = Some((status, message.to_owned()));
    }
}

fn team(headers: &HeaderMap) -> String {
    let key = headers.get("x-api-key").and_then(|key| key.to_str().ok());
    key.unwrap_or_default().to_owned()
}

fn rendered(id: &str, metadata: &Value) -> Value {
    let started_at = if id.starts_with("fork-") {
        "2026-01-02T00:00:00Z"
    } else {
        "2026-01-01T00:00:00Z"
    };
    json!({
        "templateID": "t", "sandboxID": id, "clientID": "c", "cpuCount": 1, "memoryMB": 1, "diskSizeMB": 1,
        "startedAt": started_at, "endAt": "2026-01-03T01:00:00Z", "state": "running",
        "metadata": metadata, "envdVersion": "0.5.0", "envdAccessToken": "token",
    })
}

fn not_found() -> Answer {
    let body = json!({"code": 404, "message": "not found"});
    (StatusCode::NOT_FOUND, Json(body))
}

async fn create(State(content): Shared, headers: HeaderMap, Json(body): Json<Value>) -> Answer {
    let mut content = content.lock();
    if let Some((status, message)) = &content.refusal {
        let body = json!({"code": status.as_u16(), "message": message});
        return (*status, Json(body));
    }
    content.made += 1;
    let id = format!("i{}", content.made);
    let created = rendered(&id, &body["metadata"]);
    let sandbox = (team(&headers), body["metadata"].clone());
    content.sandboxes.insert(id, sandbox);
    (StatusCode::CREATED, Json(created))
}

async fn list(
    State(content): Shared,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Json<Value> {
    let team = team(&headers);
    let query = query.unwrap_or_default();
    let content = content.lock();
    let own = content.sandboxes.iter().filter(|(_, (owner, metadata))| {
        let kernel = metadata["skep.jupyter.kernel"].as_str().unwrap_or_default();
        // IDs are the only thing that is asked for; their dashes are encoded, twice.
        let is_asked = kernel.split('-').all(|part| query.contains(part));
        *owner == team && (!query.contains("metadata=") || is_asked)
    });
    Json(
        own.map(|(id, (_, metadata))| rendered(id, metadata))
            .collect(),
    )
}

async fn info(State(content): Shared, headers: HeaderMap, Path(id): Path<String>) -> Answer {
    match content.lock().sandboxes.get(&id) {
        Some((owner, metadata)) if *owner == team(&headers) => {
            (StatusCode::OK, Json(rendered(&id, metadata)))
        }
        Some(_) | None => not_found(),
    }
}

async fn kill(State(content): Shared, Path(id): Path<String>) -> Answer {
    match content.lock().sandboxes.remove(&id) {
        Some(_) => (StatusCode::NO_CONTENT, Json(Value::Null)),
        None => not_found(),
    }
}

async fn prolong(State(content): Shared, Path(id): Path<String>) -> StatusCode {
    if content.lock().sandboxes.contains_key(&id) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::NOT_FOUND
    }
}

fn template(name: &str) -> Value {
    json!({
        "templateID": name, "buildID": "b", "cpuCount": 1, "memoryMB": 1, "diskSizeMB": 1, "public": true,
        "aliases": [name], "names": [name], "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z",
        "createdBy": null, "lastSpawnedAt": null, "spawnCount": 0, "buildCount": 1, "envdVersion": "0.5.0",
        "buildStatus": "ready",
    })
}

async fn templates() -> Json<Value> {
    Json(
        ["base", "code-interpreter-slim", "mine"]
            .map(template)
            .into(),
    )
}

async fn version(Path(name): Path<String>) -> Answer {
    let (names, below) = match name.as_str() {
        "base" => (vec!["base"], None),
        "mine" => (vec!["team/mine"], Some("code-interpreter-v1")),
        // The small one stands in for the large one.
        "code-interpreter-v1" | "code-interpreter-slim" => (vec!["code-interpreter-slim"], None),
        _ => return not_found(),
    };
    let body = json!({
        "templateID": name, "names": names, "public": true, "buildID": "b", "status": "ready", "tags": [],
        "cpuCount": 1, "memoryMB": 1, "diskSizeMB": 1, "createdAt": "2026-01-01T00:00:00Z",
        "updatedAt": "2026-01-01T00:00:00Z", "steps": [], "envVars": {}, "layers": [], "fromTemplate": below,
    });
    (StatusCode::OK, Json(body))
}

async fn contexts() -> Json<Value> {
    Json(json!([{"id": "c1", "language": "python", "cwd": "/home/user"}]))
}

async fn create_context(Json(body): Json<Value>) -> Json<Value> {
    Json(json!({"id": "c2", "language": body["language"], "cwd": "/home/user"}))
}
