//! A server whose disk fills up.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use skep_client::{Client, ClientError, Command, NewSandbox, Sandbox};
use skep_testkit::wait_until;

use crate::installation::Installation;

const TIMEOUT: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;
/// The server's whole disk. Sandboxes may write more than that.
const DISK: u64 = 600;
/// Free space when it is nearly full: less than a new sandbox is expected to need.
const LITTLE: u64 = 16 * MIB;

/// A file that takes room.
struct Filler {
    path: PathBuf,
}

impl Filler {
    /// Leaves so many bytes of the disk that `folder` is on.
    fn leaving(folder: &Path, bytes: u64) -> Self {
        let path = folder.join("filler");
        let disk = rustix::fs::statvfs(folder).unwrap();
        let size = (disk.f_bavail * disk.f_frsize).saturating_sub(bytes);
        let file = File::create(&path).unwrap();
        let flags = rustix::fs::FallocateFlags::empty();
        rustix::fs::fallocate(&file, flags, 0, size).unwrap();
        Self { path }
    }

    /// Takes the rest.
    fn fill(&self) {
        let mut file = OpenOptions::new().append(true).open(&self.path).unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        file.sync_all().ok();
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).unwrap();
    }
}

async fn create(client: &Client) -> Result<Sandbox, ClientError> {
    let body = NewSandbox {
        template_id: "base".to_owned(),
        timeout: Some(3600),
        ..NewSandbox::default()
    };
    client.sandboxes().create(&body).await
}

/// Runs a script and says how it ended.
async fn run(sandbox: &Sandbox, script: &str) -> Result<i32, ClientError> {
    let command = Command::new("sh").args(["-c", script]);
    Ok(sandbox.commands().run(command).await?.code)
}

async fn reason(client: &Client, sandbox: &Sandbox) -> Option<String> {
    let records = client.sandboxes().records(true).await.unwrap();
    records
        .into_iter()
        .find(|record| record.sandbox_id == sandbox.id())
        .unwrap()
        .end_reason
}

async fn metric(client: &Client, name: &str) -> Option<f64> {
    let text = client.server_metrics().await.unwrap();
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_fills_up_refuses_new_sandboxes_and_loses_nothing_of_the_record() {
    let mut installation = Installation::start_on_disk_of(DISK);
    let client = installation.client();
    let quiet = create(&client).await.unwrap();
    let writer = create(&client).await.unwrap();
    // A sandbox that fills its own disk is told so and lives.
    let own = "head -c 200M /dev/zero > /var/tmp/own; test $? != 0 && rm /var/tmp/own";
    assert_eq!(run(&quiet, own).await.unwrap(), 0);

    let filler = Filler::leaving(&installation.data_dir(), LITTLE);
    let refused = wait_until(TIMEOUT, async || match create(&client).await {
        Ok(sandbox) => Err(format!("{} was admitted", sandbox.id())),
        Err(error) => Ok(error),
    })
    .await;
    let said = skep_telemetry::Chain(&refused).to_string();
    assert!(said.contains("short of disk space"), "{said}");
    let refusals = "skep_create_refused_total{reason=\"disk\"}";
    assert!(metric(&client, refusals).await >= Some(1.0));
    assert!(metric(&client, "skep_host_room").await == Some(0.0));

    // What those that run write all the same is lost, and they end for that reason.
    let write = "head -c 100M /dev/urandom > /var/tmp/lost; sync";
    // It may be cut off by its end.
    let _wrote = run(&writer, write).await;
    wait_until(TIMEOUT, async || {
        let reason = reason(&client, &writer).await;
        match reason.as_deref() {
            Some("disk_full") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert_eq!(run(&quiet, "true").await.unwrap(), 0);

    // Not a byte is left, and the database still takes the end of a sandbox.
    filler.fill();
    quiet.kill().await.unwrap();
    installation.kill();
    installation.restart();
    let client = installation.client();
    assert_eq!(reason(&client, &quiet).await.as_deref(), Some("killed"));
    assert_eq!(reason(&client, &writer).await.as_deref(), Some("disk_full"));

    drop(filler);
    let again = wait_until(TIMEOUT, async || {
        let created = create(&client).await;
        created.map_err(|error| skep_telemetry::Chain(&error).to_string())
    })
    .await;
    assert_eq!(run(&again, "true").await.unwrap(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_admission_a_full_disk_takes_another_sandbox() {
    let mut installation = Installation::start_on_disk_of(DISK);
    installation.stop();
    installation.configure("[limits]\ndisk_mib = 150\n[admission]\nenabled = false\n");
    installation.restart();
    let client = installation.client();
    create(&client).await.unwrap();
    let _filler = Filler::leaving(&installation.data_dir(), LITTLE);
    create(&client).await.unwrap();
}
