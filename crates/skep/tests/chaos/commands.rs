//! The command line, against a real server.

use serde_json::Value;
use skep_client::NewSandbox;
use skep_telemetry::Chain;

use crate::installation::Installation;

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
