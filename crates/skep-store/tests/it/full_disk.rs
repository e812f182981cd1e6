//! A disk without room.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use skep_store::{Store, StoreError};
use skep_testkit::wait_until;
use skep_types::{EndReason, Ending, Usage};
use tempfile::TempDir;

use crate::{Record, at, team};

const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A file system of its own, of a certain size. Gone when it is dropped.
struct SmallDisk {
    directory: TempDir,
}

impl SmallDisk {
    fn new(mebibytes: u32) -> Self {
        let directory = TempDir::new().unwrap();
        let size = format!("size={mebibytes}m");
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "skep-test"])
            .arg(directory.path()));
        Self { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("skep.db")
    }

    /// Takes all the room there is.
    fn fill(&self) {
        let path = self.directory.path().join("filler");
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap();
        for size in [1 << 20, 4096, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
    }

    fn free(&self) {
        fs::remove_file(self.directory.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        run(Command::new("umount").arg("-l").arg(self.directory.path()));
    }
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

async fn record_on(disk: &SmallDisk) -> (Store, skep_types::TeamId) {
    let store = Store::open(&disk.path()).unwrap();
    let team = team("home", true);
    store.teams().insert(team.clone()).recorded().await.unwrap();
    (store, team.id)
}

fn killed() -> Ending {
    Ending {
        reason: EndReason::Killed,
        usage: Usage::default(),
        at: at(2_000),
    }
}

/// Copies what a killed process leaves, to a disk with room.
fn copied(path: &Path) -> (TempDir, Store) {
    let copy = TempDir::new().unwrap();
    for suffix in ["", "-wal"] {
        let name = format!("skep.db{suffix}");
        let from = path.with_file_name(&name);
        fs::copy(from, copy.path().join(&name)).unwrap();
    }
    let store = Store::open(&copy.path().join("skep.db")).unwrap();
    (copy, store)
}

#[tokio::test]
async fn ends_are_recorded_on_a_full_disk_from_the_reserve() {
    let disk = SmallDisk::new(64);
    let (store, team) = record_on(&disk).await;
    let orders: Vec<_> = (0..100).map(|_| crate::order_for(&team)).collect();
    for order in &orders {
        let inserting = store.sandboxes().insert(order.clone(), None);
        inserting.recorded().await.unwrap();
    }
    disk.fill();
    for order in &orders {
        let ending = store.sandboxes().ended(order.id.clone(), killed());
        assert!(ending.recorded().await.unwrap());
    }
    assert!(store.is_writable());
    let (_copy, after_kill) = copied(&disk.path());
    assert!(
        after_kill
            .sandboxes()
            .living(skep_types::NodeId::local())
            .await
            .unwrap()
            .is_empty()
    );
}

#[tokio::test]
async fn without_a_reserve_ends_are_kept_until_there_is_room_and_new_ones_are_refused() {
    // Too small for a reserve.
    let disk = SmallDisk::new(2);
    let (store, team) = record_on(&disk).await;
    let orders: Vec<_> = (0..20).map(|_| crate::order_for(&team)).collect();
    for order in &orders {
        let inserting = store.sandboxes().insert(order.clone(), None);
        inserting.recorded().await.unwrap();
    }
    store.flush().await.unwrap();
    disk.fill();

    // The log has some pages of its own, so the first of these may still find room.
    let refused = loop {
        let another = store.sandboxes().insert(crate::order_for(&team), None);
        if let Err(error) = another.recorded().await {
            break error;
        }
    };
    assert!(matches!(refused, StoreError::DiskFull { .. }), "{refused}");
    assert!(!store.is_writable());
    store.sync().recorded().await.unwrap_err();
    // An end takes less room than a new one, so the first of these may still find it.
    let mut orders = orders.into_iter();
    let (order, ending) = loop {
        let order = orders.next().expect("the disk is full");
        let ending = store.sandboxes().ended(order.id.clone(), killed());
        let is_kept = wait_until(WAIT_TIMEOUT, async || {
            let found = store.sandboxes().find(order.id.clone()).await.unwrap();
            match (store.metrics().retained.get(), found.unwrap().ending) {
                (1, _) => Ok(true),
                (_, Some(_)) => Ok(false),
                (count, None) => Err(format!("{count} are kept")),
            }
        })
        .await;
        if is_kept {
            break (order, ending);
        }
    };
    let found = store.sandboxes().find(order.id.clone()).await.unwrap();
    assert!(found.unwrap().ending.is_none(), "reading goes on");

    disk.free();
    assert!(ending.recorded().await.unwrap());
    assert!(store.is_writable());
    assert_eq!(store.metrics().retained.get(), 0);
    let (_copy, after_kill) = copied(&disk.path());
    let found = after_kill.sandboxes().find(order.id).await.unwrap();
    assert_eq!(found.unwrap().ending.unwrap().reason, EndReason::Killed);
}

#[tokio::test]
async fn a_disk_that_was_full_is_found_to_have_room_although_nobody_writes() {
    let disk = SmallDisk::new(2);
    let (store, team) = record_on(&disk).await;
    disk.fill();
    while store
        .sandboxes()
        .insert(crate::order_for(&team), None)
        .recorded()
        .await
        .is_ok()
    {}
    assert!(!store.is_writable());
    disk.free();
    wait_until(WAIT_TIMEOUT, async || {
        if store.is_writable() {
            Ok(())
        } else {
            Err("it still fails")
        }
    })
    .await;
}

#[tokio::test]
async fn the_reserve_does_not_show_in_the_size_of_the_record() {
    let record = Record::new().await;
    let path = record.directory.path().join("skep.db");
    assert!(fs::metadata(path).unwrap().len() < 1 << 20);
}
