use std::fs;
use std::path::Path;

use super::*;

/// More than the memory of a test that is to be full.
const FILES: usize = 200;
const SCARCE: usize = 32 << 10;

fn watch(directory: &Path, bytes: usize) -> (Result<Arc<Watch>, FileError>, Arc<Memory>) {
    let wanted = Wanted {
        path: directory.to_str().unwrap().to_owned(),
        recursive: true,
        include_entry: true,
        allow_network_mounts: false,
    };
    let accounts = Accounts {
        passwd: "/etc/passwd".into(),
        group: "/etc/group".into(),
    };
    let memory = Arc::new(Memory::new(bytes));
    let watch = Watch::open(wanted, accounts, &memory).map(Arc::new);
    (watch, memory)
}

/// Makes a directory with many long names in it, before it can be watched.
fn make(directory: &Path) {
    let new = directory.join("new");
    fs::create_dir(&new).unwrap();
    for number in 0..FILES {
        fs::write(new.join(format!("{number}{}", "x".repeat(200))), "").unwrap();
    }
}

async fn take(watch: &Arc<Watch>) -> Result<usize, Gap> {
    let batch = watch.take().await.unwrap();
    batch.map(|batch| batch.into_events().len())
}

#[tokio::test]
async fn what_a_watch_keeps_is_bounded_and_what_is_lost_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let (hungry, memory) = watch(directory.path(), SCARCE);
    let (control, plenty) = watch(directory.path(), 64 << 20);
    let (hungry, control) = (hungry.unwrap(), control.unwrap());
    let (before, plenty_before) = (memory.left(), plenty.left());
    make(directory.path());

    assert_eq!(take(&control).await, Ok(FILES + 1));
    hungry.absorb().await.unwrap();
    assert_eq!(take(&hungry).await, Err(Gap::Overflow));
    fs::write(directory.path().join("later"), "").unwrap();
    hungry.absorb().await.unwrap();
    take(&hungry).await.unwrap();
    // The new directory is watched, and nothing else is kept of what happened.
    let directory = 64 + "new".len();
    assert_eq!(memory.left(), before - directory);
    assert_eq!(plenty.left(), plenty_before - directory);
    drop((hungry, control));
    assert_eq!(memory.left(), SCARCE);
}

#[tokio::test]
async fn what_was_announced_is_forgotten_when_the_kernel_has_told_all() {
    let directory = tempfile::tempdir().unwrap();
    let (watch, memory) = watch(directory.path(), 64 << 20);
    let watch = watch.unwrap();
    make(directory.path());
    // One reading to find the directory, and all that was in it.
    let batch = watch.take().await.unwrap().unwrap();
    assert!(watch.tree.lock().has_settled());
    let kept = memory.left();
    drop(batch);
    assert!(memory.left() > kept, "a batch that is not sent yet counts");
}

#[tokio::test]
async fn a_tree_of_too_many_directories_is_not_watched() {
    let directory = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        let name = format!("{number}{}", "x".repeat(200));
        fs::create_dir(directory.path().join(name)).unwrap();
    }
    let (refused, memory) = watch(directory.path(), SCARCE);
    assert!(matches!(refused, Err(FileError::TooManyWatches)));
    assert_eq!(memory.left(), SCARCE);
    let (control, _) = watch(directory.path(), 64 << 20);
    control.unwrap();
}
