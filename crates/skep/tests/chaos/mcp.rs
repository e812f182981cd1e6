//! `skep mcp`, as agents of two teams use it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::installation::Installation;

/// A conversation with `skep mcp`, message by message.
pub(crate) struct Agent {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    count: u64,
}

impl Agent {
    pub(crate) fn start(installation: &Installation, key: Option<&str>, options: &[&str]) -> Self {
        let arguments = [&["mcp", "--template", "base"], options].concat();
        let mut command = installation.client_command(&arguments);
        if let Some(key) = key {
            command.env("E2B_API_KEY", key);
        }
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut agent = Self {
            input: process.stdin.take(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
            count: 0,
        };
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let server = agent.ask("initialize", &params);
        assert_eq!(server["serverInfo"]["name"], "skep");
        agent.write(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        agent
    }

    fn write(&mut self, message: &Value) {
        let input = self.input.as_mut().unwrap();
        writeln!(input, "{message}").unwrap();
    }

    /// Makes a request and returns its result.
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.count += 1;
        let id = self.count;
        self.write(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == id {
                assert!(message["error"].is_null(), "{message}");
                return message["result"].clone();
            }
        }
    }

    /// Calls a tool; returns its text, and whether it failed.
    pub(crate) fn call(&mut self, name: &str, arguments: &Value) -> (String, bool) {
        let result = self.ask("tools/call", &json!({"name": name, "arguments": arguments}));
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        (text, result["isError"] == true)
    }

    /// Number of the process that is talked to.
    pub(crate) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Closes its end, as clients do, and waits for the other.
    pub(crate) fn end(mut self) {
        drop(self.input.take());
        assert!(self.process.wait().unwrap().success());
    }
}

/// Names are looked for among the sandboxes of the key's team, however they are guessed, and a
/// sandbox without one is gone with its session.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_reaches_the_sandboxes_of_its_own_team_alone() {
    let installation = Installation::start();
    let team = installation.client_command(&["team", "create", "guests"]);
    let key = { team }.output().unwrap().stdout;
    let key = String::from_utf8(key).unwrap();
    let mut owner = Agent::start(&installation, None, &[]);
    let write = json!({"command": "echo secret > note", "sandbox": "shared"});
    let (_, failed) = owner.call("start_sandbox", &json!({"name": "shared"}));
    assert!(!failed);
    let (text, failed) = owner.call("run_command", &write);
    assert!(!failed, "{text}");
    let client = installation.client();
    let id = client.sandboxes().list().await.unwrap()[0]
        .sandbox_id
        .clone();

    let mut stranger = Agent::start(&installation, Some(key.trim()), &[]);
    for wanted in ["shared", id.as_str(), "../sandboxes", "shared&metadata=x"] {
        let read = json!({"path": "note", "sandbox": wanted});
        let (text, failed) = stranger.call("read_file", &read);
        assert!(
            failed && (text.contains("there is no sandbox") || text.contains("Invalid sandbox ID")),
            "{wanted}: {text}"
        );
        let (_, failed) = stranger.call("stop_sandbox", &json!({"sandbox": wanted}));
        assert!(failed, "{wanted}");
    }
    let (text, failed) = stranger.call("start_sandbox", &json!({"name": "shared"}));
    assert!(!failed && !text.contains("there already"), "{text}");
    let (text, failed) = stranger.call("read_file", &json!({"path": "note", "sandbox": "shared"}));
    assert!(failed, "one of its own: {text}");

    let (text, failed) = owner.call("read_file", &json!({"path": "note", "sandbox": "shared"}));
    assert!(!failed && text.contains("secret"), "{text}");
    let (_, failed) = owner.call("run_command", &json!({"command": "true"}));
    assert!(!failed);
    assert_eq!(client.sandboxes().list().await.unwrap().len(), 2);
    owner.end();
    stranger.end();
    let left = client.sandboxes().list().await.unwrap();
    assert_eq!(left.len(), 1, "the named one");
    assert_eq!(left[0].sandbox_id, id);
}

/// Rules of the one who starts `skep mcp` are those of every sandbox that it makes, and rules that no
/// sandbox could have are not found out by a model.
#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_of_an_agent_have_the_rules_of_whoever_started_it() {
    let installation = Installation::start();
    let rules = [
        "--deny",
        "198.51.100.0/24",
        "--deny",
        "192.0.2.0/24",
        "--allow",
        "192.0.2.7",
    ];
    let mut agent = Agent::start(&installation, None, &rules);
    let (text, failed) = agent.call("run_command", &json!({"command": "true"}));
    assert!(!failed, "{text}");
    let client = installation.client();
    let sandboxes = client.sandboxes().list().await.unwrap();
    let detail = client
        .sandbox(&sandboxes[0].sandbox_id)
        .info()
        .await
        .unwrap();
    let network = detail.network.unwrap();
    assert_eq!(network.allow_out.unwrap(), ["192.0.2.7"]);
    assert_eq!(
        network.deny_out.unwrap(),
        ["198.51.100.0/24", "192.0.2.0/24"]
    );
    agent.end();

    for (rules, reason) in [
        (["--deny", "example.com"], "invalid denied CIDR example.com"),
        (["--allow", "example.com"], "ALL_TRAFFIC"),
    ] {
        let arguments = [["mcp"].as_slice(), &rules].concat();
        let refused = installation.client_command(&arguments).output().unwrap();
        let text = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(1), "{text}");
        assert!(text.contains(reason) && text.contains("hint: "), "{text}");
    }
}
