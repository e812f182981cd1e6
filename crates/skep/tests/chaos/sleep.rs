//! Sleeping sandboxes, and servers that are killed meanwhile.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use parking_lot::Mutex;
use skep_checkpoint::Criu;
use skep_client::{Client, Command, NewSandbox, Sandbox, SandboxState};

use crate::installation::{CACHE, Installation};
use crate::machine::Traces;

/// Moments at which a server is killed, after pauses and resumes have begun. A pause takes some
/// milliseconds, one without memory and its resume some hundred.
const MOMENTS: [u64; 8] = [0, 2, 5, 10, 20, 60, 150, 400];

/// The same for a sandbox that is made of an image: the restore takes some hundred milliseconds, and is
/// written down at its end.
const WAKING: [u64; 8] = [20, 80, 140, 180, 220, 260, 320, 500];

/// Time limit for a sandbox to be written to the disk.
const STORED: Duration = Duration::from_secs(120);

pub(crate) async fn create(client: &Client) -> Sandbox {
    create_from(client, "base").await
}

pub(crate) async fn create_from(client: &Client, template: &str) -> Sandbox {
    let body = NewSandbox {
        template_id: template.to_owned(),
        timeout: Some(600),
        ..NewSandbox::default()
    };
    client.sandboxes().create(&body).await.unwrap()
}

pub(crate) async fn run(sandbox: &Sandbox, script: &str) -> String {
    let command = Command::new("/bin/sh").args(["-c", script]);
    let output = sandbox.commands().run(command).await.unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub(crate) async fn state(client: &Client, id: &str) -> SandboxState {
    client.sandbox(id).info().await.unwrap().listed.state
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_sandboxes_are_found_paused_by_the_next_server_and_go_on() {
    let mut installation = Installation::start();
    let client = installation.client();
    let (frozen, kept) = (create(&client).await, create(&client).await);
    for sandbox in [&frozen, &kept] {
        run(
            sandbox,
            "echo mine > note; nohup sleep 600 > /dev/null 2>&1 &",
        )
        .await;
    }
    frozen.pause(true).await.unwrap();
    kept.pause(false).await.unwrap();
    installation.kill();
    installation.restart();

    let client = installation.client();
    for (sandbox, sleepers) in [(&frozen, "1"), (&kept, "0")] {
        let id = sandbox.id();
        assert_eq!(state(&client, id).await, SandboxState::Paused);
        let sandbox = client.sandbox(id);
        sandbox.resume(None).await.unwrap();
        assert_eq!(run(&sandbox, "cat note").await, "mine");
        assert_eq!(run(&sandbox, "pgrep -c sleep || true").await, sleepers);
        sandbox.pause(true).await.unwrap();
        sandbox.kill().await.unwrap();
    }
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}

/// Makes sure that servers which are started from now on find CRIU, as `skep up` does.
pub(crate) fn fetch_criu() {
    fetch_criu_into(&CACHE);
}

/// The same for servers with another cache.
pub(crate) fn fetch_criu_into(cache: &OsStr) {
    // Two at a time would write the same files.
    static FETCHING: Mutex<()> = Mutex::new(());
    let _alone = FETCHING.lock();
    let data = tempfile::tempdir().unwrap();
    let fetched = Criu::fetched_in(Path::new(cache));
    let find = || Criu::find(&fetched, &data.path().join("criu"));
    if find().is_ok() {
        return;
    }
    let fetching = std::process::Command::new(env!("CARGO_BIN_EXE_skep"))
        .args(["doctor", "--fetch", "--data-dir"])
        .arg(data.path())
        .env("SKEP_CACHE_DIR", cache)
        .output();
    let said = fetching.unwrap();
    if let Err(error) = find() {
        panic!("no criu: {error}: {said:?}");
    }
}

/// Waits until a paused sandbox is in an image and has nothing else on the host.
pub(crate) async fn wait_until_stored(installation: &Installation, id: &str) {
    let directory = installation.data_dir().join("sandboxes").join(id);
    skep_testkit::wait_until(STORED, async || {
        let images = std::fs::read_dir(installation.data_dir().join("images")).unwrap();
        if images.count() > 0 && !directory.exists() {
            Ok(())
        } else {
            Err("it has processes")
        }
    })
    .await;
}

/// Counts in a file, for as long as it lives.
pub(crate) const COUNTER: &str = "nohup sh -c 'i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.05; done' \
                       > /dev/null 2>&1 &";

/// The counter's next value, when it has changed.
pub(crate) async fn next_count(sandbox: &Sandbox) -> u64 {
    // It is empty for a moment while it is written.
    let script = "old=$(cat count); while new=$(cat count); [ -z \"$new\" ] || [ \"$new\" = \"$old\" ]; \
                  do sleep 0.02; done; echo $new";
    run(sandbox, script).await.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_on_the_disk_goes_on_where_it_stopped_under_the_next_server() {
    fetch_criu();
    let mut installation = Installation::start_configured("[pause]\ncheckpoint_after = 1\n");
    let sandbox = create(&installation.client()).await;
    let id = sandbox.id().to_owned();
    run(&sandbox, COUNTER).await;
    let mut count = next_count(&sandbox).await;
    for _ in 0..2 {
        let sandbox = installation.client().sandbox(&id);
        sandbox.pause(true).await.unwrap();
        wait_until_stored(&installation, &id).await;
        installation.kill();
        installation.restart();
        let client = installation.client();
        assert_eq!(state(&client, &id).await, SandboxState::Paused);
        let sandbox = client.sandbox(&id);
        sandbox.resume(None).await.unwrap();
        let next = next_count(&sandbox).await;
        assert!(next > count && next < count + 1000, "{count} to {next}");
        assert_eq!(run(&sandbox, "pgrep -fc 'i=[0]' || true").await, "1");
        count = next;
    }
    installation.client().sandbox(&id).kill().await.unwrap();
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}

/// Inodes of what the first processes of an installation's sandboxes execute.
fn executed_by_agents(installation: &Installation) -> BTreeSet<u64> {
    let all = std::fs::read_dir("/proc").unwrap();
    let sandboxes = all.filter_map(|process| {
        let path = process.unwrap().path();
        let is_own = std::fs::read_link(path.join("exe"))
            .is_ok_and(|exe| exe.starts_with(installation.executables()));
        // The first of its pid namespace: servers and launchers have but one number.
        let status = std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let is_first = status
            .lines()
            .any(|line| line.starts_with("NSpid:") && line.split_whitespace().nth(2) == Some("1"));
        let inode = || Some(std::fs::metadata(path.join("exe")).ok()?.ino());
        (is_own && is_first).then(inode).flatten()
    });
    sandboxes.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_older_build_has_written_goes_on_under_a_newer_one() {
    fetch_criu();
    let mut installation = Installation::start_configured("[pause]\ncheckpoint_after = 1\n");
    let sandbox = create(&installation.client()).await;
    let id = sandbox.id().to_owned();
    run(&sandbox, COUNTER).await;
    let mut count = next_count(&sandbox).await;
    let old = executed_by_agents(&installation);
    assert_eq!(old.len(), 1);
    for _ in 0..2 {
        let sandbox = installation.client().sandbox(&id);
        sandbox.pause(true).await.unwrap();
        wait_until_stored(&installation, &id).await;
        installation.stop();
        installation.upgrade();
        installation.restart();
        let sandbox = installation.client().sandbox(&id);
        sandbox.resume(None).await.unwrap();
        let executed = executed_by_agents(&installation);
        assert!(executed.is_superset(&old), "{executed:?} without {old:?}");
        let next = next_count(&sandbox).await;
        assert!(next > count && next < count + 1000, "{count} to {next}");
        count = next;
    }
    let client = installation.client();
    let new = create(&client).await;
    assert_eq!(run(&new, "echo runs").await, "runs");
    for id in [&id, new.id()] {
        client.sandbox(id).kill().await.unwrap();
    }
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_whose_memory_is_compressed_goes_on_also_if_its_server_was_killed() {
    fetch_criu();
    let pause = "[pause]\ncheckpoint_after = 0\ncompress_after = 1\n";
    let mut installation = Installation::start_configured(pause);
    let sandbox = create(&installation.client()).await;
    let id = sandbox.id().to_owned();
    run(&sandbox, COUNTER).await;
    let mut count = next_count(&sandbox).await;
    for is_killed in [false, true] {
        let sandbox = installation.client().sandbox(&id);
        sandbox.pause(true).await.unwrap();
        wait_until_stored(&installation, &id).await;
        skep_testkit::wait_until(STORED, async || {
            let names = memory_files(&installation);
            if names.iter().any(|name| name.ends_with(".gz")) {
                Ok(())
            } else {
                Err(names.join(" "))
            }
        })
        .await;
        if is_killed {
            installation.kill();
            installation.restart();
        }
        let sandbox = installation.client().sandbox(&id);
        sandbox.resume(None).await.unwrap();
        let next = next_count(&sandbox).await;
        assert!(next > count && next < count + 1000, "{count} to {next}");
        count = next;
    }
    installation.client().sandbox(&id).kill().await.unwrap();
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}

/// Names of the files with memory in all images.
fn memory_files(installation: &Installation) -> Vec<String> {
    let images = std::fs::read_dir(installation.data_dir().join("images")).unwrap();
    let files = images.flat_map(|image| {
        let processes = image.unwrap().path().join("processes");
        std::fs::read_dir(processes).into_iter().flatten()
    });
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("pages-")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_while_it_writes_memory_loses_no_sandbox() {
    fetch_criu();
    let mut installation = Installation::start_configured("[pause]\ncheckpoint_after = 0\n");
    let sandbox = create(&installation.client()).await;
    let id = sandbox.id().to_owned();
    run(&sandbox, COUNTER).await;
    let mut count = next_count(&sandbox).await;
    for moment in MOMENTS {
        let sandbox = installation.client().sandbox(&id);
        // CRIU of the server that was killed may have hold of the sandbox still, which is answered with "try again".
        skep_testkit::wait_until(STORED, async || sandbox.pause(true).await).await;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        installation.kill();
        installation.restart();
        let client = installation.client();
        assert_eq!(state(&client, &id).await, SandboxState::Paused);
        let sandbox = client.sandbox(&id);
        sandbox.resume(None).await.unwrap();
        let next = next_count(&sandbox).await;
        assert!(next > count, "{count} to {next} after {moment} ms");
        count = next;
    }
    installation.client().sandbox(&id).kill().await.unwrap();
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}

/// Writes one number after another to the end of a file, from its memory. A disk that is not of the
/// moment of the memory has numbers twice, or lacks some, and so has one that two write to.
pub(crate) const LEDGER: &str = "nohup sh -c 'i=0; while :; do i=$((i+1)); echo $i >> ledger; sleep 0.01; done' \
                      > /dev/null 2>&1 &";

/// Waits until the ledger has grown, and requires that every number is there once.
pub(crate) async fn read_ledger(sandbox: &Sandbox, moment: u64) {
    let script = "old=$(wc -l < ledger); while [ $(wc -l < ledger) -le $((old + 2)) ]; do sleep 0.01; done; \
                  awk '$1 != NR { print NR, $1; exit }' ledger";
    let wrong = run(sandbox, script).await;
    assert_eq!(wrong, "", "line and number after {moment} ms");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_while_it_wakes_a_sandbox_mixes_nothing() {
    fetch_criu();
    let mut installation = Installation::start_configured("[pause]\ncheckpoint_after = 0\n");
    let sandbox = create(&installation.client()).await;
    let id = sandbox.id().to_owned();
    run(&sandbox, LEDGER).await;
    for moment in WAKING {
        let sandbox = installation.client().sandbox(&id);
        skep_testkit::wait_until(STORED, async || sandbox.pause(true).await).await;
        wait_until_stored(&installation, &id).await;
        let waking = skep_telemetry::spawn("wake", async move {
            // It may find its server gone, which is the point.
            drop(sandbox.resume(None).await);
        });
        tokio::time::sleep(Duration::from_millis(moment)).await;
        installation.kill();
        waking.await.unwrap();
        installation.restart();
        let client = installation.client();
        // Any other state than running or paused is no answer at all.
        state(&client, &id).await;
        let sandbox = client.sandbox(&id);
        sandbox.resume(None).await.unwrap();
        read_ledger(&sandbox, moment).await;
    }
    installation.client().sandbox(&id).kill().await.unwrap();
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_at_any_moment_leaves_each_sandbox_running_or_paused() {
    let mut installation = Installation::start();
    let client = installation.client();
    let ids: Vec<String> = [create(&client).await, create(&client).await]
        .map(|sandbox| sandbox.id().to_owned())
        .to_vec();
    for (id, text) in ids.iter().zip(["frozen", "kept"]) {
        run(&client.sandbox(id), &format!("echo {text} > note; sync")).await;
    }
    for moment in MOMENTS {
        let client = installation.client();
        let cycles = [(ids[0].clone(), true), (ids[1].clone(), false)];
        let working = cycles.map(|(id, memory)| {
            let sandbox = client.sandbox(&id);
            skep_telemetry::spawn("sleep and wake", async move {
                // Each call may find its server gone, which is the point.
                while sandbox.pause(memory).await.is_ok() && sandbox.resume(None).await.is_ok() {}
            })
        });
        tokio::time::sleep(Duration::from_millis(moment)).await;
        installation.kill();
        for working in working {
            working.await.unwrap();
        }
        installation.restart();
        let client = installation.client();
        for (id, text) in ids.iter().zip(["frozen", "kept"]) {
            // Any other state than running or paused is no answer at all.
            state(&client, id).await;
            let sandbox = client.sandbox(id);
            sandbox.resume(None).await.unwrap();
            assert_eq!(run(&sandbox, "cat note").await, text, "after {moment} ms");
        }
    }
    let client = installation.client();
    for id in &ids {
        client.sandbox(id).kill().await.unwrap();
    }
    let images = installation.data_dir().join("images");
    assert_eq!(
        std::fs::read_dir(images).unwrap().count(),
        0,
        "no image is left"
    );
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_whose_image_is_encrypted_goes_on_under_the_next_server() {
    use std::os::unix::fs::PermissionsExt as _;
    fetch_criu();
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("key");
    std::fs::write(&key, "5a".repeat(32)).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    let pause = format!(
        "[pause]\ncheckpoint_after = 0\nencryption_key_file = \"{}\"\n",
        key.display()
    );
    let mut installation = Installation::start_configured(&pause);
    let sandbox = create(&installation.client()).await;
    let id = sandbox.id().to_owned();
    run(&sandbox, COUNTER).await;
    let count = next_count(&sandbox).await;
    sandbox.pause(true).await.unwrap();
    wait_until_stored(&installation, &id).await;
    assert_eq!(memory_files(&installation), Vec::<String>::new());
    installation.kill();
    installation.restart();
    let sandbox = installation.client().sandbox(&id);
    sandbox.resume(None).await.unwrap();
    let next = next_count(&sandbox).await;
    assert!(next > count && next < count + 1000, "{count} to {next}");
    sandbox.kill().await.unwrap();
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}
