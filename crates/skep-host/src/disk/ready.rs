//! Disks that are mounted before their sandbox is asked for.
//!
//! To attach a file to a loop device and mount what is in it takes longer than everything else
//! a launch does, and it is the same for every sandbox.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::{DiskError, Disks, file};
use crate::pool::PREFIX;

/// A disk that is mounted nowhere yet. Dropped, it is let go.
#[derive(Debug)]
pub(crate) struct ReadyDisk {
    path: PathBuf,
    mount: OwnedFd,
}

impl Disks {
    /// Removes what an earlier server had ready. Its mounts went with it.
    pub(super) fn forget_ready(directory: &Path) -> io::Result<()> {
        let entries = match fs::read_dir(directory) {
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
        let (ready, cleared) = self.ready.take(&mebibytes);
        cleared.iter().for_each(remove);
        if let Some(disk) = ready {
            match fs::rename(&disk.path, path) {
                Ok(()) => return Ok(disk.mount),
                Err(error) => {
                    tracing::warn!(%error, "a disk that was ready is gone; another is made");
                }
            }
        }
        self.make(path, mebibytes)?;
        skep_linux::mount_overlay_disk(path).map_err(file("mount", path))
    }

    /// Makes a disk ready, if one is wanted. Blocks.
    pub(crate) fn make_one_ready(&self) {
        let unwanted = self.ready.make_one(|mebibytes, name| {
            let path = self.directory.join(format!("{name}.ext4"));
            let made = self.make(&path, *mebibytes).and_then(|()| {
                let mount = skep_linux::mount_overlay_disk(&path).map_err(file("mount", &path))?;
                let path = path.clone();
                Ok(ReadyDisk { path, mount })
            });
            made.inspect_err(|_| {
                fs::remove_file(&path).ok();
            })
        });
        unwanted.iter().for_each(remove);
    }

    /// Lets everything go that is ready. Blocks.
    pub(crate) fn clear_ready(&self) {
        self.ready.clear().iter().for_each(remove);
    }
}

fn remove(disk: &ReadyDisk) {
    if let Err(error) = fs::remove_file(&disk.path) {
        // The next start tries again.
        tracing::warn!(path = %disk.path.display(), %error, "a disk is left");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIGH: usize = 4;

    fn loop_devices_below(directory: &Path) -> usize {
        let devices = fs::read_dir("/sys/block").unwrap();
        let backing = devices.filter_map(|device| {
            fs::read_to_string(device.unwrap().path().join("loop/backing_file")).ok()
        });
        backing
            .filter(|path| Path::new(path.trim()).starts_with(directory))
            .count()
    }

    #[test]
    fn the_second_disk_of_a_size_is_ready_and_moves_to_its_owner() {
        let directory = tempfile::tempdir().unwrap();
        let disks = Disks::new(directory.path().join("disks"), HIGH, None).unwrap();
        let (first, second) = (
            directory.path().join("first"),
            directory.path().join("second"),
        );
        drop(disks.mount(&first, 32).unwrap());
        while disks.ready.wants_more() {
            disks.make_one_ready();
        }
        assert_eq!(loop_devices_below(directory.path()), HIGH);

        let mount = disks.mount(&second, 32).unwrap();
        assert!(!disks.ready.wants_more(), "enough are left");
        assert!(second.exists());
        rustix::fs::statat(&mount, "upper", rustix::fs::AtFlags::empty()).unwrap();
        drop(mount);
        disks.clear_ready();
        skep_testkit::wait_for(
            std::time::Duration::from_secs(10),
            || match loop_devices_below(directory.path()) {
                0 => Ok(()),
                left => Err(format!("{left} loop devices are left")),
            },
        );
    }

    #[test]
    fn what_an_earlier_server_had_ready_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let disks = Disks::new(directory.path().to_owned(), HIGH, None).unwrap();
        disks.ready.take(&32);
        disks.make_one_ready();
        drop(disks);
        let count = || fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(count(), 2, "an empty one and one that is ready");
        Disks::new(directory.path().to_owned(), HIGH, None).unwrap();
        assert_eq!(count(), 1);
    }
}
