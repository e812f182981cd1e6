//! Disks that are mounted before their sandbox is asked for.
//!
//! To attach a file to a loop device and mount what is in it takes longer than everything else
//! a launch does, and it is the same for every sandbox.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use skep_telemetry::Chain;

use super::{DiskError, Disks, file};

/// How many sizes are kept ready: those that were asked for last.
const SIZES: usize = 2;

/// How the file of a disk is called until it has an owner.
const PREFIX: &str = "ready-";

/// Disks by size, those asked for last in front.
#[derive(Debug)]
pub(crate) struct ReadyDisks {
    /// A size of which so many are ready is full.
    high: usize,
    /// Held only for a look-up or a change.
    shelves: Mutex<Vec<Shelf>>,
    /// How many sandboxes are being launched. Disks are made when there is none.
    launching: AtomicUsize,
    /// Held by whoever makes disks, which one at a time does.
    making: Mutex<()>,
    number: AtomicU64,
}

#[derive(Debug)]
struct Shelf {
    mebibytes: u32,
    disks: Vec<ReadyDisk>,
    is_filling: bool,
}

/// A disk that is mounted nowhere yet. Dropped, it is let go.
#[derive(Debug)]
struct ReadyDisk {
    path: PathBuf,
    mount: OwnedFd,
}

impl Disks {
    /// Removes what an earlier server had ready. Its mounts went with it.
    pub(super) fn forget_ready(folder: &Path) -> io::Result<()> {
        let entries = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Makes a disk at `path` on which `mebibytes` can be written, and mounts it nowhere yet.
    /// Takes one that is ready if there is one. Blocks.
    pub(crate) fn mount(&self, path: &Path, mebibytes: u32) -> Result<OwnedFd, DiskError> {
        if let Some(disk) = self.ready.take(mebibytes) {
            match fs::rename(&disk.path, path) {
                Ok(()) => return Ok(disk.mount),
                Err(error) => {
                    tracing::warn!(%error, "a disk that was ready is gone; another is made");
                }
            }
        }
        self.make(path, mebibytes)?;
        skep_launch::mount_disk(path).map_err(file("mount", path))
    }

    /// Says that a sandbox is being launched, until the answer is dropped.
    pub(crate) fn launching(&self) -> Launching<'_> {
        self.ready.launching.fetch_add(1, Ordering::SeqCst);
        Launching(&self.ready)
    }

    /// Makes disks until enough are ready or somebody waits for a sandbox. Blocks.
    pub(crate) fn make_ready(&self) {
        let Ok(_one_at_a_time) = self.ready.making.try_lock() else {
            return;
        };
        while self.wants_more() {
            if let Err(error) = self.make_one_ready() {
                tracing::warn!(error = %Chain(&error), "cannot keep a disk ready");
            }
        }
    }

    fn wants_more(&self) -> bool {
        self.ready.launching.load(Ordering::SeqCst) == 0 && self.ready.wanted().is_some()
    }

    fn make_one_ready(&self) -> Result<(), DiskError> {
        let Some(mebibytes) = self.ready.wanted() else {
            return Ok(());
        };
        let number = self.ready.number.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!("{PREFIX}{number}.ext4"));
        let made = self.make(&path, mebibytes).and_then(|()| {
            let mount = skep_launch::mount_disk(&path).map_err(file("mount", &path))?;
            self.ready.put(
                mebibytes,
                ReadyDisk {
                    path: path.clone(),
                    mount,
                },
            );
            Ok(())
        });
        made.inspect_err(|_| {
            self.ready.rest(mebibytes);
            fs::remove_file(&path).ok();
        })
    }
}

impl ReadyDisks {
    pub(super) fn new(high: usize) -> Self {
        Self {
            high,
            shelves: Mutex::default(),
            launching: AtomicUsize::new(0),
            making: Mutex::default(),
            number: AtomicU64::new(0),
        }
    }

    fn take(&self, mebibytes: u32) -> Option<ReadyDisk> {
        let mut shelves = self.shelves();
        let found = shelves
            .iter()
            .position(|shelf| shelf.mebibytes == mebibytes);
        let mut shelf = match found {
            Some(index) => shelves.remove(index),
            None => Shelf {
                mebibytes,
                disks: Vec::new(),
                is_filling: self.high > 0,
            },
        };
        let disk = shelf.disks.pop();
        // A quarter may go before more are made, so that a steady flow is served in batches.
        shelf.is_filling |= shelf.disks.len() < self.high - self.high / 4;
        shelves.insert(0, shelf);
        let kept = SIZES.min(shelves.len());
        for disk in shelves.drain(kept..).flat_map(|shelf| shelf.disks) {
            remove(&disk);
        }
        disk
    }

    fn wanted(&self) -> Option<u32> {
        let shelves = self.shelves();
        let filling = shelves.iter().find(|shelf| shelf.is_filling);
        filling.map(|shelf| shelf.mebibytes)
    }

    fn put(&self, mebibytes: u32, disk: ReadyDisk) {
        let mut shelves = self.shelves();
        let shelf = shelves
            .iter_mut()
            .find(|shelf| shelf.mebibytes == mebibytes);
        match shelf {
            Some(shelf) if shelf.disks.len() < self.high => {
                shelf.disks.push(disk);
                shelf.is_filling = shelf.disks.len() < self.high;
            }
            _ => remove(&disk),
        }
    }

    /// Stops wanting more of a size until it is asked for again.
    fn rest(&self, mebibytes: u32) {
        let mut shelves = self.shelves();
        for shelf in shelves
            .iter_mut()
            .filter(|shelf| shelf.mebibytes == mebibytes)
        {
            shelf.is_filling = false;
        }
    }

    /// Lets everything go. Blocks.
    pub(crate) fn clear(&self) {
        for disk in self.shelves().drain(..).flat_map(|shelf| shelf.disks) {
            remove(&disk);
        }
    }

    fn shelves(&self) -> MutexGuard<'_, Vec<Shelf>> {
        self.shelves.lock().expect("no holder panics")
    }
}

fn remove(disk: &ReadyDisk) {
    if let Err(error) = fs::remove_file(&disk.path) {
        // The next start tries again.
        tracing::warn!(path = %disk.path.display(), %error, "a disk is left");
    }
}

/// While it lives, a sandbox is being launched.
#[derive(Debug)]
pub(crate) struct Launching<'a>(&'a ReadyDisks);

impl Drop for Launching<'_> {
    fn drop(&mut self) {
        self.0.launching.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIGH: usize = 4;

    fn loop_devices_below(folder: &Path) -> usize {
        let devices = fs::read_dir("/sys/block").unwrap();
        let backing = devices.filter_map(|device| {
            fs::read_to_string(device.unwrap().path().join("loop/backing_file")).ok()
        });
        backing
            .filter(|path| Path::new(path.trim()).starts_with(folder))
            .count()
    }

    #[test]
    fn the_second_disk_of_a_size_is_ready_and_moves_to_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let disks = Disks::new(folder.path().join("disks"), HIGH).unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        drop(disks.mount(&first, 32).unwrap());
        {
            let _launching = disks.launching();
            assert!(!disks.wants_more(), "somebody waits for a sandbox");
        }
        disks.make_ready();
        assert_eq!(loop_devices_below(folder.path()), HIGH);

        let mount = disks.mount(&second, 32).unwrap();
        assert!(!disks.wants_more(), "enough are left");
        assert!(second.exists());
        rustix::fs::statat(&mount, "upper", rustix::fs::AtFlags::empty()).unwrap();
        drop(mount);
        disks.ready.clear();
        skep_testkit::wait_for(
            std::time::Duration::from_secs(10),
            || match loop_devices_below(folder.path()) {
                0 => Ok(()),
                left => Err(format!("{left} loop devices are left")),
            },
        );
    }

    #[test]
    fn what_an_earlier_server_had_ready_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let disks = Disks::new(folder.path().to_owned(), HIGH).unwrap();
        disks.ready.take(32);
        disks.make_one_ready().unwrap();
        drop(disks);
        let count = || fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(count(), 2, "an empty one and one that is ready");
        Disks::new(folder.path().to_owned(), HIGH).unwrap();
        assert_eq!(count(), 1);
    }

    #[test]
    fn a_third_size_takes_the_place_of_the_one_not_asked_for_the_longest() {
        let folder = tempfile::tempdir().unwrap();
        let disks = Disks::new(folder.path().to_owned(), HIGH).unwrap();
        for mebibytes in [32, 33] {
            disks.ready.take(mebibytes);
            disks.make_one_ready().unwrap();
        }
        assert!(disks.ready.take(34).is_none());
        assert!(disks.ready.take(32).is_none(), "it made place");
    }
}
