//! Events of sandboxes.

use http_body_util::BodyExt as _;
use skep_types::{Capabilities, EndReason};

use crate::server::Server;

async fn kinds(server: &Server, line: &str) -> Vec<String> {
    let answer = server.send(line).await;
    assert_eq!(answer.status, 200, "{line}: {}", answer.body);
    let events = answer.json();
    let label = |event: &serde_json::Value| event["eventLabel"].as_str().unwrap().to_owned();
    events.as_array().unwrap().iter().map(label).collect()
}

#[tokio::test]
async fn the_life_of_a_sandbox_is_told_in_the_words_of_the_contract() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let id = server
        .create(r#"{"templateID":"base","metadata":{"user":"ada"}}"#)
        .await;
    for line in [
        format!(r#"POST /sandboxes/{id}/timeout {{"timeout":77}}"#),
        format!("POST /sandboxes/{id}/snapshots {{}}"),
        format!("POST /sandboxes/{id}/pause {{}}"),
        format!(r#"POST /v2/sandboxes/{id}/connect {{"timeout":60}}"#),
        format!("DELETE /sandboxes/{id}"),
    ] {
        let answer = server.send(&line).await;
        assert!(answer.status < 300, "{line}: {}", answer.body);
    }
    let all = format!("GET /events/sandboxes/{id}?orderAsc=true&limit=100");
    let told = [
        "created",
        "updated",
        "checkpointed",
        "paused",
        "resumed",
        "killed",
    ];
    assert_eq!(kinds(&server, &all).await, told);
    let only = "GET /events/sandboxes?types=sandbox.lifecycle.killed&types=paused";
    assert_eq!(kinds(&server, only).await, ["killed", "paused"]);
    let page = "GET /events/sandboxes?limit=2&offset=1";
    assert_eq!(kinds(&server, page).await, ["resumed", "paused"]);

    let killed = server
        .send("GET /events/sandboxes?types=killed")
        .await
        .json()[0]
        .clone();
    assert_eq!(killed["version"], "v2");
    assert_eq!(killed["type"], "sandbox.lifecycle.killed");
    assert_eq!(killed["sandboxId"], id.as_str());
    assert_eq!(killed["eventData"]["kill_reason"], "request");
    assert_eq!(killed["eventData"]["sandbox_metadata"]["user"], "ada");
    assert!(killed["eventData"]["execution"]["execution_time"].is_u64());

    let second = server.create(r#"{"templateID":"base"}"#).await;
    assert!(server.nodes.end(&second, EndReason::OutOfMemory).await);
    let ended = server
        .send("GET /events/sandboxes?types=killed&limit=1")
        .await
        .json();
    assert_eq!(ended[0]["eventData"]["end_reason"], "out_of_memory");
    assert_eq!(ended[0]["eventData"]["kill_reason"], "unknown");
}

#[tokio::test]
async fn an_update_says_what_it_has_changed() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let rules = r#"{"allowOut":["1.1.1.1","*.a.test"],"denyOut":["0.0.0.0/0"]}"#;
    for line in [
        format!(r#"POST /sandboxes/{id}/timeout {{"timeout":77}}"#),
        format!("PUT /sandboxes/{id}/network {rules}"),
        format!(r#"PUT /sandboxes/{id}/network {{"allow_internet_access":false}}"#),
    ] {
        let answer = server.send(&line).await;
        assert!(answer.status < 300, "{line}: {}", answer.body);
    }
    let line = format!("GET /events/sandboxes/{id}?orderAsc=true&types=updated");
    let told = server.send(&line).await.json();
    let data = |number: usize| told[number]["eventData"].clone();
    let detail = server.send(&format!("GET /sandboxes/{id}")).await.json();
    let until: jiff::Timestamp = data(0)["set_timeout"].as_str().unwrap().parse().unwrap();
    let shown: jiff::Timestamp = detail["endAt"].as_str().unwrap().parse().unwrap();
    assert_eq!(until.as_second(), shown.as_second());
    assert_eq!(
        data(1)["network_egress"],
        serde_json::json!({
            "allowed_cidrs": ["1.1.1.1"],
            "denied_cidrs": ["0.0.0.0/0"],
            "allowed_domains": ["*.a.test"],
        })
    );
    assert_eq!(data(1).get("set_timeout"), None);
    assert_eq!(data(2)["network_egress"]["denied_cidrs"][0], "0.0.0.0/0");
}

#[tokio::test]
async fn nobody_is_told_of_sandboxes_of_others() {
    let server = Server::new().await;
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let (_, key) = server.second_team().await;
    let headers = [("X-API-Key", key.as_str())];
    let answer = server.send_with(&headers, "GET /events/sandboxes").await;
    assert_eq!(answer.text(), "200 []");
    let line = format!("GET /events/sandboxes/{id}");
    let answer = server.send_with(&headers, &line).await;
    let refused =
        r#"404 {"code":404,"error_code":"events_not_found","message":"Sandbox events not found"}"#;
    assert_eq!(answer.text(), refused);
    for line in [
        "GET /events/sandboxes?limit=101",
        "GET /events/sandboxes?types=nonsense",
    ] {
        assert_eq!(server.send(line).await.status, 400, "{line}");
    }
}

#[tokio::test]
async fn who_follows_is_told_at_once_and_nothing_twice() {
    let server = Server::new().await;
    let before = server.create(r#"{"templateID":"base"}"#).await;
    let mut feed = server.stream("GET /skep/events?types=created").await;
    let after = server.create(r#"{"templateID":"base"}"#).await;
    let told = feed.frame().await.unwrap().unwrap().into_data().unwrap();
    let told = String::from_utf8(told.to_vec()).unwrap();
    assert!(told.contains("event: sandbox.lifecycle.created"), "{told}");
    assert!(
        told.contains(after.as_str()) && !told.contains(before.as_str()),
        "{told}"
    );
}
