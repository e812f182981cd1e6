//! Volumes: of a server that is killed, of files of any size, of sandboxes that sleep.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use serde_json::json;
use skep_client::{
    Client, NewSandbox, NewVolume, Sandbox, SandboxState, VolumeAndToken, VolumeEntryKind,
    VolumeFiles, VolumeMount,
};
use skep_telemetry::Chain;
use skep_testkit::wait_until;

use crate::installation::Installation;
use crate::mcp::Agent;
use crate::sleep::{run, state};

const MIB: usize = 1 << 20;
const TIMEOUT: Duration = Duration::from_secs(120);
/// Files that are taken before the server is killed, in each round.
const ROUNDS: [usize; 4] = [1, 7, 20, 40];
/// Callers that write at the same time.
const WRITERS: usize = 3;
/// Bytes that come of an upload which never ends.
const TORN: usize = 8 * MIB;
/// Size of a file that passes through the server.
const LARGE: usize = 1024 * MIB;
/// Growth of the server's memory that is no sign of a file: buffers of both ends, and what an allocator keeps.
const GROWTH: u64 = 64 << 20;

async fn make(client: &Client, name: &str) -> VolumeAndToken {
    let new = NewVolume {
        name: name.to_owned(),
        skep: None,
    };
    client.volumes().create(&new).await.unwrap()
}

async fn create_with(client: &Client, volume: &str) -> Sandbox {
    let mount = VolumeMount {
        name: volume.to_owned(),
        path: "/mnt".to_owned(),
        read_only: false,
    };
    let body = NewSandbox {
        template_id: "base".to_owned(),
        timeout: Some(600),
        volume_mounts: Some(vec![mount]),
        ..NewSandbox::default()
    };
    client.sandboxes().create(&body).await.unwrap()
}

async fn read(files: &VolumeFiles, path: &str) -> Vec<u8> {
    let mut content = Vec::new();
    let mut stream = files.download(path).await.unwrap();
    while let Some(piece) = stream.next().await.unwrap() {
        content.extend_from_slice(&piece);
    }
    content
}

/// The content of a file, which a part of it is not.
fn content(path: &str) -> Vec<u8> {
    format!("{path}\n").repeat(5000).into_bytes()
}

/// Writes one file after another until the server is gone, and notes those that it has taken.
async fn write_forever(files: VolumeFiles, folder: String, taken: Arc<Mutex<BTreeSet<String>>>) {
    for number in 0.. {
        let path = format!("{folder}-{number}");
        if files.write(&path, content(&path)).await.is_err() {
            return;
        }
        taken.lock().insert(path);
    }
}

/// Bytes that the volume's filesystem takes.
async fn used(client: &Client, volume: &VolumeAndToken) -> u64 {
    let found = client.volumes().get(&volume.volume.volume_id).await;
    found.unwrap().volume.skep.used_bytes.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_server_loses_no_file_that_it_has_taken_and_keeps_no_part_of_another() {
    let mut installation = Installation::start();
    let volume = make(&installation.client(), "kept").await;
    let empty = used(&installation.client(), &volume).await;
    let taken = Arc::new(Mutex::new(BTreeSet::new()));
    for (round, count) in ROUNDS.into_iter().enumerate() {
        let files = installation.client().volumes().files(&volume);
        let (before, (sent, sends)) = (taken.lock().len(), tokio::sync::oneshot::channel::<()>());
        let mut sent = Some(sent);
        let beginning = stream::iter((0..TORN / MIB).map(|_| Ok(Bytes::from(vec![1; MIB]))));
        let torn = beginning.chain(stream::poll_fn(move |_| {
            drop(sent.take());
            std::task::Poll::Pending
        }));
        let mut callers = tokio::task::JoinSet::new();
        let (own, length) = (files.clone(), u64::try_from(LARGE).unwrap());
        callers.spawn(async move {
            own.upload("/torn", length, torn).await.unwrap_err();
        });
        for writer in 0..WRITERS {
            let folder = format!("/{round}/{writer}");
            callers.spawn(write_forever(files.clone(), folder, Arc::clone(&taken)));
        }
        // All that comes of it was sent.
        assert!(sends.await.is_err());
        wait_until(TIMEOUT, async || match taken.lock().len() - before {
            there if there >= count => Ok(()),
            there => Err(format!("{there} files were taken")),
        })
        .await;
        installation.kill();
        callers.join_all().await;
        installation.restart();

        let client = installation.client();
        let files = client.volumes().files(&volume);
        let listed: BTreeSet<_> = files
            .list("/", 2)
            .await
            .unwrap()
            .iter()
            .filter(|entry| entry.kind == VolumeEntryKind::File)
            .map(|entry| entry.path.clone())
            .collect();
        let lost: Vec<_> = taken.lock().difference(&listed).cloned().collect();
        assert!(lost.is_empty(), "{lost:?}");
        assert!(!listed.contains("/torn"));
        for path in &listed {
            assert_eq!(read(&files, path).await, content(path), "{path}");
        }
        let whole: usize = listed.iter().map(|path| content(path).len() + 8192).sum();
        // What was torn is removed while the volume is in use again.
        wait_until(TIMEOUT, async || {
            let more = used(&client, &volume).await.saturating_sub(empty);
            if more < (whole + TORN / 2) as u64 {
                Ok(())
            } else {
                Err(format!("{more} bytes for {whole}"))
            }
        })
        .await;
    }
    let client = installation.client();
    client
        .volumes()
        .delete(&volume.volume.volume_id)
        .await
        .unwrap();
}

/// The memory of a process, and the most that it has had.
struct Memory {
    process: PathBuf,
    before: u64,
}

impl Memory {
    /// Begins to count anew.
    fn of(pid: u32) -> Self {
        let process = PathBuf::from(format!("/proc/{pid}"));
        // Written so, the kernel forgets the most that there was.
        std::fs::write(process.join("clear_refs"), "5").unwrap();
        let before = status(&process, "VmRSS:");
        Self { process, before }
    }

    #[track_caller]
    fn has_stayed(&self, after: &str) {
        let most = status(&self.process, "VmHWM:");
        let growth = most.saturating_sub(self.before);
        eprintln!(
            "{after}: {} KiB more than {} KiB",
            growth >> 10,
            self.before >> 10
        );
        assert!(growth < GROWTH, "{after}: {growth} bytes more");
    }
}

fn status(process: &std::path::Path, name: &str) -> u64 {
    let status = std::fs::read_to_string(process.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kibibytes = line.unwrap().trim().trim_end_matches(" kB");
    kibibytes.parse::<u64>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_any_size_passes_through_a_server_whose_memory_stays_as_it_was() {
    let installation = Installation::start();
    let client = installation.client();
    let volume = make(&client, "large").await;
    let files = client.volumes().files(&volume);
    let sandbox = create_with(&client, "large").await;
    // It takes no space, and its bytes are as many.
    run(
        &sandbox,
        &format!("truncate -s {LARGE} /mnt/sparse sparse; echo small > /mnt/small"),
    )
    .await;
    assert_eq!(read(&files, "/small").await, b"small\n");
    let server = Memory::of(installation.server_pid().unwrap());

    let mut stream = files.download("/sparse").await.unwrap();
    let mut count = 0;
    while let Some(piece) = stream.next().await.unwrap() {
        count += piece.len();
    }
    assert_eq!(count, LARGE);
    server.has_stayed("a download");

    let piece = Bytes::from(vec![7; MIB]);
    let pieces = stream::iter((0..LARGE / MIB).map(move |_| Ok(piece.clone())));
    let length = u64::try_from(LARGE).unwrap();
    let entry = files.upload("/large", length, pieces).await.unwrap();
    assert_eq!(entry.size, length);
    server.has_stayed("an upload");
    files.remove("/large").await.unwrap();

    // Tools for models do not even try.
    let mut agent = Agent::start(&installation, None, &[]);
    let program = Memory::of(agent.pid());
    for path in ["sparse", "/mnt/sparse"] {
        let (text, failed) =
            agent.call("read_file", &json!({"path": path, "sandbox": sandbox.id()}));
        assert!(
            failed && text.contains("too large to be read whole"),
            "{text}"
        );
    }
    program.has_stayed("files that are too large for a tool, in `skep mcp`");
    server.has_stayed("files that are too large for a tool");
    agent.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_sleeps_keeps_its_volume_and_does_not_wake_without_it() {
    let mut installation = Installation::start();
    let client = installation.client();
    let volume = make(&client, "needed").await;
    let volume_id = volume.volume.volume_id.clone();
    let sandbox = create_with(&client, "needed").await;
    let id = sandbox.id().to_owned();
    run(&sandbox, "echo mine > /mnt/note").await;
    for keep_memory in [true, false] {
        installation
            .client()
            .sandbox(&id)
            .pause(keep_memory)
            .await
            .unwrap();
        installation.kill();
        installation.restart();
        let client = installation.client();
        let refused = client.volumes().delete(&volume_id).await.unwrap_err();
        assert_eq!(refused.status(), Some(409));
        let said = Chain(&refused).to_string();
        assert!(
            said.contains(&id) && said.contains("paused ones count"),
            "{said}"
        );
        if keep_memory {
            client.sandbox(&id).resume(None).await.unwrap();
        }
    }

    // Somebody takes the files away.
    installation.stop();
    let place = installation
        .data_dir()
        .join("volumes")
        .join(format!("{volume_id}.ext4"));
    let elsewhere = installation.executables().join("elsewhere");
    std::fs::rename(&place, &elsewhere).unwrap();
    installation.restart();
    let client = installation.client();
    let refused = client.sandbox(&id).resume(None).await.unwrap_err();
    let said = Chain(&refused).to_string();
    assert_eq!(refused.status(), Some(409), "{said}");
    assert!(
        said.contains("stays paused") && said.contains("'needed'"),
        "{said}"
    );
    assert_eq!(state(&client, &id).await, SandboxState::Paused);

    std::fs::rename(&elsewhere, &place).unwrap();
    let sandbox = client.sandbox(&id);
    sandbox.resume(None).await.unwrap();
    assert_eq!(run(&sandbox, "cat /mnt/note").await, "mine");
    sandbox.kill().await.unwrap();
    client.volumes().delete(&volume_id).await.unwrap();
}
