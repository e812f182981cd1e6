//! Metrics of the server.

use skep_client::{Client, ExecOptions};
use skep_wire::rest::{NewSandbox, Sandbox};

use crate::installation::Installation;

async fn metrics(client: &Client) -> String {
    client.get_text(&["skep", "metrics"]).await.unwrap()
}

/// The number behind `name`, with its labels.
fn value(text: &str, name: &str) -> Option<f64> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_is_counted_where_the_operator_looks() {
    let mut installation = Installation::start();
    let client = installation.client();
    let body = |template: &str| NewSandbox {
        template_id: template.to_owned(),
        ..NewSandbox::default()
    };
    let sandbox: Sandbox = client
        .post(&["v2", "sandboxes"], &body("base"))
        .await
        .unwrap();
    let (id, token) = (sandbox.sandbox_id, sandbox.envd_access_token);
    let agent = client.agent(&id, token.as_deref());
    let mut command = agent
        .exec("true", &[], &ExecOptions::default())
        .await
        .unwrap();
    while command.next().await.unwrap().is_some() {}

    let text = metrics(&client).await;
    assert_eq!(value(&text, "skep_sandboxes{phase=\"running\"}"), Some(1.0));
    assert_eq!(value(&text, "skep_sandbox_create_seconds_count"), Some(1.0));
    assert_eq!(value(&text, "skep_proxy_answer_seconds_count"), Some(1.0));
    assert!(value(&text, "skep_store_commit_seconds_count") > Some(0.0));
    assert!(value(&text, "process_resident_memory_bytes") > Some(1e6));

    installation.kill();
    installation.restart();
    client.delete(&["sandboxes", &id]).await.unwrap();
    let text = metrics(&client).await;
    assert_eq!(value(&text, "skep_sandboxes_adopted_total"), Some(1.0));
    assert_eq!(
        value(&text, "skep_sandbox_endings_total{reason=\"killed\"}"),
        Some(1.0)
    );
    assert_eq!(value(&text, "skep_sandboxes{phase=\"running\"}"), Some(0.0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_is_said_to_have_what_it_really_has() {
    let mut installation = Installation::start();
    installation.stop();
    installation.configure("[limits]\ncpus = 1\nmemory_mib = 256\n");
    installation.restart();
    let client = installation.client();
    let body = NewSandbox {
        template_id: "base".to_owned(),
        ..NewSandbox::default()
    };
    let sandbox: Sandbox = client.post(&["v2", "sandboxes"], &body).await.unwrap();
    let path = ["sandboxes", &sandbox.sandbox_id];
    let detail: skep_wire::rest::SandboxDetail = client.get(&path).await.unwrap();
    assert_eq!((detail.listed.cpu_count, detail.listed.memory_mb), (1, 256));
}
