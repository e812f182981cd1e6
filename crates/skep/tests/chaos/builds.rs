//! Builds of templates: the server is killed during one, and others are ended by their owner.

use std::time::Duration;

use serde_json::{Value, json};
use skep_client::Command;
use skep_testkit::{wait_for, wait_until};

use crate::installation::Installation;
use crate::machine::Traces;
use crate::sleep::{create_from, run};

/// Time limit for a step, or for a build to end.
const BUILT: Duration = Duration::from_secs(60);

/// Prints the confinement of whoever runs this: filter, rights, users, devices, memory and processors.
const HELD_BY: &str = "echo held $(grep -E '^(Seccomp|NoNewPrivs|CapBnd|CapEff)' /proc/self/status; \
                       cut -c 22- /proc/self/uid_map; ls /dev; grep MemTotal /proc/meminfo; nproc)";

/// A caller with nothing but HTTP.
struct Builder {
    http: reqwest::Client,
    url: String,
    key: String,
}

/// A build that was started.
struct Started {
    template: String,
    build: String,
}

impl Builder {
    fn of(installation: &Installation) -> Self {
        let (url, key) = installation.address_and_key();
        let http = skep_http::http_client().build().unwrap();
        Self { http, url, key }
    }

    async fn send(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let url = format!("{}{path}", self.url);
        let request = self
            .http
            .request(method.parse().unwrap(), url)
            .header("X-API-KEY", &self.key);
        let request = match body {
            Some(body) => request.json(&body),
            None => request,
        };
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let bytes = answer.bytes().await.unwrap();
        (status, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    /// Starts a build of these commands, each as a step.
    async fn start(&self, name: &str, commands: &[&str]) -> Started {
        let (status, asked) = self
            .send("POST", "/v3/templates", Some(json!({"name": name})))
            .await;
        assert_eq!(status, 202, "{asked}");
        let text = |key: &str| asked[key].as_str().unwrap().to_owned();
        let started = Started {
            template: text("templateID"),
            build: text("buildID"),
        };
        let steps = commands
            .iter()
            .map(|command| json!({"type": "RUN", "args": [command, "root"], "force": false}));
        let order = json!({
            "fromTemplate": "base",
            "force": false,
            "steps": steps.collect::<Vec<_>>(),
        });
        let Started { template, build } = &started;
        let path = format!("/v2/templates/{template}/builds/{build}");
        let (status, answer) = self.send("POST", &path, Some(order)).await;
        assert_eq!(status, 202, "{answer}");
        started
    }

    /// State of a build, and its log.
    async fn status(&self, started: &Started) -> (String, String, Value) {
        let Started { template, build } = started;
        let path = format!("/templates/{template}/builds/{build}/status?limit=100");
        let (status, answer) = self.send("GET", &path, None).await;
        assert_eq!(status, 200, "{answer}");
        let entries = answer["logEntries"].as_array().unwrap().iter();
        let lines = entries.map(|entry| entry["message"].as_str().unwrap());
        let log = lines.collect::<Vec<_>>().join("\n");
        let state = answer["status"].as_str().unwrap().to_owned();
        (state, log, answer["reason"].clone())
    }

    async fn wait_for_line(&self, started: &Started, wanted: &str) -> String {
        wait_until(BUILT, || async {
            let (state, log, reason) = self.status(started).await;
            if log.contains(wanted) {
                return Ok(log);
            }
            Err(format!("{state} {reason}: {log}"))
        })
        .await
    }

    async fn wait_for_end(&self, started: &Started) -> (String, String, Value) {
        wait_until(BUILT, || async {
            let (state, log, reason) = self.status(started).await;
            match state.as_str() {
                "ready" | "error" => Ok((state, log, reason)),
                _ => Err(log),
            }
        })
        .await
    }
}

/// Finds the text that a command of a build has printed after a word.
fn printed<'a>(log: &'a str, word: &str) -> &'a str {
    let (_, rest) = log.split_once(&format!("[stdout]: {word} ")).unwrap();
    rest.split('\n').next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_whose_server_is_killed_goes_on_at_its_last_layer() {
    let mut installation = Installation::start();
    let builder = Builder::of(&installation);
    let commands = [
        HELD_BY,
        "head -c 16 /dev/urandom | base64 > /first && echo made $(cat /first)",
        "echo first: $(cat /first) && sleep 3 && cp /first /second",
    ];
    let started = builder.start("survivor", &commands).await;
    let before = builder.wait_for_line(&started, "[stdout]: first: ").await;
    installation.kill();
    assert_eq!(Traces::find(&installation).agents.len(), 1);

    installation.restart();
    let builder = Builder::of(&installation);
    let (state, log, reason) = builder.wait_for_end(&started).await;
    assert_eq!(state, "ready", "{reason}: {log}");
    let after = log.split_once("The server was restarted").unwrap().1;
    assert!(after.contains("CACHED [builder 2/3]"), "{after}");
    assert!(!after.contains("CACHED [builder 3/3]"), "{after}");
    let sandbox = create_from(&installation.client(), "survivor").await;
    let made = printed(&before, "made");
    assert_eq!(
        run(&sandbox, "cat /first /second").await,
        format!("{made}\n{made}")
    );
    // A step is held by what holds a sandbox.
    let command = Command::new("/bin/bash").args(["-c", HELD_BY]).user("root");
    let held = sandbox.commands().run(command).await.unwrap();
    let held = String::from_utf8(held.stdout.to_vec()).unwrap();
    assert_eq!(held.trim(), format!("held {}", printed(&before, "held")));
    assert!(held.contains("Seccomp: 2"), "{held}");
    sandbox.kill().await.unwrap();
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_that_hangs_ends_with_a_newer_one_or_with_its_template() {
    let mut installation = Installation::start();
    let builder = Builder::of(&installation);
    // It takes no signal, closes its output, and leaves children.
    let hang =
        "trap '' TERM INT HUP; (sleep 600 &) ; echo hanging; exec sleep 600 > /dev/null 2>&1";
    let old = builder.start("stuck", &[hang]).await;
    builder.wait_for_line(&old, "[stdout]: hanging").await;
    let new = builder.start("stuck", &["true", hang]).await;
    let (state, _, reason) = builder.wait_for_end(&old).await;
    assert_eq!(
        (state.as_str(), &reason["message"]),
        ("error", &json!("build was cancelled"))
    );
    assert_eq!(reason["step"], Value::Null, "it is no step's fault");

    builder.wait_for_line(&new, "[stdout]: hanging").await;
    let path = format!("/templates/{}", new.template);
    assert_eq!(builder.send("DELETE", &path, None).await.0, 204);
    wait_for(BUILT, || {
        let agents = Traces::find(&installation).agents;
        if agents.is_empty() {
            Ok(())
        } else {
            Err(format!("{agents:?} are left"))
        }
    });
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}
