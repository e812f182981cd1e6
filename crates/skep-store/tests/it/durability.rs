//! Durability of writes when the server is killed, the disk fills or a file is damaged.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use skep_store::{Store, StoreError};
use skep_testkit::wait_until;

use crate::{Record, team};

/// Copies the files as they are now, which is what a new process finds after `kill -9`.
fn as_left_by_a_killed_process(directory: &Path) -> tempfile::TempDir {
    let copy = tempfile::TempDir::new().unwrap();
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        // The index of the log is rebuilt by whoever opens the database first.
        if !entry.file_name().to_string_lossy().ends_with("-shm") {
            fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
    }
    copy
}

#[tokio::test]
async fn what_was_recorded_is_there_after_the_process_was_killed() {
    let record = Record::new().await;
    let sandbox = record.sandbox();
    let inserting = record.store.sandboxes().insert(sandbox.clone(), None);
    inserting.recorded().await.unwrap();

    let copy = as_left_by_a_killed_process(record.directory.path());
    let reopened = Store::open(&copy.path().join("skep.db")).unwrap();
    let found = reopened.sandboxes().find(sandbox.id).await.unwrap();
    assert_eq!(found.unwrap().order.access_token, sandbox.access_token);
}

/// Nothing in user space can tell whether it reached the platter; but a sync that wrote nothing would
/// have nothing to wait for.
#[tokio::test]
async fn a_sync_comes_after_all_that_was_written_before_and_writes_itself() {
    let record = Record::new().await;
    record.store.flush().await.unwrap();
    let log = record.directory.path().join("skep.db-wal");
    for _ in 0..3 {
        let sandbox = record.sandbox();
        let inserting = record.store.sandboxes().insert(sandbox.clone(), None);
        record.store.sync().recorded().await.unwrap();
        let found = record.store.sandboxes().find(sandbox.id).await.unwrap();
        assert!(found.is_some(), "it was queued before");
        inserting.recorded().await.unwrap();
        let before = fs::read(&log).unwrap();
        record.store.sync().recorded().await.unwrap();
        assert!(fs::read(&log).unwrap() != before, "nothing was written");
    }
}

#[tokio::test]
async fn closing_writes_what_nobody_waited_for() {
    let record = Record::new().await;
    let sandboxes: Vec<_> = (0..1000).map(|_| record.sandbox()).collect();
    for sandbox in &sandboxes {
        drop(record.store.sandboxes().insert(sandbox.clone(), None));
    }
    let path = record.directory.path().join("skep.db");
    drop(record.store);
    let reopened = Store::open(&path).unwrap();
    assert_eq!(
        reopened
            .sandboxes()
            .living(skep_types::NodeId::local())
            .await
            .unwrap()
            .len(),
        1000
    );
}

#[tokio::test]
async fn a_flushed_record_needs_no_log() {
    let record = Record::new().await;
    let sandbox = record.sandbox();
    drop(record.store.sandboxes().insert(sandbox.clone(), None));
    record.store.flush().await.unwrap();

    let copy = tempfile::TempDir::new().unwrap();
    let path = copy.path().join("skep.db");
    fs::copy(record.directory.path().join("skep.db"), &path).unwrap();
    let reopened = Store::open(&path).unwrap();
    let found = reopened.sandboxes().find(sandbox.id).await.unwrap();
    assert!(found.is_some());
}

#[tokio::test]
async fn the_log_reaches_the_file_by_itself() {
    let record = Record::new().await;
    let sandbox = record.sandbox();
    let inserting = record.store.sandboxes().insert(sandbox.clone(), None);
    inserting.recorded().await.unwrap();
    let file = record.directory.path().join("skep.db");
    wait_until(Duration::from_secs(20), async || {
        let copy = tempfile::TempDir::new().unwrap();
        let path = copy.path().join("skep.db");
        fs::copy(&file, &path).unwrap();
        // Until the first checkpoint the file does not even have its tables, and while one
        // runs it may be between two states.
        let reopened = Store::open(&path).map_err(|error| error.to_string())?;
        let found = reopened.sandboxes().find(sandbox.id.clone()).await;
        found
            .map_err(|error| error.to_string())?
            .ok_or("the sandbox is not in the file".to_owned())
    })
    .await;
}

#[tokio::test]
async fn many_writers_at_once_lose_nothing() {
    let record = Record::new().await;
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let store = record.store.clone();
            let sandboxes: Vec<_> = (0..100).map(|_| record.sandbox()).collect();
            skep_telemetry::spawn("test writer", async move {
                for sandbox in sandboxes {
                    store
                        .sandboxes()
                        .insert(sandbox, None)
                        .recorded()
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap().unwrap();
    }
    assert_eq!(
        record
            .store
            .sandboxes()
            .living(skep_types::NodeId::local())
            .await
            .unwrap()
            .len(),
        800
    );
}

#[tokio::test]
async fn another_process_may_write_too() {
    let record = Record::new().await;
    let other = Store::open(&record.directory.path().join("skep.db")).unwrap();
    other
        .teams()
        .insert(team("second", false))
        .recorded()
        .await
        .unwrap();
    record
        .store
        .teams()
        .insert(team("third", false))
        .recorded()
        .await
        .unwrap();
    let slugs: Vec<_> = record.store.teams().list().await.unwrap();
    assert_eq!(slugs.len(), 3);
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_empties_again() {
    let record = Record::new().await;
    // Another connection holds the write lock, so that nothing can be committed.
    let blocker = rusqlite::Connection::open(record.directory.path().join("skep.db")).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mut receipts = Vec::new();
    let refused = loop {
        let receipt = record.store.sandboxes().insert(record.sandbox(), None);
        let full = format!("{receipt:?}").contains("QueueFull");
        if full {
            break receipt.recorded().await.unwrap_err();
        }
        receipts.push(receipt);
        assert!(receipts.len() < 100_000, "the queue has no bound");
    };
    assert!(refused.is_transient(), "{refused}");
    assert!(matches!(refused, StoreError::QueueFull { .. }), "{refused}");

    blocker.execute_batch("ROLLBACK").unwrap();
    let accepted = receipts.len();
    for receipt in receipts {
        receipt.recorded().await.unwrap();
    }
    assert_eq!(
        record
            .store
            .sandboxes()
            .living(skep_types::NodeId::local())
            .await
            .unwrap()
            .len(),
        accepted
    );
}

#[tokio::test]
async fn a_lock_held_by_another_process_is_named() {
    let record = Record::new().await;
    let blocker = rusqlite::Connection::open(record.directory.path().join("skep.db")).unwrap();
    blocker.execute_batch("BEGIN IMMEDIATE").unwrap();
    let inserting = record.store.sandboxes().insert(record.sandbox(), None);
    let error = inserting.recorded().await.unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error:?}");
    blocker.execute_batch("ROLLBACK").unwrap();
    let inserting = record.store.sandboxes().insert(record.sandbox(), None);
    inserting.recorded().await.unwrap();
}

#[tokio::test]
async fn one_failed_write_does_not_undo_its_neighbours() {
    let record = Record::new().await;
    let first = record.sandbox();
    let receipts = [
        record.store.sandboxes().insert(first.clone(), None),
        record.store.sandboxes().insert(first.clone(), None),
        record.store.sandboxes().insert(record.sandbox(), None),
    ];
    let mut outcomes = Vec::new();
    for receipt in receipts {
        outcomes.push(receipt.recorded().await.is_ok());
    }
    assert_eq!(outcomes, [true, false, true]);
    assert_eq!(
        record
            .store
            .sandboxes()
            .living(skep_types::NodeId::local())
            .await
            .unwrap()
            .len(),
        2
    );
}

#[tokio::test]
async fn a_full_disk_is_named_and_leaves_the_record_as_it_was() {
    let directory = tempfile::TempDir::new().unwrap();
    let small = small_filesystem(directory.path());
    let store = Store::open(&small.path.join("skep.db")).unwrap();
    let home = team("home", true);
    let inserting = store.teams().insert(home.clone());
    inserting.recorded().await.unwrap();
    store.flush().await.unwrap();

    let mut numbers = 0..10_000;
    let error = loop {
        let number = numbers
            .next()
            .expect("two megabytes hold no ten thousand teams");
        let mut filler = team(&format!("team-{number}"), false);
        filler.name = "x".repeat(4000);
        if let Err(error) = store.teams().insert(filler).recorded().await {
            break error;
        }
    };
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    drop(store);
    // It opens again, although there is no room for anything new.
    Store::open(&small.path.join("skep.db")).unwrap();
}

struct SmallFilesystem {
    path: std::path::PathBuf,
}

impl Drop for SmallFilesystem {
    fn drop(&mut self) {
        let unmounted = std::process::Command::new("umount")
            .arg(&self.path)
            .status()
            .unwrap();
        assert!(unmounted.success());
    }
}

fn small_filesystem(directory: &Path) -> SmallFilesystem {
    let path = directory.join("small");
    fs::create_dir(&path).unwrap();
    let mounted = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2m", "skep-store-test"])
        .arg(&path)
        .status()
        .unwrap();
    assert!(
        mounted.success(),
        "this test mounts a small filesystem and needs root"
    );
    SmallFilesystem { path }
}

#[tokio::test]
async fn the_file_is_for_its_owner_alone() {
    let record = Record::new().await;
    for name in ["skep.db", "skep.db-wal", "skep.db-shm"] {
        let mode = fs::metadata(record.directory.path().join(name)).unwrap();
        assert_eq!(mode.permissions().mode() & 0o777, 0o600, "{name}");
    }
}

#[test]
fn what_is_no_record_is_named_and_not_touched() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("skep.db");
    fs::write(&path, "a letter to the editor, long enough to be read").unwrap();
    let error = Store::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    assert!(error.to_string().contains("skep.db"), "{error}");
    assert!(fs::read_to_string(&path).unwrap().starts_with("a letter"));

    let missing = directory.path().join("no such directory").join("skep.db");
    let error = Store::open(&missing).unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
}

/// SQLite answers a second checkpoint at once that it is busy, and a server that was stopped while its
/// own checkpoint of every second ran ended with an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_flush_waits_for_the_checkpoint_of_somebody_else() {
    let record = Record::new().await;
    let path = record.directory.path().join("skep.db");
    let connect = || {
        let connection = rusqlite::Connection::open(&path).unwrap();
        connection.busy_timeout(Duration::from_secs(60)).unwrap();
        connection
    };
    // A reader of an older state is what the other checkpoint waits for.
    let reader = connect();
    reader
        .execute_batch("BEGIN; SELECT count(*) FROM sandboxes")
        .unwrap();
    let writing = record.store.sandboxes().insert(record.sandbox(), None);
    writing.recorded().await.unwrap();
    let other = connect();
    let checkpointing = std::thread::spawn(move || {
        let checkpoint = "PRAGMA wal_checkpoint(FULL)";
        // Whoever checkpoints at this moment, the look below for instance, has it refused at once.
        while other.query_row(checkpoint, [], |row| row.get(0)).unwrap() {}
    });
    let looker = connect();
    wait_until(Duration::from_secs(30), async || {
        let passive = "PRAGMA wal_checkpoint(PASSIVE)";
        let is_held: bool = looker.query_row(passive, [], |row| row.get(0)).unwrap();
        is_held.then_some(()).ok_or("nobody checkpoints")
    })
    .await;
    let mut flushing = Box::pin(record.store.flush());
    let early = tokio::time::timeout(Duration::from_millis(100), &mut flushing).await;
    assert!(early.is_err(), "it waits: {early:?}");
    reader.execute_batch("COMMIT").unwrap();
    flushing.await.unwrap();
    checkpointing.join().unwrap();
}
