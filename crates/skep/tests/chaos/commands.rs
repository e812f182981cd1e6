//! The command line, against a real server.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use skep_client::NewSandbox;
use skep_telemetry::Chain;

use crate::installation::Installation;

/// Time limit for a command that asks nobody but this test.
const DEADLINE: Duration = Duration::from_secs(60);

struct Done {
    code: Option<i32>,
    out: String,
    err: String,
}

fn run(installation: &Installation, arguments: &[&str]) -> Done {
    let output = installation.client_command(arguments).output().unwrap();
    Done {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

async fn create(installation: &Installation) -> String {
    let body = NewSandbox {
        template_id: "base".to_owned(),
        ..NewSandbox::default()
    };
    let client = installation.client();
    let sandbox = client.sandboxes().create(&body).await.unwrap();
    sandbox.id().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_is_seen_used_and_ended_from_the_command_line() {
    let installation = Installation::start();
    let id = create(&installation).await;
    let sandbox = |arguments: &[&str]| {
        let arguments: Vec<_> = ["sandbox"].iter().chain(arguments).copied().collect();
        run(&installation, &arguments)
    };
    assert!(sandbox(&["list"]).out.contains(&id));
    let script = "echo to-out; echo to-err >&2; exit 5";
    let ran = sandbox(&["exec", &id, "--", "sh", "-c", script]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(5), "to-out\n"));
    assert_eq!(ran.err, "to-err\n");

    let logs = sandbox(&["logs", &id]);
    assert_eq!(logs.code, Some(0), "{}", logs.err);
    assert!(logs.out.contains(" info  to-out pid="), "{}", logs.out);
    let warnings = sandbox(&["logs", &id, "--level", "warn", "--search", "to-", "--json"]);
    let entry: Value = serde_json::from_str(&warnings.out).unwrap();
    assert_eq!(entry["message"], "to-err");

    let metrics = sandbox(&["metrics", &id, "--json"]);
    let points: Value = serde_json::from_str(&metrics.out).unwrap();
    for field in [
        "cpuUsedPct",
        "cpuSeconds",
        "memUsed",
        "memPeak",
        "memTotal",
        "diskUsed",
        "diskTotal",
        "netReceived",
        "netSent",
    ] {
        assert!(
            points[0][field].as_f64().unwrap() > 0.0,
            "{field}: {points}"
        );
    }
    assert!(sandbox(&["metrics", &id]).out.starts_with("TIME"));

    assert_eq!(sandbox(&["kill", &id]).code, Some(0));
    let info = sandbox(&["info", &id, "--json"]);
    let record: Value = serde_json::from_str(&info.out).unwrap();
    assert_eq!(record["endReason"], "killed");
    assert!(
        record["usage"]["sentBytes"].as_u64().unwrap() > 0,
        "{record}"
    );
    assert_eq!(sandbox(&["logs", &id]).out, logs.out, "kept after its end");
    let gone = sandbox(&["metrics", &id]);
    assert_eq!(gone.code, Some(1), "{}", gone.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_became_of_a_sandbox_that_slept_or_went_back_is_json_if_asked() {
    let installation = Installation::start();
    let id = create(&installation).await;
    let asked = |arguments: &[&str]| -> Value {
        let arguments: Vec<_> = ["sandbox", "--json"]
            .iter()
            .chain(arguments)
            .copied()
            .collect();
        let done = run(&installation, &arguments);
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
        serde_json::from_str(&done.out).unwrap()
    };
    let paused = asked(&["pause", "--files-only", &id]);
    assert_eq!(paused, json!([{ "sandboxID": id, "state": "paused" }]));
    let resumed = asked(&["resume", &id]);
    assert_eq!(resumed[0]["sandboxID"], id);
    assert_eq!(resumed[0]["state"], "running");
    assert_eq!(resumed[0]["kept"]["keptIn"], "files", "{resumed}");
    let taken = asked(&["snapshot", "--files-only", "--name", "mine", &id]);
    assert_eq!(taken[0]["sandboxID"], id);
    let back = asked(&["rollback", &id, "mine"]);
    assert_eq!(back, json!({ "sandboxID": id, "snapshot": "mine" }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_is_followed_until_its_sandbox_ends() {
    let installation = Installation::start();
    let id = create(&installation).await;
    let arguments = ["sandbox", "logs", "--follow", &id];
    let following = installation
        .client_command(&arguments)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    for word in ["first", "second"] {
        let ran = run(&installation, &["sandbox", "exec", &id, "--", "echo", word]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
    }
    assert_eq!(run(&installation, &["sandbox", "kill", &id]).code, Some(0));
    let followed = following.wait_with_output().unwrap();
    let followed = String::from_utf8(followed.stdout).unwrap();
    for word in ["first", "second"] {
        assert_eq!(
            followed.matches(&format!(" {word} pid=")).count(),
            1,
            "{followed}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_has_a_key_and_limits_of_its_own_and_sees_nothing_of_others() {
    let installation = Installation::start();
    let id = create(&installation).await;
    let made = run(
        &installation,
        &["team", "create", "guests", "--max-sandboxes", "0"],
    );
    assert_eq!(made.code, Some(0), "{}", made.err);
    let key = made.out.trim();
    let as_guest = |arguments: &[&str]| {
        let mut command = installation.client_command(arguments);
        let output = command.env("E2B_API_KEY", key).output().unwrap();
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
    };
    assert!(as_guest(&["sandbox", "list"]).contains("no sandboxes are running"));
    assert!(as_guest(&["sandbox", "info", &id]).contains("there is and was no sandbox"));
    let client = installation.client_with(key);
    let body = NewSandbox {
        template_id: "base".to_owned(),
        ..NewSandbox::default()
    };
    let create = async || client.sandboxes().create(&body).await;
    let refused = Chain(&create().await.unwrap_err()).to_string();
    assert!(refused.contains('0'), "{refused}");

    let limits = ["team", "limits", "guests", "--max-sandboxes", "1"];
    assert_eq!(run(&installation, &limits).code, Some(0));
    create().await.unwrap();
    let block = ["team", "block", "guests", "they owe us cake"];
    assert_eq!(run(&installation, &block).code, Some(0));
    let refused = Chain(&create().await.unwrap_err()).to_string();
    assert!(refused.contains("they owe us cake"), "{refused}");

    let teams = run(&installation, &["team", "list", "--json"]).out;
    let teams: Value = serde_json::from_str(&teams).unwrap();
    assert_eq!(teams[1]["slug"], "guests");
    assert_eq!(teams[1]["blocked"], "they owe us cake");
    let again = run(&installation, &["team", "create", "guests"]);
    assert_eq!(again.code, Some(1), "{}", again.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_are_told_with_a_hint_and_the_right_code() {
    let mut installation = Installation::start();
    for arguments in [
        &["sandbox", "logs", "i0000000000000000000z"][..],
        &["sandbox", "metrics", "i0000000000000000000z"],
        &["sandbox", "info", "i0000000000000000000z"],
        // There is no terminal here.
        &["sandbox", "connect", "i0000000000000000000z"],
    ] {
        let done = run(&installation, arguments);
        assert_eq!(done.code, Some(1), "{arguments:?}: {}", done.err);
        assert!(done.err.contains("hint: "), "{arguments:?}: {}", done.err);
    }
    installation.kill();
    let unreachable = run(&installation, &["sandbox", "list"]);
    assert_eq!(unreachable.code, Some(2), "{}", unreachable.err);
    assert!(unreachable.err.contains("hint: "), "{}", unreachable.err);
}

/// A command of `skep sandbox`.
fn sandbox(installation: &Installation, arguments: &[&str]) -> Done {
    let arguments: Vec<_> = ["sandbox"].iter().chain(arguments).copied().collect();
    run(installation, &arguments)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_is_made_fed_and_emptied_from_the_command_line() {
    let installation = Installation::start();
    let made = sandbox(
        &installation,
        &["create", "base", "--env", "MODE=x", "-m", "a=b"],
    );
    assert_eq!(made.code, Some(0), "{}", made.err);
    let id = made.out.trim();
    // The first letters are enough, and by a name of this host as well as by its address.
    let short = &id[..8];
    let script = "cat; echo $MODE $HERE; exit 3";
    let mut exec = installation.client_command(&[
        "sandbox", "exec", "--env", "HERE=y", short, "sh", "-c", script,
    ]);
    let (url, key) = installation.address_and_key();
    let port = url.rsplit(':').next().unwrap();
    exec.env("SKEP_SERVER", format!("http://api.skep.localhost:{port}"))
        .env("E2B_API_KEY", key);
    let done = feed(exec, b"from outside\n");
    assert_eq!(
        (done.code, done.out.as_str()),
        (Some(3), "from outside\nx y\n"),
        "{}",
        done.err
    );

    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("data");
    std::fs::create_dir_all(source.join("deep")).unwrap();
    std::fs::write(source.join("deep/a"), "content").unwrap();
    let there = format!("{short}:");
    let copied = sandbox(&installation, &["cp", source.to_str().unwrap(), &there]);
    assert_eq!(copied.code, Some(0), "{}", copied.err);
    let listed = sandbox(
        &installation,
        &["ls", &format!("{short}:data/deep"), "--json"],
    );
    let entries: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!(
        (&entries[0]["name"], &entries[0]["size"]),
        (&"a".into(), &7.into())
    );
    let back = folder.path().join("back");
    let back_again = ["cp", &format!("{short}:data"), back.to_str().unwrap()];
    let copied = sandbox(&installation, &back_again);
    assert_eq!(copied.code, Some(0), "{}", copied.err);
    assert_eq!(
        std::fs::read_to_string(back.join("deep/a")).unwrap(),
        "content"
    );
    let output = sandbox(&installation, &["cp", &format!("{short}:data/deep/a"), "-"]);
    assert_eq!(output.out, "content");
    let removed = sandbox(&installation, &["rm", &format!("{short}:data")]);
    assert_eq!(removed.code, Some(0), "{}", removed.err);
    let missing = sandbox(&installation, &["ls", &format!("{short}:data")]);
    assert_eq!(missing.code, Some(1), "{}", missing.err);

    assert_eq!(
        sandbox(&installation, &["timeout", short, "2h"]).code,
        Some(0)
    );
    assert_eq!(sandbox(&installation, &["kill", "--all"]).code, Some(0));
    let ended = sandbox(&installation, &["exec", short, "true"]);
    assert_eq!(ended.code, Some(125), "{}", ended.err);
    assert!(ended.err.contains(": killed"), "{}", ended.err);
    // Whoever names it in full is told by the server itself.
    let ended = sandbox(&installation, &["exec", id, "true"]);
    assert!(ended.err.contains("it ended"), "{}", ended.err);
    assert!(ended.err.contains(": killed"), "{}", ended.err);
}

/// Runs a command with this input.
fn feed(mut command: std::process::Command, input: &[u8]) -> Done {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    Done {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_end_with_the_codes_that_people_know() {
    let installation = Installation::start();
    let id = create(&installation).await;
    let exec = |arguments: &[&str]| {
        let arguments: Vec<_> = [&["exec"], arguments].concat();
        sandbox(&installation, &arguments)
    };
    for (arguments, code) in [
        (&[id.as_str(), "no-such-program"][..], 127),
        (&[&id, "/etc/hostname"], 126),
        (&[&id, "sh", "-c", "kill -SEGV $$"], 139),
        (&["--timeout", "1", &id, "sleep", "60"], 124),
        (&["-C", "/nowhere", &id, "true"], 125),
        (&["ixyzxyzxyz", "true"], 125),
    ] {
        let done = exec(arguments);
        assert_eq!(done.code, Some(code), "{arguments:?}: {}", done.err);
    }
    let lines = exec(&["--json", &id, "sh", "-c", "printf 'a\\377'; exit 4"]);
    let told: Vec<Value> = lines
        .out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(told.first().unwrap()["type"], "started");
    assert_eq!(told[1]["base64"], "Yf8=");
    assert_eq!(told.last().unwrap()["code"], 4);
    let failure = exec(&["--json", "ixyzxyzxyz", "true"]);
    let told: Value = serde_json::from_str(&failure.err).unwrap();
    assert_eq!(told["error"]["exitCode"], 125);
    assert!(!told["error"]["hints"][0].as_str().unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn control_c_ends_the_program_and_all_that_it_started() {
    let installation = Installation::start();
    let id = create(&installation).await;
    let script = "echo ready; sleep 4711; echo never";
    let mut running = installation
        .client_command(&["sandbox", "exec", &id, "sh", "-c", script])
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::new(running.stdout.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut out, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    let left = sandbox(&installation, &["exec", &id, "pgrep", "-f", "sleep 4711"]);
    assert_eq!(left.code, Some(1), "{}", left.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_who_leaves_early_is_no_failure() {
    let installation = Installation::start();
    let id = create(&installation).await;
    for arguments in [
        &["sandbox", "list"][..],
        &["sandbox", "info", &id, "--json"],
        &["sandbox", "exec", &id, "yes"],
        &["key", "list"],
        &["team", "list"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
    ] {
        let mut child = installation
            .client_command(arguments)
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(141), "{arguments:?}: {output:?}");
        assert_eq!(output.stderr, b"", "{arguments:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_key_stays_dead_and_its_operator_gets_another() {
    let mut installation = Installation::start();
    let (url, first) = installation.address_and_key();
    let is_let_in = async |key: &str| {
        let client = skep_client::Client::new(&url, key).unwrap();
        client.sandboxes().list().await.is_ok()
    };
    assert!(is_let_in(&first).await);
    let revoked = run(&installation, &["key", "revoke", "local operator"]);
    assert_eq!(revoked.code, Some(0), "{}", revoked.err);
    assert!(!is_let_in(&first).await);
    // Locked out by the API, the operator of the host makes a key without one.
    let rotated = run(&installation, &["key", "rotate"]);
    assert_eq!(rotated.code, Some(0), "{}", rotated.err);
    let second = rotated.out.trim().to_owned();
    assert!(is_let_in(&second).await);
    // A copy of the first key lies about, and a server finds it at its start.
    installation.kill();
    std::fs::write(installation.data_dir().join("local-key"), &first).unwrap();
    installation.restart();
    let (_, third) = installation.address_and_key();
    assert!(third != first && third != second);
    assert!(!is_let_in(&first).await && is_let_in(&third).await);
}

/// The key of the host opens everything on it. An environment that names a proxy, as those of many
/// machines do, had every command show it to that proxy.
#[test]
fn the_key_of_the_host_is_shown_to_no_proxy() {
    let bind = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (server, proxy) = (bind(), bind());
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join("local-key"), "e2b_0123\n").unwrap();
    let list = |url: &str, key: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_skep"))
            .arg("--data-dir")
            .arg(data.path())
            .args(["sandbox", "list", "--json", "--server", url])
            .args(key)
            .env_remove("E2B_API_KEY")
            .env_remove("no_proxy")
            .env_remove("NO_PROXY")
            .env(
                "http_proxy",
                format!("http://{}", proxy.local_addr().unwrap()),
            )
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let heads = |listener: &TcpListener| {
        let (listener, (found, head)) = (listener.try_clone().unwrap(), mpsc::channel());
        std::thread::spawn(move || found.send(answer_once(&listener)));
        head.recv_timeout(DEADLINE).expect("somebody asks in time")
    };
    // The control: the environment is followed for other hosts, and their keys.
    let mut elsewhere = list("http://skep.example:1", &["--api-key", "e2b_4567"]);
    assert!(heads(&proxy).contains("e2b_4567"));
    elsewhere.wait().unwrap();

    let mut own = list(&format!("http://{}", server.local_addr().unwrap()), &[]);

    assert!(heads(&server).contains("e2b_0123"));
    own.wait().unwrap();
    proxy.set_nonblocking(true).unwrap();
    let asked = proxy.accept();
    assert!(asked.is_err(), "the proxy was asked: {asked:?}");
}

/// Answers one request with an empty list, and returns its head.
fn answer_once(listener: &TcpListener) -> String {
    let (mut stream, _) = listener.accept().unwrap();
    let mut head = vec![0; 4096];
    let length = stream.read(&mut head).unwrap();
    stream
        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n[]")
        .unwrap();
    String::from_utf8_lossy(&head[..length]).to_lowercase()
}
