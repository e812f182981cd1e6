//! Comparison of `docs/reference/openapi.json` with the server.
//!
//! Every answer that any test of this program gets is compared with the file (`check`). The tests
//! here see to it that each operation and each field in the file occurs. That the file has all
//! routes, and no other, is a rule of `cargo xtask tidy`.

mod schema;
mod templates;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use skep_control::{AttemptRecord, DeliveryVerdict};
use skep_types::{AttemptFailure, Capabilities, LogEntry, LogLevel, LoggedRequest, Obstacle};
use skep_wire::rest;

use crate::server::{Answer, Server};
use schema::Comparison;

static FILE: LazyLock<Value> = LazyLock::new(|| {
    let text = include_str!("../../../../docs/reference/openapi.json");
    serde_json::from_str(text).unwrap()
});

/// An operation of the file.
#[derive(Clone, Copy)]
struct Operation {
    path: &'static str,
    method: &'static str,
    value: &'static Value,
}

/// Compares an answer with what the file says of its operation, if the file has it.
pub(crate) fn check(method: &str, path: &str, answer: &Answer) {
    if let Some(operation) = find(method, path) {
        let mut comparison = Comparison::with(&FILE);
        compare(operation, answer, &mut comparison);
    }
}

fn compare(operation: Operation, answer: &Answer, comparison: &mut Comparison<'_>) {
    let Operation { path, method, .. } = operation;
    let place = format!("{method} {path} {}", answer.status);
    let answers = &operation.value["responses"];
    let general = &FILE["components"]["responses"]["Error"];
    let listed = answers.get(answer.status.to_string());
    let described = listed.unwrap_or(general);
    match described.get("content") {
        None => assert_eq!(answer.body, "", "{place}"),
        Some(content) => {
            let media_type = answer
                .header("content-type")
                .unwrap_or_default()
                .split(';')
                .next()
                .unwrap_or_default();
            let content = content
                .get(media_type)
                .unwrap_or_else(|| panic!("{place}: `{media_type}`"));
            if media_type == "application/json" {
                comparison.compare(&answer.json(), &content["schema"], &place);
            }
        }
    }
    assert_eq!(comparison.wrong, [""; 0], "{place}: {}", answer.body);
    if answer.status >= 400 {
        // The code of a failure with files of volumes is a word itself.
        let body = answer.json();
        let code = body["error_code"]
            .as_str()
            .or(body["code"].as_str())
            .unwrap()
            .to_owned();
        let names_it = |described: &Value| {
            let text = described["description"].as_str().unwrap();
            text.contains(&format!("`{code}`"))
        };
        assert!(
            listed.is_some_and(names_it) || names_it(general),
            "{place}: the file does not name `{code}`"
        );
    } else {
        assert!(listed.is_some(), "{place}: the file has no such success");
    }
}

fn operations() -> impl Iterator<Item = Operation> {
    FILE["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, item)| {
            let operations = item
                .as_object()
                .unwrap()
                .iter()
                .filter(|(key, _)| *key != "parameters");
            operations.map(move |(method, value)| Operation {
                path,
                method,
                value,
            })
        })
}

/// The operation of a request. Words go before parameters, as in the router.
fn find(method: &str, path: &str) -> Option<Operation> {
    let parameters = |operation: &Operation| operation.path.matches('{').count();
    operations()
        .filter(|operation| operation.method.eq_ignore_ascii_case(method))
        .filter(|operation| matches(operation.path, path))
        .min_by_key(parameters)
}

fn matches(template: &str, path: &str) -> bool {
    let (template, path) = (template.split('/'), path.split('/'));
    template.clone().count() == path.clone().count()
        && template
            .zip(path)
            .all(|(wanted, part)| wanted == part || wanted.starts_with('{') && !part.is_empty())
}

/// Sends lines and keeps what was seen.
struct Walk<'a> {
    server: &'a Server,
    comparison: Comparison<'static>,
    /// Statuses by operation.
    statuses: BTreeMap<String, BTreeSet<u16>>,
}

impl Walk<'_> {
    async fn send(&mut self, line: &str) -> Answer {
        let key = self.server.key.clone();
        self.send_with(&[("X-API-KEY", &key)], line).await
    }

    async fn send_with(&mut self, headers: &[(&str, &str)], line: &str) -> Answer {
        let answer = self.server.send_with(headers, line).await;
        let mut words = line.split(' ');
        let method = words.next().unwrap();
        let path = words.next().unwrap().split('?').next().unwrap();
        let operation = find(method, path).unwrap();
        compare(operation, &answer, &mut self.comparison);
        let name = format!("{} {}", operation.method, operation.path);
        self.statuses.entry(name).or_default().insert(answer.status);
        answer
    }

    /// Everything that a sandbox can be asked.
    async fn sandboxes(&mut self) {
        let brief = r#"POST /sandboxes {"templateID":"base"}"#;
        let ended = self.send(brief).await.json();
        let ended = ended["sandboxID"].as_str().unwrap().to_owned();
        let id = self
            .server
            .create(r#"{"templateID":"base","allow_internet_access":true,"metadata":{"k":"v"},"network":{"httpsPorts":[8443]}}"#)
            .await;
        self.send(r#"POST /v2/sandboxes {"templateID":"base"}"#)
            .await;
        let entry = LogEntry {
            at: Timestamp::now(),
            level: LogLevel::Info,
            message: "ready".to_owned(),
            fields: BTreeMap::from([("pid".to_owned(), "1".to_owned())]),
        };
        self.server.nodes.log(&id, entry);
        let text = |text: &str| Some(text.to_owned());
        let request = LoggedRequest {
            number: 1,
            at: Timestamp::now(),
            host: text("a.test"),
            port: 80,
            method: text("GET"),
            path: text("/"),
            status: Some(502),
            sent: 1,
            received: 2,
            rule: text("*.test"),
            refusal: text("the host does not answer"),
        };
        self.server.nodes.request(&id, request);
        self.send(&format!("GET /skep/sandboxes/{id}/requests"))
            .await;
        self.server.nodes.set_capabilities(Capabilities::all());
        self.server.nodes.silence_agents(true);
        self.send(&format!("POST /sandboxes/{id}/pause")).await;
        self.server.nodes.set_obstacle(&id, Obstacle::Debugger);
        for line in [
            "GET /v2/sandboxes".to_owned(),
            format!("GET /sandboxes/{id}"),
            format!(r#"POST /sandboxes/{id}/resume {{"memory":false}}"#),
        ] {
            self.send(&line).await;
        }
        self.server.nodes.silence_agents(false);
        for line in [
            format!(r#"PUT /sandboxes/{id}/network {{"denyOut":["192.0.2.7"]}}"#),
            format!("GET /sandboxes/{id}"),
            format!(r#"POST /sandboxes/{id}/snapshots {{"name":"mine"}}"#),
            format!("POST /sandboxes/{id}/snapshots {{}}"),
            "GET /snapshots".to_owned(),
            format!("GET /skep/sandboxes/{id}/checkpoints"),
            format!(r#"POST /skep/sandboxes/{id}/rollback {{"snapshotID":"mine"}}"#),
            format!("POST /sandboxes/{id}/fork {{}}"),
            "DELETE /templates/mine".to_owned(),
        ] {
            self.send(&line).await;
        }
        let few = self.server.nodes.clone();
        few.refuse_next(skep_control::NodeCreateError::Stopping);
        self.send(&format!("POST /sandboxes/{id}/fork {{}}")).await;
        // As a host without a freezer is.
        self.server.nodes.set_capabilities(Capabilities::default());
        for line in [
            "GET /sandboxes".to_owned(),
            "GET /v2/sandboxes".to_owned(),
            format!("GET /sandboxes/metrics?sandbox_ids={id}"),
            format!("GET /sandboxes/{id}"),
            format!("GET /sandboxes/{id}/metrics"),
            format!("GET /sandboxes/{id}/logs"),
            format!("GET /v2/sandboxes/{id}/logs"),
            format!(r#"POST /sandboxes/{id}/timeout {{"timeout":60}}"#),
            format!("POST /sandboxes/{id}/refreshes {{}}"),
            format!(r#"POST /sandboxes/{id}/connect {{"timeout":60}}"#),
            format!("POST /v2/sandboxes/{id}/connect {{}}"),
            format!("POST /sandboxes/{id}/resume"),
            format!("DELETE /sandboxes/{ended}"),
            format!("GET /events/sandboxes/{ended}"),
            "GET /skep/sandboxes?all=true".to_owned(),
        ] {
            self.send(&line).await;
        }
    }

    /// Everything that a webhook can be asked.
    async fn webhooks(&mut self) {
        let body = r#"{"name":"desk","url":"https://example.com/","events":["created"],"signatureSecret":"x"}"#;
        let made = self.send(&format!("POST /events/webhooks {body}")).await;
        let id = made.json()["id"].as_str().unwrap().to_owned();
        for _ in 0..2 {
            self.server.create(r#"{"templateID":"base"}"#).await;
        }
        let deliveries = format!("GET /events/webhooks/{id}/deliveries?limit=1");
        self.send(&deliveries).await;
        let control = &self.server.control;
        let due = control.due_deliveries(Timestamp::now(), 9, 9).await;
        let attempt = AttemptRecord {
            at: Timestamp::now(),
            duration: std::time::Duration::from_millis(7),
            answer: Some(500),
            failure: Some(AttemptFailure::Http),
        };
        for delivery in due.unwrap() {
            let noting =
                control.note_attempt(delivery.seq, attempt.clone(), DeliveryVerdict::GivenUp);
            noting.await.unwrap();
        }
        for line in [
            "GET /events/webhooks".to_owned(),
            format!("GET /events/webhooks/{id}"),
            format!(r#"PATCH /events/webhooks/{id} {{"enabled":false}}"#),
            deliveries,
            format!("GET /events/webhooks/{id}/stats"),
            "GET /skep/webhooks/dead-letters".to_owned(),
            format!("POST /skep/webhooks/{id}/redeliver"),
            format!("DELETE /events/webhooks/{id}"),
        ] {
            self.send(&line).await;
        }
    }

    /// Calls every operation that the other steps do not.
    async fn the_rest(&mut self) {
        drop(self.server.stream("GET /skep/events").await);
        self.statuses
            .entry("get /skep/events".to_owned())
            .or_default()
            .insert(200);
        let team = self.server.team.id.clone();
        let key = self.send(r#"POST /api-keys {"name":"desk"}"#).await.json();
        let id = key["id"].as_str().unwrap();
        self.send_with(&[], "GET /health").await;
        self.send_with(&[], "GET /.well-known/openid-configuration")
            .await;
        self.send_with(&[], "GET /.well-known/jwks.json").await;
        let issued = self.send("POST /skep/console/tickets").await.json();
        let ticket = issued["ticket"].as_str().unwrap();
        let opening = format!(r#"POST /skep/console/sessions {{"ticket":"{ticket}"}}"#);
        self.send_with(&[], &opening).await;
        let key = self.server.key.clone();
        let json = [("Accept", "application/json"), ("X-API-KEY", &key)];
        self.send_with(&json, "GET /health").await;
        for line in [
            "GET /skep/metrics".to_owned(),
            "GET /skep/doctor".to_owned(),
            "GET /teams".to_owned(),
            format!("GET /teams/{team}/metrics"),
            format!("GET /teams/{team}/metrics/max?metric=concurrent_sandboxes"),
            "GET /api-keys".to_owned(),
            r#"POST /secrets {"name":"desk","value":"x","metadata":{"k":"v"}}"#.to_owned(),
            "GET /secrets".to_owned(),
            "GET /events/sandboxes?limit=100".to_owned(),
            "GET /secrets/desk".to_owned(),
            r#"POST /secrets/desk {"value":"y"}"#.to_owned(),
            "DELETE /secrets/desk".to_owned(),
            format!(r#"PATCH /api-keys/{id} {{"name":"shelf"}}"#),
            format!("DELETE /api-keys/{id}"),
            "POST /access-tokens".to_owned(),
            "DELETE /access-tokens/x".to_owned(),
            "GET /templates".to_owned(),
            "POST /templates".to_owned(),
            "GET /v2/templates".to_owned(),
            "GET /templates/aliases/base".to_owned(),
        ] {
            self.send(&line).await;
        }
    }

    fn compare_request(&mut self, schema: &str, body: &impl Serialize) {
        let schema = json!({"$ref": format!("#/components/schemas/{schema}")});
        let body = serde_json::to_value(body).unwrap();
        self.comparison.compare(&body, &schema, "request");
        assert_eq!(self.comparison.wrong, [""; 0]);
    }

    /// Bodies with every field that we read. A field that is new is missing here, which the
    /// compiler says, and then in the file.
    fn requests(&mut self) {
        let texts = || Some(vec!["x".to_owned()]);
        let rules = || {
            let rule = rest::NetworkRule {
                transform: Some(rest::NetworkTransform {
                    headers: Some(BTreeMap::from([("k".to_owned(), "v".to_owned())])),
                }),
                requests: Some(vec![rest::NetworkRequests {
                    methods: texts(),
                    paths: texts(),
                }]),
                limits: Some(rest::NetworkLimits {
                    requests_per_minute: Some(1),
                    bytes: Some(1),
                    bytes_per_second: Some(1),
                }),
            };
            Some(BTreeMap::from([("x".to_owned(), Some(vec![rule]))]))
        };
        let egress_proxy = || {
            let text = || Some("x".to_owned());
            Some(rest::EgressProxy {
                address: text(),
                username: text(),
                password: text(),
                tls: Some(rest::EgressProxyTls {
                    enabled: Some(true),
                    server_name: text(),
                    ca_cert: text(),
                }),
            })
        };
        let new_sandbox = rest::NewSandbox {
            template_id: "base".to_owned(),
            timeout: Some(60),
            auto_pause: Some(true),
            auto_pause_memory: Some(true),
            auto_resume: Some(rest::AutoResume { enabled: true }),
            secure: Some(true),
            allow_internet_access: Some(true),
            network: Some(rest::Network {
                allow_public_traffic: Some(true),
                allow_out: texts(),
                deny_out: texts(),
                egress_proxy: egress_proxy(),
                mask_request_host: Some("x".to_owned()),
                rules: rules(),
                dns_servers: texts(),
                https_ports: Some(vec![443]),
            }),
            metadata: Some(BTreeMap::from([("k".to_owned(), "v".to_owned())])),
            env_vars: Some(BTreeMap::from([("K".to_owned(), "v".to_owned())])),
            skep: Some(rest::SandboxOptions {
                secrets: vec!["x".to_owned()],
                secret_envs: vec!["K".to_owned()],
            }),
            mcp: Some(json!({})),
            iam: Some(rest::IdentityRequest {
                tokens: Some(BTreeMap::from([(
                    "x".to_owned(),
                    rest::IdentityToken {
                        audience: Some("x".to_owned()),
                        token_type: Some("JWT-SVID".to_owned()),
                    },
                )])),
            }),
            volume_mounts: Some(vec![rest::VolumeMount {
                read_only: true,
                name: "x".to_owned(),
                path: "/x".to_owned(),
            }]),
        };
        self.compare_request("NewSandbox", &new_sandbox);
        let secret = rest::NewSecret {
            name: "x".to_owned(),
            value: "x".to_owned(),
            metadata: Some(BTreeMap::from([("k".to_owned(), "v".to_owned())])),
        };
        self.compare_request("NewSecret", &secret);
        let secret = rest::UpdateSecret {
            value: secret.value,
            metadata: secret.metadata,
        };
        self.compare_request("UpdateSecret", &secret);
        let text = || "x".to_owned();
        let webhook = rest::NewWebhook {
            name: text(),
            url: text(),
            events: vec![text()],
            signature_secret: text(),
            enabled: Some(true),
        };
        self.compare_request("NewWebhook", &webhook);
        let webhook = rest::UpdateWebhook {
            name: Some(text()),
            url: Some(text()),
            events: Some(vec![text()]),
            signature_secret: Some(text()),
            enabled: Some(true),
        };
        self.compare_request("UpdateWebhook", &webhook);
        let connect = rest::Connect {
            timeout: Some(60),
            memory: Some(true),
        };
        self.compare_request("Connect", &connect);
        let pause = rest::Pause {
            memory: Some(true),
            require_healthy_guest: Some(true),
        };
        self.compare_request("Pause", &pause);
        let resume = rest::Resume {
            timeout: Some(60),
            auto_pause: Some(true),
            memory: Some(true),
        };
        self.compare_request("Resume", &resume);
        let snapshot = rest::NewSnapshot {
            name: Some("mine".to_owned()),
            memory: Some(true),
        };
        self.compare_request("NewSnapshot", &snapshot);
        let fork = rest::Fork {
            timeout: Some(60),
            count: Some(2),
        };
        self.compare_request("Fork", &fork);
        let rollback = rest::Rollback {
            snapshot_id: "mine".to_owned(),
            timeout: Some(60),
        };
        self.compare_request("Rollback", &rollback);
        let update = rest::NetworkUpdate {
            allow_internet_access: Some(true),
            allow_out: texts(),
            deny_out: texts(),
            egress_proxy: egress_proxy(),
            rules: rules(),
            dns_servers: texts(),
        };
        self.compare_request("NetworkUpdate", &update);
        self.compare_request("SetTimeout", &rest::SetTimeout { timeout: 0 });
        let refresh = rest::Refresh { duration: Some(60) };
        self.compare_request("Refresh", &refresh);
        let name = "desk".to_owned();
        self.compare_request("ApiKeyName", &rest::ApiKeyName { name });
        let ticket = "A".repeat(43);
        self.compare_request("NewConsoleSession", &rest::NewConsoleSession { ticket });
    }
}

#[tokio::test]
async fn every_operation_and_every_field_of_the_file_exists() {
    let server = Server::new().await;
    let mut walk = Walk {
        server: &server,
        comparison: Comparison::with(&FILE),
        statuses: BTreeMap::new(),
    };
    walk.sandboxes().await;
    walk.templates().await;
    walk.volumes().await;
    walk.webhooks().await;
    walk.the_rest().await;
    walk.requests();
    for operation in operations() {
        let name = format!("{} {}", operation.method, operation.path);
        let statuses = walk
            .statuses
            .get(&name)
            .unwrap_or_else(|| panic!("{name} was not asked"));
        let listed: Vec<u16> = operation.value["responses"]
            .as_object()
            .unwrap()
            .keys()
            .filter_map(|status| status.parse().ok())
            .collect();
        let succeeds = |status: &u16| *status < 300;
        let expected: Vec<u16> = if listed.iter().any(succeeds) {
            listed.into_iter().filter(succeeds).collect()
        } else {
            listed
        };
        assert!(
            expected.iter().any(|status| statuses.contains(status)),
            "{name}: {statuses:?}"
        );
    }
    let schemas = FILE["components"]["schemas"].as_object().unwrap();
    let fields = schemas.iter().flat_map(|(name, schema)| {
        let fields = schema["properties"].as_object().unwrap().keys();
        fields.map(move |field| format!("{name}.{field}"))
    });
    let unseen: Vec<_> = fields
        .filter(|field| !walk.comparison.seen.contains(field))
        .collect();
    assert_eq!(unseen, [""; 0], "the file has fields that nobody sends");
}

/// A parameter that is not a text is read: nonsense in it is refused.
#[tokio::test]
async fn every_parameter_of_the_file_is_read() {
    let server = Server::new().await;
    let sandbox = server.create(r#"{"templateID":"base"}"#).await;
    let volume = server.send(r#"POST /volumes {"name":"v"}"#).await.json();
    let bearer = format!("Bearer {}", volume["token"].as_str().unwrap());
    let mut tried = 0;
    for operation in operations() {
        let parameters = operation.value["parameters"].as_array();
        for parameter in parameters.into_iter().flatten() {
            let schema = &parameter["schema"];
            let is_free = schema["type"] == "string"
                && schema.get("enum").is_none()
                && schema.get("format").is_none();
            if parameter["in"] != "query" || is_free {
                continue;
            }
            let id = if operation.path.starts_with("/teams") {
                server.team.id.as_str()
            } else {
                sandbox.as_str()
            };
            let name = parameter["name"].as_str().unwrap();
            let answer = if operation.path.starts_with("/volumecontent") {
                let (method, path) = (operation.method.to_uppercase(), operation.path);
                let path = path.replace("{id}", volume["volumeID"].as_str().unwrap());
                let line = format!("{method} {path}?path=/x&{name}=nonsense");
                server.send_with(&[("Authorization", &bearer)], &line).await
            } else {
                let path = operation.path.replace("{id}", id);
                server.send(&format!("GET {path}?{name}=nonsense")).await
            };
            let line = format!("{} {name}", operation.path);
            assert_eq!(answer.status, 400, "{line}: {}", answer.body);
            tried += 1;
        }
    }
    assert!(tried > 10, "{tried}");
}

#[test]
fn the_file_has_the_version_of_the_program() {
    assert_eq!(FILE["info"]["version"], env!("CARGO_PKG_VERSION"));
}
