//! Traces as a collector receives them, decoded by OpenTelemetry's own types.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use parking_lot::Mutex;
use prost::Message as _;
use skep_client::{Command, NewSandbox, Sandbox};
use skep_testkit::wait_until;
use skep_wire::rest;
use tokio::net::TcpListener;

use crate::installation::Installation;

const TIMEOUT: Duration = Duration::from_secs(30);
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const STRANGER: &str = "1bf7651916cd43dd8448eb211c80319d";
const CALLER: &str = "b7ad6b7169203331";

/// A collector, and everything it was sent.
#[derive(Debug, Clone, Default)]
struct Collector {
    batches: Arc<Mutex<Vec<Bytes>>>,
}

impl Collector {
    async fn listen() -> (Self, String) {
        let collector = Self::default();
        let routes = axum::Router::new()
            .route("/v1/traces", post(take))
            .with_state(collector.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        skep_telemetry::spawn("collector", async move {
            axum::serve(listener, routes).await.unwrap();
        });
        (collector, url)
    }

    fn spans(&self) -> Vec<Span> {
        let batches = self.batches.lock();
        let requests =
            (batches.iter()).map(|bytes| ExportTraceServiceRequest::decode(bytes.clone()).unwrap());
        let all = requests.flat_map(|request| request.resource_spans);
        let resources = all.inspect(|of_resource| {
            let resource = of_resource.resource.as_ref().unwrap();
            let name = resource
                .attributes
                .iter()
                .find(|one| one.key == "service.name");
            assert_eq!(text(name.unwrap().value.clone()), "skep");
        });
        let scopes = resources.flat_map(|of_resource| of_resource.scope_spans);
        scopes.flat_map(|of_scope| of_scope.spans).collect()
    }
}

async fn take(State(collector): State<Collector>, headers: HeaderMap, body: Bytes) -> StatusCode {
    assert_eq!(headers["content-type"], "application/x-protobuf");
    if headers
        .get("authorization")
        .is_none_or(|shown| shown != "Basic word")
    {
        return StatusCode::UNAUTHORIZED;
    }
    collector.batches.lock().push(body);
    StatusCode::OK
}

fn text(value: Option<opentelemetry_proto::tonic::common::v1::AnyValue>) -> String {
    match value.unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

fn attributes(span: &Span) -> BTreeMap<String, String> {
    let attributes = span.attributes.iter();
    let told = attributes.map(|one| (one.key.clone(), text(one.value.clone())));
    told.collect()
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A server that makes each sandbox when it is asked for, and sends traces.
fn traced(endpoint: &str) -> Installation {
    let mut installation = Installation::start();
    installation.stop();
    let traces = format!(
        "[pool]\nready = 0\n[traces]\nendpoint = \"{endpoint}\"\nheaders = \"authorization=Basic%20word\"\n"
    );
    installation.configure(&traces);
    installation.restart();
    installation
}

fn http() -> reqwest::Client {
    skep_http::http_client().build().unwrap()
}

async fn say(sandbox: &Sandbox, word: &str) {
    let command = Command::new("echo").args([word]);
    sandbox.commands().run(command).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_way_of_a_create_is_told_to_the_collector() {
    let (collector, endpoint) = Collector::listen().await;
    let installation = traced(&endpoint);
    let client = installation.client();
    let (url, key) = installation.address_and_key();
    let body = NewSandbox {
        template_id: "base".to_owned(),
        ..NewSandbox::default()
    };
    let answer = http()
        .post(format!("{url}/v2/sandboxes"))
        .header("x-api-key", &key)
        .header("traceparent", format!("00-{TRACE}-{CALLER}-01"))
        .json(&body);
    let created: rest::Sandbox = answer.send().await.unwrap().json().await.unwrap();
    let token = created.envd_access_token.as_deref();
    let sandbox = client.sandbox(&created.sandbox_id).with_access_token(token);
    say(&sandbox, "a-hidden-word").await;
    // Whoever shows nothing is in no trace but the server's own, and cannot hide from it.
    let stranger = |url: String, flags: &str| {
        http()
            .get(url)
            .header("traceparent", format!("00-{STRANGER}-{CALLER}-{flags}"))
    };
    for flags in ["00", "01"] {
        let listing = stranger(format!("{url}/v2/sandboxes"), flags);
        assert_eq!(listing.send().await.unwrap().status(), 401);
        let visit = stranger(format!("{url}/health"), flags)
            .header("e2b-sandbox-id", sandbox.id())
            .header("e2b-sandbox-port", "49983");
        assert!(visit.send().await.unwrap().status().is_success());
    }

    let spans = wait_until(TIMEOUT, async || {
        let spans = collector.spans();
        let told = |name: &str| spans.iter().any(|span| span.name == name);
        let listings = spans.iter().filter(|span| span.name == "GET /v2/sandboxes");
        let visits = spans.iter().filter(|span| span.name == "proxy");
        if told("POST /v2/sandboxes") && listings.count() == 2 && visits.count() == 3 {
            Ok(spans)
        } else {
            Err(format!("{spans:?}"))
        }
    })
    .await;
    let find = |name: &str| {
        let found = spans.iter().find(|span| span.name == name);
        found.unwrap_or_else(|| panic!("no `{name}` in {spans:?}"))
    };
    for span in &spans {
        assert_ne!(hexadecimal(&span.trace_id), STRANGER, "{span:?}");
    }
    let request = find("POST /v2/sandboxes");
    assert_eq!(hexadecimal(&request.trace_id), TRACE);
    assert_eq!(hexadecimal(&request.parent_span_id), CALLER);
    assert_eq!(attributes(request)["http.response.status_code"], "201");
    for (parent, child) in [
        ("POST /v2/sandboxes", "create sandbox"),
        ("create sandbox", "resolve template"),
        ("create sandbox", "start on host"),
        ("create sandbox", "record order"),
        ("start on host", "launch"),
        ("start on host", "record start"),
        ("launch", "prepare disk and cgroups"),
        ("launch", "run launcher"),
        ("launch", "wait for agent"),
    ] {
        let (outer, inner) = (find(parent), find(child));
        assert_eq!(inner.parent_span_id, outer.span_id, "{parent} → {child}");
        assert_eq!(inner.trace_id, outer.trace_id, "{child}");
        let began = outer.start_time_unix_nano;
        assert!(inner.start_time_unix_nano + 1_000_000 >= began, "{child}");
        assert!(inner.end_time_unix_nano >= inner.start_time_unix_nano);
        assert!(
            outer.status.is_none() && inner.status.is_none(),
            "all went well"
        );
    }
    let id = &created.sandbox_id;
    assert_eq!(attributes(find("create sandbox"))["skep.sandbox.id"], *id);
    let paths: Vec<String> = spans
        .iter()
        .filter(|span| span.name == "proxy")
        .map(|span| {
            let proxied = attributes(span);
            assert_eq!(proxied["skep.sandbox.id"], *id);
            proxied["url.path"].clone()
        })
        .collect();
    let start = "/process.Process/Start".to_owned();
    assert!(paths.contains(&start), "{paths:?}");

    let secret_token = token.unwrap();
    let everything = collector.batches.lock().concat();
    for secret in ["a-hidden-word", secret_token, key.as_str()] {
        let secret = secret.as_bytes();
        let told = everything.windows(secret.len()).any(|part| part == secret);
        assert!(!told, "{secret:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_or_silent_changes_nothing() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let away = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    let away_url = format!("http://{}", away.local_addr().unwrap());
    drop(away);
    for endpoint in [away_url, silent_url] {
        let mut installation = traced(&endpoint);
        let client = installation.client();
        let body = NewSandbox {
            template_id: "base".to_owned(),
            ..NewSandbox::default()
        };
        let sandbox = client.sandboxes().create(&body).await.unwrap();
        say(&sandbox, "word").await;
        let lost = "skep_trace_spans_dropped_total{reason=\"not_delivered\"} ";
        wait_until(TIMEOUT, async || {
            let text = client.server_metrics().await.unwrap();
            let count = text.lines().find_map(|line| line.strip_prefix(lost));
            if count.is_some_and(|count| count != "0") {
                Ok(())
            } else {
                Err(format!("{count:?}"))
            }
        })
        .await;
        sandbox.kill().await.unwrap();
        installation.stop();
    }
}
