//! Sandboxes that are made of snapshots, and lie on their disks.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use skep_client::{Client, Sandbox};
use skep_wire::rest::ForkedSandbox;

use crate::installation::Installation;
use crate::machine::Traces;
use crate::sleep::{create, create_from, fetch_criu, run};

/// Writes more than is worth a copy, and changes files of the template in every way.
const CHANGE: &str = "head -c 100M /dev/urandom > large && sha256sum < large > sum && echo first > note \
                      && mkdir a && echo deep > a/file && mv a b && sync";
const LOOK: &str = "sha256sum < large | cmp - sum && cat note b/file && ls -d a 2>/dev/null; true";

/// Disks that a sandbox lies on.
fn disks_below(installation: &Installation, sandbox: &Sandbox) -> usize {
    let directory = installation.data_dir().join("sandboxes").join(sandbox.id());
    let entries = std::fs::read_dir(directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("below-")).count()
}

fn shares_blocks(directory: &Path) -> bool {
    let path = directory.join("block");
    std::fs::write(&path, "1").unwrap();
    let from = std::fs::File::open(&path).unwrap();
    let to = std::fs::File::create(directory.join("shared")).unwrap();
    rustix::fs::ioctl_ficlone(to, from).is_ok()
}

/// Free space on its disk, in MiB.
async fn free(sandbox: &Sandbox) -> u64 {
    let free = "df --output=avail -BM / | tail -1 | tr -dc 0-9";
    run(sandbox, free).await.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_of_a_snapshot_share_its_disk_and_outlive_it() {
    fetch_criu();
    let mut installation = Installation::start();
    let directory = tempfile::tempdir_in(installation.data_dir()).unwrap();
    let client = installation.client();
    let source = create(&client).await;
    let at_first = free(&source).await;
    run(&source, CHANGE).await;
    let snapshot = source.snapshot(None, false).await.unwrap().snapshot_id;
    let (one, other) = (
        create_from(&client, &snapshot).await,
        create_from(&client, &snapshot).await,
    );
    client.forget_snapshot(&snapshot).await.unwrap();
    source.kill().await.unwrap();

    for sandbox in [&one, &other] {
        assert_eq!(run(sandbox, LOOK).await, "first\ndeep");
        let free = free(sandbox).await;
        assert!(free < at_first - 90, "{free} of {at_first} MiB are free");
        if !shares_blocks(directory.path()) {
            assert_eq!(disks_below(&installation, sandbox), 1);
            let disk = installation.data_dir().join("sandboxes").join(sandbox.id());
            let blocks = std::fs::metadata(disk.join("disk.img")).unwrap().blocks();
            assert!(blocks * 512 < 32 << 20, "{blocks} blocks were copied");
        }
    }
    run(&one, "echo second > note; rm b/file; echo more >> large").await;
    assert_eq!(run(&other, LOOK).await, "first\ndeep", "each its own");

    // Neither another server nor a pause nor one more snapshot loses what lies below.
    installation.kill();
    installation.restart();
    let client = installation.client();
    let one = client.sandbox(one.id());
    one.pause(false).await.unwrap();
    one.resume(None).await.unwrap();
    let kept = "cat note; ls b | wc -l; tail -c 5 large";
    assert_eq!(run(&one, kept).await, "second\n0\nmore");
    let snapshot = one.snapshot(None, false).await.unwrap().snapshot_id;
    one.kill().await.unwrap();
    let third = create_from(&client, &snapshot).await;
    client.forget_snapshot(&snapshot).await.unwrap();
    assert_eq!(run(&third, kept).await, "second\n0\nmore");
    let mut all = vec![third, client.sandbox(other.id())];
    all.push(forked(&client, &all[0]).await);
    assert_eq!(run(&all[2], kept).await, "second\n0\nmore");
    for sandbox in all {
        sandbox.kill().await.unwrap();
    }
    drop(directory);
    installation.stop();
    assert_eq!(Traces::find(&installation), Traces::default());
}

/// A copy with memory.
async fn forked(client: &Client, sandbox: &Sandbox) -> Sandbox {
    let copies = sandbox.fork(1).await.unwrap();
    match copies.into_iter().next() {
        Some(ForkedSandbox::Sandbox(copy)) => client.sandbox(&copy.sandbox_id),
        other => panic!("{other:?}"),
    }
}
