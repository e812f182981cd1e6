//! Logs of sandboxes, for their owners, and of the server, for its operator.

use std::time::Duration;

use skep_client::{Client, Command, LogEntry, LogLevel, LogQuery, NewSandbox, Sandbox};
use skep_testkit::wait_until;

use crate::installation::Installation;

const TIMEOUT: Duration = Duration::from_secs(10);

async fn create(client: &Client) -> Sandbox {
    let body = NewSandbox {
        template_id: "base".to_owned(),
        timeout: Some(600),
        env_vars: Some([("TOKEN".to_owned(), "secret-variable".to_owned())].into()),
        ..NewSandbox::default()
    };
    client.sandboxes().create(&body).await.unwrap()
}

async fn run(sandbox: &Sandbox, script: &str) {
    let command = Command::new("sh").args(["-c", script]);
    sandbox.commands().run(command).await.unwrap();
}

async fn logs(sandbox: &Sandbox) -> Vec<LogEntry> {
    sandbox.logs(&LogQuery::default()).await.unwrap()
}

async fn messages(sandbox: &Sandbox) -> Vec<String> {
    let logs = logs(sandbox).await.into_iter();
    logs.map(|entry| entry.message).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sandbox_said_outlives_its_server_and_itself() {
    let mut installation = Installation::start();
    let client = installation.client();
    let sandbox = create(&client).await;
    run(&sandbox, "echo before; echo trouble >&2; exit 3").await;
    let said = logs(&sandbox).await;
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
    run(&sandbox, "echo after").await;
    let all = messages(&sandbox).await;
    assert!(all.contains(&"before".to_owned()) && all.contains(&"after".to_owned()));

    sandbox.kill().await.unwrap();
    assert_eq!(messages(&sandbox).await, all);
    installation.kill();
    installation.restart();
    assert_eq!(messages(&sandbox).await, all);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_ends_in_a_log_of_bounded_size_that_tells_of_its_loss() {
    let installation = Installation::start();
    let client = installation.client();
    let sandbox = create(&client).await;
    run(&sandbox, "yes flood | head -c 20000000").await;
    // The note comes with the next entry that is slow enough.
    wait_until(TIMEOUT, || async {
        run(&sandbox, "true").await;
        let query = LogQuery {
            search: Some("too fast"),
            level: Some(LogLevel::Warn),
            ..LogQuery::default()
        };
        if sandbox.logs(&query).await.unwrap().is_empty() {
            Err("the loss is not told")
        } else {
            Ok(())
        }
    })
    .await;
    sandbox.kill().await.unwrap();
    let kept = installation
        .data_dir()
        .join(format!("logs/{}.jsonl", sandbox.id()));
    let size = std::fs::metadata(kept).unwrap().len();
    assert!((1..=1 << 20).contains(&size), "{size}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operators_log_holds_nothing_of_what_users_run_send_or_hide() {
    let mut installation = Installation::start_with_log("trace");
    let client = installation.client();
    let sandbox = create(&client).await;
    run(&sandbox, "echo secret-output; true secret-code").await;
    sandbox.kill().await.unwrap();
    installation.stop();
    let log = installation.log();
    assert!(log.contains(sandbox.id()), "it tells of the sandbox at all");
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
