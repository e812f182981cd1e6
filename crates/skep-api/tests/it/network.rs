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
            r#"{"egressProxy":{"address":"10.0.0.1:1080"}}"#,
            400,
            "Invalid egress proxy config: address must not be private or reserved",
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

const RULES: &str = r#"{"API.Test":[{"transform":{"headers":{"Authorization":"Bearer ${e2b.secrets.key}"}},"requests":[{"methods":["GET"],"paths":["/v1/*"]}],"limits":{"requestsPerMinute":60}}],"*.b.test":[],"c.test":[{}]}"#;
const SHOWN: &str = r#"{"*.b.test":[],"api.test":[{"transform":{"headers":{"Authorization":"Bearer ${e2b.secrets.key}"}},"requests":[{"methods":["GET"],"paths":["/v1/*"]}],"limits":{"requestsPerMinute":60}}],"c.test":[{}]}"#;

fn sorted(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn rules_for_requests_are_shown_with_placeholders_and_domains_in_lower_case() {
    let server = Server::new().await;
    server.nodes.set_capabilities(Capabilities::all());
    let body = format!(r#"{{"templateID":"base","network":{{"rules":{RULES}}}}}"#);
    let id = server.create(&body).await;
    let network = &shown(&server, id.as_str()).await["network"];
    assert_eq!(network["rules"], sorted(SHOWN));
    let spec = server.nodes.spec(&id).unwrap();
    let host = "api.test".parse().unwrap();
    let (_, rule) = spec.egress.request_rules().find(&host).unwrap();
    assert!(rule.allows("GET", "/v1/models") && !rule.allows("POST", "/v1/models"));
    // An update without them takes them away, one with them puts them there.
    for (body, shown_rules) in [
        ("{}".to_owned(), None),
        (format!(r#"{{"rules":{RULES}}}"#), Some(sorted(SHOWN))),
        (
            r#"{"rules":{"a.test":null}}"#.to_owned(),
            Some(json!({"a.test": []})),
        ),
        (r#"{"rules":null}"#.to_owned(), None),
    ] {
        let line = format!("PUT /sandboxes/{id}/network {body}");
        server.check(&line, "204").await;
        let detail = shown(&server, id.as_str()).await;
        let rules = detail
            .get("network")
            .and_then(|network| network.get("rules"));
        assert_eq!(rules.cloned(), shown_rules, "{body}");
    }
}

#[tokio::test]
async fn rules_that_do_nothing_are_taken_and_shown_without_null() {
    let server = Server::new().await;
    for (rules, shown_rules) in [
        (r#"{"h":[]}"#, json!({"h": []})),
        (r#"{"h":[{}]}"#, json!({"h": [{}]})),
        (r#"{"h":[{"transform":{}}]}"#, json!({"h": [{}]})),
        (r#"{"h":[{"transform":null}]}"#, json!({"h": [{}]})),
        (
            r#"{"h":[{"transform":{"headers":null}}]}"#,
            json!({"h": [{}]}),
        ),
        (
            r#"{"h":[{"transform":{"headers":{}},"requests":null,"limits":{}}]}"#,
            json!({"h": [{}]}),
        ),
    ] {
        let body = format!(r#"{{"templateID":"base","network":{{"rules":{rules}}}}}"#);
        let id = server.create(&body).await;
        let network = &shown(&server, id.as_str()).await["network"];
        assert_eq!(network["rules"], shown_rules, "{rules}");
    }
}

#[tokio::test]
async fn rules_for_requests_that_are_none_are_refused_and_junk_is_the_callers_error() {
    let server = Server::new().await;
    for (rules, said) in [
        (r#"{"":[]}"#, "Rule domain must not be empty."),
        (
            r#"{"*":[]}"#,
            "Rule domain \"*\" is not a valid domain name.",
        ),
        (
            r#"{"a":[{},{}]}"#,
            "Domain \"a\" can have at most 1 transform rule.",
        ),
        (
            r#"{"a":[{"transform":{"headers":{"x":"${e2b.secrets.}"}}}]}"#,
            "Network transform header contains a malformed E2B placeholder.",
        ),
        (
            r#"{"A":[],"a":[]}"#,
            "Network rule domain keys must be unique ignoring case.",
        ),
    ] {
        let body = format!(r#"{{"templateID":"base","network":{{"rules":{rules}}}}}"#);
        let answer = server.send(&format!("POST /sandboxes {body}")).await;
        assert_eq!(answer.status, 400, "{rules}");
        assert_eq!(answer.json()["message"], said);
    }
    for junk in [
        "7",
        "[]",
        r#""x""#,
        r#"{"a":7}"#,
        r#"{"a":{}}"#,
        r#"{"a":[null]}"#,
        r#"{"a":["x"]}"#,
        r#"{"a":[{"transform":true}]}"#,
        r#"{"a":[{"transform":{"headers":[]}}]}"#,
        r#"{"a":[{"transform":{"headers":{"x":7}}}]}"#,
        r#"{"a":[{"transform":{"headers":{"x":null}}}]}"#,
        r#"{"a":[{"transfrom":{}}]}"#,
        r#"{"a":[{"limits":{"bytes":1.5}}]}"#,
        r#"{"a":[{"limits":{"bytes":0}}]}"#,
        r#"{"a":[{"limits":{"bytes":99999999999999999999}}]}"#,
        r#"{"a":[{"requests":[]}]}"#,
        r#"{"a":[{"requests":[{"methods":["get"]}]}]}"#,
        r#"{"a":[{"requests":[{"paths":["v1"]}]}]}"#,
    ] {
        let body = format!(r#"{{"templateID":"base","network":{{"rules":{junk}}}}}"#);
        let answer = server.send(&format!("POST /sandboxes {body}")).await;
        assert_eq!(answer.status, 400, "{junk}");
    }
}

#[tokio::test]
async fn a_sandbox_is_looked_for_before_its_rules_for_requests_and_after_the_others() {
    let server = Server::new().await;
    let bad = r#""rules":{"*":[]}"#;
    for (body, status) in [
        (format!(r#"{{"denyOut":["x y"],{bad}}}"#), 400),
        (format!(r#"{{"egressProxy":{{"address":"x"}},{bad}}}"#), 400),
        (format!("{{{bad}}}"), 404),
    ] {
        let line = format!("PUT /sandboxes/inotthere/network {body}");
        assert_eq!(server.send(&line).await.status, status, "{body}");
    }
    let id = server.create(r#"{"templateID":"base"}"#).await;
    let line = format!("PUT /sandboxes/{id}/network {{{bad}}}");
    assert_eq!(server.send(&line).await.status, 400);
}
