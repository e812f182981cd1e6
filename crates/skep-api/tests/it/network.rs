//! Rules for what leaves a sandbox.

use jiff::Timestamp;
use serde_json::json;
use skep_types::{Capabilities, Egress, EgressRules, LoggedRequest};

use crate::server::Server;

fn rules(allowed: &[&str], denied: &[&str]) -> Egress {
    let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    Egress::new(EgressRules {
        allowed: owned(allowed),
        denied: owned(denied),
        ..EgressRules::default()
    })
    .unwrap()
}

async fn shown(server: &Server, id: &str) -> serde_json::Value {
    server.send(&format!("GET /sandboxes/{id}")).await.json()
}

#[tokio::test]
async fn rules_reach_the_machine_and_are_shown_without_null() {
    let server = Server::new().await;
    for network in [
        "{}",
        r#"{"allowOut":[],"denyOut":null,"rules":{},"egressProxy":null,"httpsPorts":null}"#,
    ] {
        let body = format!(r#"{{"templateID":"base","network":{network}}}"#);
        let id = server.create(&body).await;
        assert_eq!(server.nodes.spec(&id).unwrap().egress, Egress::default());
        assert!(shown(&server, id.as_str()).await.get("network").is_none());
    }
    let body = r#"{"templateID":"base","network":{"allowOut":["192.0.2.7"],"denyOut":["0.0.0.0/0"],"dnsServers":[]}}"#;
    let id = server.create(body).await;
    let network = &shown(&server, id.as_str()).await["network"];
    let text = r#"{"allowOut":["192.0.2.7"],"denyOut":["0.0.0.0/0"],"dnsServers":[]}"#;
    assert_eq!(network.to_string(), text);
}

#[tokio::test]
async fn an_update_replaces_everything_and_is_what_is_shown() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let id = server
        .create(r#"{"templateID":"base","allow_internet_access":false}"#)
        .await;
    for (body, egress) in [
        (r#"{"denyOut":["192.0.2.7"]}"#, rules(&[], &["192.0.2.7"])),
        (
            r#"{"allowOut":["192.0.2.7"],"allowPublicTraffic":false}"#,
            rules(&["192.0.2.7"], &[]),
        ),
        (
            r#"{"allow_internet_access":null,"rules":{}}"#,
            Egress::default(),
        ),
        (r#"{"allow_internet_access":false}"#, Egress::closed()),
        ("{}", Egress::default()),
    ] {
        server
            .check(&format!("PUT /sandboxes/{id}/network {body}"), "204")
            .await;
        assert_eq!(server.nodes.spec(&id).unwrap().egress, egress, "{body}");
        let shown = shown(&server, id.as_str()).await;
        let internet = shown.get("allowInternetAccess");
        assert_eq!(
            internet.and_then(serde_json::Value::as_bool),
            egress.internet()
        );
    }
}

#[tokio::test]
async fn requests_are_told_from_a_number_on_and_without_null() {
    let server = Server::new().await;
    let body = r#"{"templateID":"base","network":{"allowOut":["A.test"],"denyOut":["0.0.0.0/0"]}}"#;
    let id = server.create(body).await;
    let egress = rules(&["a.test"], &["0.0.0.0/0"]);
    assert_eq!(server.nodes.spec(&id).unwrap().egress, egress);
    for number in [1, 2] {
        let request = LoggedRequest {
            number,
            at: Timestamp::UNIX_EPOCH,
            host: Some("a.test".into()),
            port: 443,
            method: None,
            path: None,
            status: None,
            sent: 3,
            received: 4,
            rule: Some("a.test".into()),
            refusal: None,
        };
        server.nodes.request(&id, request);
    }
    let second = json!([{
        "number": 2, "timestamp": "1970-01-01T00:00:00Z", "host": "a.test", "port": 443,
        "sentBytes": 3, "receivedBytes": 4, "rule": "a.test",
    }]);
    let line = format!("GET /skep/sandboxes/{id}/requests?after=1");
    assert_eq!(server.send(&line).await.json(), second);
    let all = server
        .send(&format!("GET /skep/sandboxes/{id}/requests"))
        .await;
    assert_eq!(all.json().as_array().unwrap().len(), 2);
    server
        .check("GET /skep/sandboxes/inotthere/requests", "200 []")
        .await;
}

#[tokio::test]
async fn rules_that_are_none_are_refused_before_anybody_looks_for_the_sandbox() {
    let server = Server::new().await;
    for (body, status, message) in [
        (r#"{"denyOut":["x y"]}"#, 400, "invalid denied CIDR x y"),
        (
            r#"{"allowOut":["0.0.0.0"]}"#,
            400,
            "invalid allowed address 0.0.0.0",
        ),
        (
            r#"{"egressProxy":{"address":"x:1"}}"#,
            403,
            "Egress proxy (network.egressProxy) is not enabled for this team.",
        ),
    ] {
        let line = format!("PUT /sandboxes/inotthere/network {body}");
        let answer = server.send(&line).await;
        let found = answer.json();
        assert_eq!(
            (answer.status, found["message"].as_str()),
            (status, Some(message))
        );
    }
    let junk = server
        .send(r#"PUT /sandboxes/inotthere/network {"denyOut":[7]}"#)
        .await;
    assert_eq!(junk.status, 400);
    let missing = server.send("PUT /sandboxes/inotthere/network {}").await;
    assert_eq!(missing.status, 404);
}
