//! Metrics of the server.

use skep_client::{Client, Command, NewSandbox};

use crate::installation::Installation;

async fn metrics(client: &Client) -> String {
    client.server_metrics().await.unwrap()
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
    let sandbox = client.sandboxes().create(&body("base")).await.unwrap();
    let ran = sandbox.commands().run(Command::new("true")).await;
    assert_eq!(ran.unwrap().code, 0);

    let text = metrics(&client).await;
    assert_eq!(value(&text, "skep_sandboxes{phase=\"running\"}"), Some(1.0));
    assert_eq!(value(&text, "skep_sandbox_create_seconds_count"), Some(1.0));
    assert_eq!(value(&text, "skep_proxy_answer_seconds_count"), Some(1.0));
    assert!(value(&text, "skep_store_commit_seconds_count") > Some(0.0));
    assert!(value(&text, "process_resident_memory_bytes") > Some(1e6));

    installation.kill();
    installation.restart();
    sandbox.kill().await.unwrap();
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
    let sandbox = client.sandboxes().create(&body).await.unwrap();
    let detail = sandbox.info().await.unwrap();
    assert_eq!((detail.listed.cpu_count, detail.listed.memory_mb), (1, 256));
}
