//! `skep events`, against a real server.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::time::Duration;

use serde_json::Value;
use skep_client::{NewSandbox, Sandbox};
use skep_testkit::wait_until;

use crate::installation::Installation;

const DEADLINE: Duration = Duration::from_secs(60);

async fn create(installation: &Installation) -> Sandbox {
    let body = NewSandbox {
        template_id: "base".to_owned(),
        ..NewSandbox::default()
    };
    let client = installation.client();
    client.sandboxes().create(&body).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_a_sandbox_are_followed_as_they_happen() {
    let mut installation = Installation::start();
    let (watched, other) = (create(&installation).await, create(&installation).await);
    let arguments = [
        "events",
        "--follow",
        "--json",
        "--sandbox",
        watched.id(),
        "--type",
        "updated",
        "--type",
        "killed",
    ];
    let mut following = installation
        .client_command(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = BufReader::new(following.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in output.lines() {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            sender.send(event).unwrap();
        }
    });
    // It tells what happens from when it listens on; until it is heard, something happens again.
    let first = wait_until(DEADLINE, || async {
        for sandbox in [&other, &watched] {
            sandbox.set_timeout(DEADLINE).await.unwrap();
        }
        lines.try_recv()
    })
    .await;
    assert_eq!(first["type"], "sandbox.lifecycle.updated");
    assert!(first["eventData"]["set_timeout"].is_string(), "{first}");
    for sandbox in [&other, &watched] {
        sandbox.kill().await.unwrap();
    }
    let mut told = vec![first];
    while told.last().unwrap()["type"] != "sandbox.lifecycle.killed" {
        told.push(lines.recv_timeout(DEADLINE).unwrap());
    }
    let last = told.last().unwrap();
    assert_eq!(last["eventData"]["kill_reason"], "request", "{last}");
    for event in &told {
        assert_eq!(event["sandboxId"], watched.id(), "{event}");
    }
    // Without a server there is nothing to follow.
    installation.stop();
    wait_until(DEADLINE, || {
        let ended = following.try_wait().unwrap();
        async move { ended.map(drop).ok_or("it goes on though nobody speaks") }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_events_are_listed_by_type() {
    let installation = Installation::start();
    let sandbox = create(&installation).await;
    sandbox.kill().await.unwrap();
    let list = |arguments: &[&str]| {
        let arguments = [&["events", "--sandbox", sandbox.id()], arguments].concat();
        let output = installation.client_command(&arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let all = list(&[]);
    let kinds: Vec<_> = all
        .lines()
        .filter_map(|line| line.split("  ").nth(2))
        .collect();
    assert_eq!(kinds[0], "created", "{all}");
    assert!(kinds[1].starts_with("killed: killed after "), "{all}");
    assert_eq!(list(&["--type", "created"]).lines().count(), 1);
    assert_eq!(
        list(&["--limit", "1"]),
        format!("{}\n", all.lines().next_back().unwrap())
    );
}
