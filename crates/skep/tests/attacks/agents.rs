//! Agents that come by the Model Context Protocol, and reach for what is another team's, another
//! session's or the host's. Each attempt has a control beside it that succeeds.
//!
//! The gateway in a sandbox, with tokens of its own, is attacked by `conformance/mcp/test_gateway.py`.

use std::path::Path;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::product::Product;

const SESSION: &str = "mcp-session-id";
/// Name of the victim's sandbox.
const NAME: &str = "shared";

/// A session with `/mcp` of the server.
struct Agent {
    http: reqwest::Client,
    url: String,
    key: String,
    session: String,
}

impl Agent {
    async fn begin(product: &Product, key: &str) -> Self {
        let mut agent = Self {
            http: skep_http::http_client().build().unwrap(),
            url: format!("http://{}/mcp", product.address),
            key: key.to_owned(),
            session: String::new(),
        };
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "attack", "version": "1"}});
        let begun = agent
            .send(Method::POST, None, message("initialize", &params))
            .await;
        let session = begun.headers()[SESSION].to_str().unwrap();
        agent.session = session.to_owned();
        agent
    }

    /// Sends a body, with the id of a session.
    async fn send(&self, method: Method, session: Option<&str>, body: String) -> reqwest::Response {
        let request = self
            .http
            .request(method, &self.url)
            .bearer_auth(&self.key)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        let request = match session {
            Some(session) => request.header(SESSION, session),
            None => request,
        };
        request.body(body).send().await.unwrap()
    }

    /// The answer to a request: a result, or an error.
    async fn ask(&self, method: &str, params: &Value) -> Value {
        let body = message(method, params);
        let answer = self.send(Method::POST, Some(&self.session), body).await;
        assert_eq!(answer.status(), StatusCode::OK, "{method}");
        let text = answer.text().await.unwrap();
        // An answer is one event of a stream, or the whole body.
        let data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let parsed = data.chain([text.as_str()]).map(serde_json::from_str);
        let answer = parsed.flatten().find(|found: &Value| found["id"] == 1);
        answer.unwrap_or_else(|| panic!("{method} was answered with {text}"))
    }

    /// Calls a tool; the text of its answer, or of its failure.
    async fn call(&self, tool: &str, arguments: &Value) -> Result<String, String> {
        let params = json!({"name": tool, "arguments": arguments});
        let answer = self.ask("tools/call", &params).await;
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        match text {
            Some(text) if result["isError"] != true => Ok(text.to_owned()),
            Some(_) | None => Err(answer.to_string()),
        }
    }

    /// Reads a resource.
    async fn read(&self, uri: &str) -> Result<String, String> {
        let answer = self.ask("resources/read", &json!({"uri": uri})).await;
        let text = answer["result"]["contents"][0]["text"].as_str();
        text.map(str::to_owned).ok_or_else(|| answer.to_string())
    }
}

fn message(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

pub(crate) async fn check(product: &Product) -> Result<String, String> {
    let victim = Agent::begin(product, product.api_key()).await;
    let stranger = Agent::begin(product, &product.add_team_key("agents")).await;
    let start = json!({"name": NAME, "template": "base"});
    victim.call("start_sandbox", &start).await?;
    let note = json!({"path": "note", "content": "secret", "sandbox": NAME});
    victim.call("write_file", &note).await?;
    let sandboxes = product.client.sandboxes().list().await.unwrap();
    let named = |value: &serde_json::Map<String, Value>| value.values().any(|name| name == NAME);
    let id = sandboxes
        .iter()
        .find(|sandbox| {
            let metadata = serde_json::to_value(&sandbox.metadata).unwrap();
            metadata.as_object().is_some_and(named)
        })
        .expect("it was started")
        .sandbox_id
        .clone();

    sessions(&victim, &stranger).await?;
    names(&victim, &stranger, &id).await?;
    paths(&victim, &product.data(), &id).await?;

    victim
        .call("stop_sandbox", &json!({"sandbox": NAME}))
        .await?;
    for agent in [&victim, &stranger] {
        let ended = agent.send(Method::DELETE, Some(&agent.session), String::new());
        assert!(ended.await.status().is_success());
    }
    Ok("sessions, names, ids, resources and paths".to_owned())
}

/// The session of another key, for every method there is.
async fn sessions(victim: &Agent, stranger: &Agent) -> Result<(), String> {
    let list = message("tools/list", &json!({}));
    for method in [Method::POST, Method::GET, Method::DELETE] {
        let session = Some(victim.session.as_str());
        let taken = stranger.send(method.clone(), session, list.clone()).await;
        if taken.status() != StatusCode::NOT_FOUND {
            return Err(format!(
                "{method} with the session of another: {}",
                taken.status()
            ));
        }
    }
    // The control: it is there still, for whoever began it.
    let listed = victim.ask("tools/list", &json!({})).await;
    match listed["result"]["tools"].as_array() {
        Some(tools) if !tools.is_empty() => Ok(()),
        Some(_) | None => Err(format!("its own session: {listed}")),
    }
}

/// Sandboxes of another team, by every argument that names one.
async fn names(victim: &Agent, stranger: &Agent, id: &str) -> Result<(), String> {
    let calls = [
        ("run_command", json!({"command": "cat note"})),
        ("run_code", json!({"code": "1", "language": "bash"})),
        ("read_file", json!({"path": "note"})),
        ("write_file", json!({"path": "note", "content": "changed"})),
        ("list_files", json!({})),
        ("install_packages", json!({"packages": ["six"]})),
        ("expose_port", json!({"port": 8000})),
        ("stop_sandbox", json!({})),
    ];
    let spellings = [
        NAME.to_owned(),
        id.to_owned(),
        format!("../{id}"),
        format!("{id}/files?path=note&"),
        format!("{NAME}&team=1"),
    ];
    for (tool, arguments) in &calls {
        for sandbox in &spellings {
            let mut arguments = arguments.clone();
            arguments["sandbox"] = json!(sandbox);
            if let Ok(text) = stranger.call(tool, &arguments).await {
                return Err(format!("{tool} with {arguments} of another team: {text}"));
            }
        }
    }
    for sandbox in &spellings {
        let uri = format!("skep://{sandbox}/files/home/user/note");
        if let Ok(text) = stranger.read(&uri).await {
            return Err(format!("`{uri}` of another team: {text}"));
        }
    }
    let listed = stranger.call("list_sandboxes", &json!({})).await?;
    if listed.contains(id) {
        return Err(format!("another team's is listed: {listed}"));
    }
    // The controls: its owner reaches it in the same ways, and nothing has changed.
    let read = json!({"path": "note", "sandbox": id});
    let text = victim.call("read_file", &read).await?;
    let uri = format!("skep://{NAME}/files/home/user/note");
    let resource = victim.read(&uri).await?;
    match (text.as_str(), resource.as_str()) {
        ("secret", "secret") => Ok(()),
        found => Err(format!("what its owner finds: {found:?}")),
    }
}

/// Paths that lead out of a sandbox: to the host's files, and to the agent's own.
async fn paths(victim: &Agent, data: &Path, id: &str) -> Result<(), String> {
    // The control: on the host it is read.
    let number = std::fs::read_to_string(data.join("instance")).unwrap();
    let host = data.join("instance").display().to_string();
    let plant = "ln -s /proc/1/root outside; ln -s /proc/self/environ mine; ln -s /proc/self/fd descriptors";
    let plant = json!({"command": plant, "sandbox": NAME});
    victim.call("run_command", &plant).await?;
    let mut reads = vec![
        host.clone(),
        format!("../../../../../..{host}"),
        format!("outside{host}"),
    ];
    reads.extend(["mine", "/proc/self/exe", "/proc/1/environ", "descriptors/3"].map(str::to_owned));
    for path in reads {
        let arguments = json!({"path": path, "sandbox": NAME});
        if let Ok(text) = victim.call("read_file", &arguments).await {
            return Err(format!("`{path}` was read: {text}"));
        }
        let uri = format!("skep://{id}/files/{}", path.trim_start_matches('/'));
        if let Ok(text) = victim.read(&uri).await {
            return Err(format!("`{uri}` was read: {text}"));
        }
    }
    for uri in [format!("file://{host}"), format!("skep://{id}/..{host}")] {
        if let Ok(text) = victim.read(&uri).await {
            return Err(format!("`{uri}` was read: {text}"));
        }
    }
    // What is written there is written in the sandbox, if at all.
    for path in [format!("../../../../../..{host}"), host.clone()] {
        let arguments = json!({"path": path, "content": "planted", "sandbox": NAME});
        let _allowed_or_not = victim.call("write_file", &arguments).await;
    }
    let kept = std::fs::read_to_string(data.join("instance")).unwrap();
    if kept != number {
        return Err(format!("a file of the host was written: {kept}"));
    }
    Ok(())
}
