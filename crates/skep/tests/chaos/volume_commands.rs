//! `skep volume`, against a real server.

use std::fs;

use serde_json::{Value, json};
use skep_client::{NewSandbox, VolumeMount};

use crate::installation::Installation;

/// Exit code of a command, and what it wrote.
struct Done {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Done {
    /// Its data, if it went well.
    #[track_caller]
    fn json(&self) -> Value {
        assert_eq!(self.code, Some(0), "{}", self.err);
        serde_json::from_str(&self.out).unwrap()
    }

    /// Fails unless it was refused as the caller's mistake, with this text and a hint or a reason.
    #[track_caller]
    fn is_refused_with(&self, text: &str) {
        assert_eq!(self.code, Some(1), "{}{}", self.out, self.err);
        assert!(self.err.contains(text), "{}", self.err);
    }
}

/// Runs `skep volume` with these words, which have no blanks of their own.
fn volume(installation: &Installation, words: &str) -> Done {
    let arguments: Vec<_> = ["volume"]
        .into_iter()
        .chain(words.split_whitespace())
        .collect();
    let output = installation.client_command(&arguments).output().unwrap();
    Done {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn files_go_to_a_volume_and_come_back_from_the_command_line() {
    let installation = Installation::start();
    let volume = |words: &str| volume(&installation, words);
    let made = volume("create data --size 64");
    assert_eq!(made.code, Some(0), "{}", made.err);
    let id = made.out.trim();
    assert!(made.err.contains(r#"volume_mounts={"/mnt/data": "data"}"#));
    volume("create data").is_refused_with("already exists");
    let listed = volume("list --json").json();
    assert_eq!(listed[0]["name"], "data");
    assert_eq!(listed[0]["volumeID"], id);
    assert_eq!(listed[0]["skep"]["sizeMB"], 64);
    assert!(!listed.to_string().contains("token"), "{listed}");

    let host = tempfile::tempdir().unwrap();
    let place = |path: &str| host.path().join(path).to_str().unwrap().to_owned();
    fs::create_dir_all(place("in/below")).unwrap();
    fs::write(place("in/one.txt"), "one\n").unwrap();
    fs::write(place("in/below/two.bin"), vec![7; 300_000]).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", place("in/link")).unwrap();
    let sent = volume(&format!("cp {} data:/kept --json", place("in"))).json();
    assert_eq!(sent, json!({"files": 2, "bytes": 300_004, "skipped": 1}));
    let listed = volume("ls data --depth 3 --json").json();
    let paths: Vec<_> = listed.as_array().unwrap().iter().collect();
    let paths: Vec<_> = paths.iter().map(|entry| &entry["path"]).collect();
    assert_eq!(
        paths,
        [
            "/kept",
            "/kept/below",
            "/kept/below/two.bin",
            "/kept/one.txt"
        ]
    );
    let table = volume("ls data:/kept").out;
    assert!(
        table.contains("/kept/below/") && table.contains("/kept/one.txt"),
        "{table}"
    );
    assert!(!table.contains("two.bin"), "one level: {table}");

    assert_eq!(volume("cp data:/kept/one.txt -").out, "one\n");
    let back = volume(&format!("cp data:/kept {}", place("out")));
    assert_eq!(back.code, Some(0), "{}", back.err);
    assert!(
        back.err.contains("copied 2 files, 300004 bytes"),
        "{}",
        back.err
    );
    assert_eq!(
        fs::read(place("out/below/two.bin")).unwrap(),
        vec![7; 300_000]
    );
    volume("cp data:/none -").is_refused_with("/none");
    volume("cp data:/kept data:/again").is_refused_with("skep volume clone");
    volume("ls other").is_refused_with("there is no volume `other`");

    assert_eq!(volume("rm data:/kept/below").code, Some(0));
    let left = volume("ls data:/kept --json").json();
    assert_eq!(left.as_array().unwrap().len(), 1, "{left}");
    assert_eq!(left[0]["path"], "/kept/one.txt");
    let removed = volume(&format!("rm {id} --json")).json();
    assert_eq!(
        removed,
        json!({"volume": "data", "path": null, "removed": true})
    );
    assert_eq!(volume("list --json").json(), json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_stays_as_it_was_and_a_volume_in_use_is_kept() {
    let installation = Installation::start();
    let client = installation.client();
    let volume = |words: &str| volume(&installation, words);
    let host = tempfile::tempdir().unwrap();
    let file = host.path().join("file").to_str().unwrap().to_owned();
    let write = |text: &str, place: &str| {
        fs::write(&file, text).unwrap();
        volume(&format!("cp {file} {place}"))
    };
    assert_eq!(volume("create data").code, Some(0));
    assert_eq!(write("then", "data:/a").code, Some(0));

    let snapshot = volume("snapshot data monday --json").json();
    assert_eq!(snapshot["skep"]["readOnly"], true);
    let clone = volume("clone monday try --json").json();
    assert_eq!(clone["skep"]["readOnly"], false);
    assert!(clone.get("token").is_none(), "{clone}");
    assert_eq!(write("now", "data:/a").code, Some(0));
    assert_eq!(write("else", "try:/a").code, Some(0));
    assert_ne!(write("x", "monday:/a").code, Some(0), "it is a snapshot");
    for (place, text) in [
        ("data:/a", "now"),
        ("monday:/a", "then"),
        ("try:/a", "else"),
    ] {
        assert_eq!(volume(&format!("cp {place} -")).out, text, "{place}");
    }

    let new = NewSandbox {
        template_id: "base".to_owned(),
        volume_mounts: Some(vec![VolumeMount {
            name: "try".to_owned(),
            path: "/mnt".to_owned(),
            read_only: false,
        }]),
        ..NewSandbox::default()
    };
    let sandbox = client.sandboxes().create(&new).await.unwrap();
    let info = volume("info try --json").json();
    assert_eq!(info["skep"]["usedBy"], json!([sandbox.id()]));
    let info = volume("info try").out;
    assert!(
        info.contains(sandbox.id()) && info.contains("read-write"),
        "{info}"
    );
    assert!(volume("info monday").out.contains("read-only"));
    volume("rm try").is_refused_with(sandbox.id());
    sandbox.kill().await.unwrap();
    for name in ["try", "monday", "data"] {
        assert_eq!(volume(&format!("rm {name}")).code, Some(0), "{name}");
    }
    assert_eq!(volume("list --json").json(), json!([]));
}
