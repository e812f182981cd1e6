//! Logs of sandboxes, for their owners, and of the server, for its operator.

use std::time::Duration;

use skep_client::{Agent, Client, ExecOptions};
use skep_testkit::wait_until;
use skep_wire::rest::{LogEntry, LogLevel, LogsV2, NewSandbox, Sandbox};

use crate::installation::Installation;

const TIMEOUT: Duration = Duration::from_secs(10);

async fn create(client: &Client) -> (String, Agent) {
    let body = NewSandbox {
        template_id: "base".to_owned(),
        timeout: Some(600),
        env_vars: Some([("TOKEN".to_owned(), "secret-variable".to_owned())].into()),
        ..NewSandbox::default()
    };
    let sandbox: Sandbox = client.post(&["v2", "sandboxes"], &body).await.unwrap();
    let agent = client.agent(&sandbox.sandbox_id, sandbox.envd_access_token.as_deref());
    (sandbox.sandbox_id, agent)
}

async fn run(agent: &Agent, script: &str) {
    let arguments = ["-c".to_owned(), script.to_owned()];
    let options = ExecOptions::default();
    let mut command = agent.exec("sh", &arguments, &options).await.unwrap();
    while command.next().await.unwrap().is_some() {}
}

async fn logs(client: &Client, id: &str) -> Vec<LogEntry> {
    let path = ["v2", "sandboxes", id, "logs"];
    let query = [("direction", "forward")];
    let logs: LogsV2 = client.get_with(&path, &query).await.unwrap();
    logs.logs
}

async fn messages(client: &Client, id: &str) -> Vec<String> {
    let logs = logs(client, id).await.into_iter();
    logs.map(|entry| entry.message).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sandbox_said_outlives_its_server_and_itself() {
    let mut installation = Installation::start();
    let client = installation.client();
    let (id, agent) = create(&client).await;
    run(&agent, "echo before; echo trouble >&2; exit 3").await;
    let said = logs(&client, &id).await;
    let level_of = |message: &str| {
        let entry = said.iter().find(|entry| entry.message == message);
        entry.map(|entry| entry.level)
    };
    assert_eq!(level_of("process started"), Some(LogLevel::Info));
    assert_eq!(level_of("before"), Some(LogLevel::Info));
    assert_eq!(level_of("trouble"), Some(LogLevel::Warn));
    assert_eq!(level_of("process ended"), Some(LogLevel::Warn));

    installation.kill();
    installation.restart();
    run(&agent, "echo after").await;
    let all = messages(&client, &id).await;
    assert!(all.contains(&"before".to_owned()) && all.contains(&"after".to_owned()));

    client.delete(&["sandboxes", &id]).await.unwrap();
    assert_eq!(messages(&client, &id).await, all);
    installation.kill();
    installation.restart();
    assert_eq!(messages(&client, &id).await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_ends_in_a_log_of_bounded_size_that_tells_of_its_loss() {
    let installation = Installation::start();
    let client = installation.client();
    let (id, agent) = create(&client).await;
    run(&agent, "yes flood | head -c 20000000").await;
    // The note comes with the next entry that is slow enough.
    wait_until(TIMEOUT, || async {
        run(&agent, "true").await;
        let path = ["v2", "sandboxes", &id, "logs"];
        let query = [("search", "too fast"), ("level", "warn")];
        let logs: LogsV2 = client.get_with(&path, &query).await.unwrap();
        if logs.logs.is_empty() {
            Err("the loss is not told")
        } else {
            Ok(())
        }
    })
    .await;
    client.delete(&["sandboxes", &id]).await.unwrap();
    let kept = installation.data_dir().join(format!("logs/{id}.jsonl"));
    let size = std::fs::metadata(kept).unwrap().len();
    assert!((1..=1 << 20).contains(&size), "{size}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_log_holds_nothing_of_what_users_run_send_or_hide() {
    let mut installation = Installation::start_with_log("trace");
    let client = installation.client();
    let (id, agent) = create(&client).await;
    run(&agent, "echo secret-output; true secret-code").await;
    client.delete(&["sandboxes", &id]).await.unwrap();
    assert!(installation.stop().success());
    let log = installation.log();
    assert!(log.contains(&id), "it tells of the sandbox at all");
    let keys = std::fs::read_to_string(installation.data_dir().join("local-key")).unwrap();
    for secret in [
        "secret-variable",
        "secret-output",
        "secret-code",
        keys.trim(),
    ] {
        let line = log.lines().find(|line| line.contains(secret));
        assert_eq!(line, None);
    }
}
