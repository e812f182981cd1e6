//! Dockerfiles, built from the command line by a real server.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use skep_client::NewSandbox;
use skep_testkit::{wait_for, wait_until};

use crate::installation::Installation;
use crate::terminal::{Screen, TERMINAL_TIMEOUT};

const DOCKERFILE: &str = r#"ARG WORD=nothing
FROM base AS builder
ARG WORD
WORKDIR /src
COPY . .
RUN <<EOF
set -e
mkdir -p /out/lib
cat data/*.txt > /out/result
echo "$WORD" > /out/word
chown 33:33 /out/word
ln -s result /out/link
EOF
RUN ["sh", "-c", "test ! -e ignored"]

FROM base AS never
RUN exit 1

FROM base
ENV GREETING="good day" KIND=${GREETING:-none}
WORKDIR /opt/app
COPY --from=builder /out/ ./
COPY --from=builder --chown=www-data /out/w* /etc/passwd copied/
COPY --chmod=0755 <<'SCRIPT' bin/serve
#!/bin/sh
touch /tmp/started-$GREETING_FILE
exec sleep 600
SCRIPT
COPY --chown=www-data:www-data data/a.txt data/b.txt given/
USER www-data
CMD GREETING_FILE=here /opt/app/bin/serve
"#;

struct Done {
    code: Option<i32>,
    out: String,
    err: String,
}

fn template(installation: &Installation, arguments: &[&str]) -> Done {
    let arguments: Vec<_> = ["template"].iter().chain(arguments).copied().collect();
    let output = installation.client_command(&arguments).output().unwrap();
    Done {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn json(installation: &Installation, arguments: &[&str]) -> Value {
    let arguments: Vec<_> = arguments.iter().chain(&["--json"]).copied().collect();
    let done = template(installation, &arguments);
    assert_eq!(done.code, Some(0), "{}", done.err);
    serde_json::from_str(&done.out).unwrap()
}

fn directory(dockerfile: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("Dockerfile", dockerfile);
    write(".dockerignore", "ignored\n");
    write("data/a.txt", "one\n");
    write("data/b.txt", "two\n");
    write("ignored/secret", "x");
    directory
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dockerfile_with_stages_becomes_a_template_with_versions() {
    let installation = Installation::start();
    let context = directory(DOCKERFILE);
    let path = context.path().to_str().unwrap();
    let first = template(
        &installation,
        &["build", path, "-n", "app", "--build-arg", "WORD=hello"],
    );
    assert_eq!(first.code, Some(0), "{}", first.err);
    assert!(
        first.err.contains("[builder 5/6] RUN <<EOF"),
        "{}",
        first.err
    );
    let reference = first.out.trim();
    assert!(reference.starts_with("app:"), "{reference}");

    check_sandbox(&installation, reference).await;

    let again = [
        "build",
        path,
        "-n",
        "app",
        "--tag",
        "v2",
        "--build-arg",
        "WORD=hello",
    ];
    let second = template(&installation, &again);
    assert_eq!(second.code, Some(0), "{}", second.err);
    assert!(second.err.contains("CACHED COPY . ."), "{}", second.err);
    check_versions(&installation, reference);
}

async fn check_sandbox(installation: &Installation, reference: &str) {
    let body = NewSandbox {
        template_id: reference.to_owned(),
        ..NewSandbox::default()
    };
    let sandbox = installation
        .client()
        .sandboxes()
        .create(&body)
        .await
        .unwrap();
    let said = async |command: &str| {
        let done = sandbox.commands().run(command).await.unwrap();
        done.stdout_text().trim().to_owned()
    };
    for (command, expected) in [
        ("id -un; pwd", "www-data\n/opt/app"),
        ("cat result link", "one\ntwo\none\ntwo"),
        ("cat word; stat -c %u:%g word", "hello\n33:33"),
        (
            "ls copied; stat -c %U copied/passwd",
            "passwd\nword\nwww-data",
        ),
        (
            "stat -c %U:%a given/a.txt bin/serve",
            "www-data:644\nroot:755",
        ),
        ("echo \"$GREETING $WORD\"; ls lib", "good day"),
        ("echo $KIND", "none"),
        (
            "ls /tmp/started-here; pgrep -c sleep",
            "/tmp/started-here\n1",
        ),
    ] {
        assert_eq!(said(command).await, expected, "{command}");
    }
    sandbox.kill().await.unwrap();
}

fn check_versions(installation: &Installation, reference: &str) {
    let history = json(installation, &["history", "app"]);
    let builds = history["builds"].as_array().unwrap();
    let named = |tag: &str| {
        let has_it = |build: &&Value| build["tags"].as_array().unwrap().contains(&tag.into());
        builds.iter().find(has_it).unwrap().clone()
    };
    let (old, new) = (named("default"), named("v2"));
    assert_eq!(
        reference,
        format!("app:{}", old["buildID"].as_str().unwrap())
    );
    // The same steps made the same.
    assert_eq!(old["contentID"], new["contentID"]);
    assert!(
        builds
            .iter()
            .any(|build| build["tags"][0] == "stage-builder")
    );

    let content = format!("app@{}", &old["contentID"].as_str().unwrap()[..12]);
    let inspected = json(installation, &["inspect", &content]);
    assert_eq!(inspected["user"], "www-data");
    assert_eq!(inspected["envVars"]["GREETING"], "good day");
    assert_eq!(
        inspected["startCmd"],
        "GREETING_FILE=here /opt/app/bin/serve"
    );
    assert!(inspected["envVars"].get("WORD").is_none(), "{inspected}");

    let base = json(installation, &["diff", "base", "app", "--files"]);
    let added = base["files"]["added"].as_array().unwrap();
    assert!(added.contains(&"/opt/app/result".into()), "{added:?}");
    let same = json(installation, &["diff", "app", "app:v2"]);
    assert_eq!(same["sameContent"], true);

    let would_be_pruned = json(installation, &["prune", "app", "--keep", "0", "--dry-run"]);
    let pruned = would_be_pruned.as_array().unwrap();
    assert!(!pruned.is_empty() && pruned.iter().all(|row| row["deleted"] == false));
    json(installation, &["prune", "app", "--keep", "0"]);
    let left = json(installation, &["history", "app"]);
    let left = left["builds"].as_array().unwrap().len();
    assert_eq!(left, builds.len() - pruned.len());

    let tagged = json(installation, &["tag", "app:v2", "stable"]);
    assert_eq!(tagged["buildID"], new["buildID"]);
    json(installation, &["untag", "app", "stable"]);
    let used = template(installation, &["delete", reference]);
    assert!(
        used.err.contains("the tag 'default' means it"),
        "{}",
        used.err
    );
    json(installation, &["publish", "app"]);
    json(installation, &["delete", "app"]);
    assert_eq!(template(installation, &["inspect", "app"]).code, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_dockerfile_is_told_by_its_line() {
    let installation = Installation::start();
    let build = |dockerfile: &str| {
        let context = directory(dockerfile);
        let path = context.path().join("Dockerfile");
        template(
            &installation,
            &["build", path.to_str().unwrap(), "-n", "broken"],
        )
    };
    let failed = build("FROM base\nENV A=1\nRUN echo before && \\\n    exit 3\n");
    assert_eq!(failed.code, Some(1), "{}", failed.err);
    for part in [
        "| before",
        "Dockerfile:3:1: the command failed: exit status 3",
        "    3 | RUN echo before && \\",
    ] {
        assert!(failed.err.contains(part), "{part}: {}", failed.err);
    }
    // Before anything runs, all at once.
    let refused = build("FROM base\nRUN --mount=type=bind,target=/x true\nCOPY none /\n");
    assert!(
        refused.err.contains("Dockerfile:2:5: `--mount"),
        "{}",
        refused.err
    );
    let refused = build("FROM base\nCOPY none /\nCOPY ignored/secret /\n");
    for part in [
        "Dockerfile:2:1: there is no `none`",
        "Dockerfile:3:1: there is no",
    ] {
        assert!(refused.err.contains(part), "{part}: {}", refused.err);
    }
    let history = template(&installation, &["history", "broken", "--json"]);
    let history: Value = serde_json::from_str(&history.out).unwrap();
    assert_eq!(history["builds"].as_array().unwrap().len(), 1);
    let missing = build("FROM base AS one\nRUN true\nFROM base\nCOPY --from=one /nope /x\n");
    assert!(
        missing.err.contains("Dockerfile:4:1: there is no"),
        "{}",
        missing.err
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_cancels_the_build_on_the_server() {
    let installation = Installation::start();
    let context = directory("FROM base\nRUN echo running; sleep 300\n");
    let mut command = installation.client_command(&["template", "build"]);
    command
        .arg(context.path())
        .args(["-n", "slow", "--json"])
        .stdout(fs::File::create(context.path().join("out")).unwrap())
        .stderr(fs::File::create(context.path().join("err")).unwrap());
    let mut child = command.spawn().unwrap();
    let read = |name: &str| fs::read_to_string(context.path().join(name)).unwrap();
    wait_until(Duration::from_secs(60), async || {
        let out = read("out");
        out.contains("[stdout]: running").then_some(()).ok_or(out)
    })
    .await;
    interrupt(child.id());
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{}", read("err"));
    assert!(read("err").contains("was cancelled"), "{}", read("err"));
    let history = json(&installation, &["history", "slow"]);
    assert_eq!(history["builds"][0]["reason"], "build was cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_in_a_terminal_shows_what_runs_and_then_what_it_took() {
    let installation = Installation::start();
    let waits = "RUN echo said-$((40+2)); until [ -e /go ]; do sleep 0.1; done";
    let context = directory(&format!("FROM base\nCOPY data /data\n{waits}\n"));
    let mut command = installation.client_command(&["template", "build"]);
    command.arg(context.path()).args(["-n", "seen"]);
    let mut screen = Screen::open(&command);
    screen.expect("uploaded ");
    screen.expect("COPY data /data  ");
    // One line that is drawn again and again, with the last words of what runs.
    wait_for(TERMINAL_TIMEOUT, || {
        let drawn = screen.shown().matches("] said-42").count();
        (drawn > 2).then_some(()).ok_or(drawn)
    });

    let mut again = installation.client_command(&["template", "build"]);
    let short = directory("FROM base\nCOPY data /data\nRUN echo said-so\n");
    again.arg(short.path()).args(["-n", "seen"]);
    let newer = Screen::open(&again);
    newer.expect("CACHED COPY data /data");
    newer.expect("RUN echo said-so  ");
    newer.expect("seen:");
    // The newer build has ended the older one, which says so and leaves the terminal.
    screen.expect("build was cancelled");
    let ended = wait_for(TERMINAL_TIMEOUT, || {
        screen.program.try_wait().unwrap().ok_or("it goes on")
    });
    assert!(!ended.success(), "{}", screen.shown());
}

fn interrupt(pid: u32) {
    let sent = Command::new("kill")
        .args(["-INT", &pid.to_string()])
        .status();
    assert!(sent.unwrap().success());
}
