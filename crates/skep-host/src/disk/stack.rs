//! Disks that lie on others.
//!
//! A sandbox that is made of a captured disk needs what is on it and a place for its own changes.
//! Where blocks of files cannot be shared, a copy would cost as much as was ever written; so a large
//! disk is not copied: it lies below an empty one, read-only, as a layer. Each that lies on it has a
//! link of its own to the file, beside its disk, so the file stays as long as anybody needs it.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use super::{DiskError, Disks, MIB, file, used};

/// Most disks that lie below one: every look at a file that is not there goes through all of them.
const MOST_BELOW: usize = 8;
/// Size of a disk that is copied in less time than it takes to mount it.
const SMALL: u64 = 64 * MIB;
/// Empty disks are made in steps of this size, so that there are few different ones.
const STEP_MIB: u64 = 256;

/// A disk that is mounted, with those that it lies on.
#[derive(Debug)]
pub(crate) struct MountedDisk {
    pub(crate) top: OwnedFd,
    /// The lowest first.
    pub(crate) below: Vec<OwnedFd>,
}

/// Files of the disks that the disk at `path` lies on, the lowest first.
pub(crate) fn below(path: &Path) -> Vec<PathBuf> {
    let all = (0..).map(|number| place(path, number));
    all.take_while(|path| path.exists()).collect()
}

/// Bytes that a disk and all that it lies on occupy on the host's disk.
pub(crate) fn used_by_all(path: &Path) -> io::Result<u64> {
    let own = used(path)?;
    below(path)
        .iter()
        .try_fold(own, |sum, path| Ok(sum + used(path)?))
}

/// Links what the disk at `from` lies on to its places beside the disk at `to`.
pub(super) fn link_below(from: &Path, to: &Path) -> Result<(), DiskError> {
    for (number, lower) in below(from).iter().enumerate() {
        let place = place(to, number);
        fs::hard_link(lower, &place).map_err(file("link", lower))?;
    }
    Ok(())
}

/// Removes what [`link_below`] has made.
pub(super) fn unlink_below(path: &Path) {
    for path in below(path) {
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "a link to a disk is left");
        }
    }
}

fn place(path: &Path, number: usize) -> PathBuf {
    path.with_file_name(format!("below-{number}.img"))
}

impl Disks {
    /// Size of the empty disk that may lie on a captured one, for both to hold what a sandbox may
    /// write. `None` if a copy is better.
    pub(super) fn size_above(image: &Path, mebibytes: u32) -> Result<Option<u32>, DiskError> {
        let looked = || file("look at", image);
        if used(image).map_err(looked())? < SMALL || below(image).len() >= MOST_BELOW {
            return Ok(None);
        }
        let taken = used_by_all(image)
            .map_err(looked())?
            .div_ceil(MIB)
            .next_multiple_of(STEP_MIB);
        let left = u64::from(mebibytes).saturating_sub(taken);
        Ok(u32::try_from(left).ok().filter(|left| *left > 0))
    }

    /// Makes an empty disk at `path` that lies on a captured one. Blocks.
    pub(super) fn stack(
        &self,
        image: &Path,
        path: &Path,
        mebibytes: u32,
    ) -> Result<OwnedFd, DiskError> {
        link_below(image, path)?;
        let number = below(path).len();
        fs::hard_link(image, place(path, number)).map_err(file("link", image))?;
        self.mount(path, mebibytes)
    }

    /// Mounts what the disk at `path` lies on, nowhere yet. Blocks.
    pub(super) fn mount_below(path: &Path) -> Result<Vec<OwnedFd>, DiskError> {
        let mounted = below(path)
            .into_iter()
            .map(|path| skep_linux::mount_lower_disk(&path).map_err(file("mount", &path)));
        mounted.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::super::{Capture, DiskSource};
    use super::*;

    const DISK_MIB: u32 = 1024;

    /// Path of a file on a mount that is attached nowhere.
    fn on(mount: &OwnedFd, name: &str) -> PathBuf {
        use std::os::fd::AsRawFd as _;
        Path::new("/proc/self/fd")
            .join(mount.as_raw_fd().to_string())
            .join("upper")
            .join(name)
    }

    fn write(mount: &OwnedFd, name: &str, bytes: u64) {
        let mut file = fs::File::create(on(mount, name)).unwrap();
        let chunk = vec![7; usize::try_from(MIB).unwrap()];
        for _ in 0..bytes / MIB {
            file.write_all(&chunk).unwrap();
        }
        file.sync_all().unwrap();
    }

    /// A directory on a file system that shares no blocks, if the usual one does not.
    fn disks(directory: &Path) -> Option<Disks> {
        let (one, other) = (directory.join("one"), directory.join("other"));
        fs::write(&one, "1").unwrap();
        let from = fs::File::open(&one).unwrap();
        let shares = super::super::share_blocks(&from, &fs::File::create(other).unwrap());
        let disks = Disks::new(directory.join("disks"), 0, None).unwrap();
        (!shares.unwrap()).then_some(disks)
    }

    fn room(directory: &Path, name: &str) -> PathBuf {
        let directory = directory.join(name);
        fs::create_dir(&directory).unwrap();
        directory.join("disk.img")
    }

    #[test]
    fn a_large_disk_lies_below_those_that_are_made_of_it_and_outlives_its_name() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path();
        let Some(disks) = disks(directory) else {
            return;
        };
        let source = room(directory, "source");
        let first = (disks.mount_from(&DiskSource::Empty, &source, DISK_MIB)).unwrap();
        assert!(first.below.is_empty());
        write(&first.top, "large", 2 * SMALL);
        drop(first);
        let image = room(directory, "image");
        let bytes = disks.capture(&source, &image, Capture::Copy).unwrap();
        assert!(bytes > 2 * SMALL);

        let copy = DiskSource::Copy(image.clone());
        let paths = ["a", "b"].map(|name| room(directory, name));
        let mounted = paths.clone().map(|path| {
            let mounted = disks.mount_from(&copy, &path, DISK_MIB).unwrap();
            assert_eq!(mounted.below.len(), 1);
            assert!(used(&path).unwrap() < SMALL / 4, "nothing was copied");
            assert!(used_by_all(&path).unwrap() > 2 * SMALL);
            mounted
        });
        // The snapshot is deleted.
        fs::remove_dir_all(image.parent().unwrap()).unwrap();
        for disk in &mounted {
            let below = &disk.below[0];
            assert_eq!(fs::metadata(on(below, "large")).unwrap().len(), 2 * SMALL);
            fs::write(on(below, "new"), "").unwrap_err();
            // Both together hold what the sandbox may write, and no more.
            let free = rustix::fs::statvfs(on(&disk.top, "")).unwrap();
            let free = free.f_bavail * free.f_frsize;
            assert!(free <= u64::from(DISK_MIB) * MIB - 2 * SMALL, "{free}");
        }
    }

    /// Only the disk on top was brought to the host's: below a sandbox that was made of a passing copy
    /// there was one that a loss of power took.
    #[test]
    fn a_disk_is_kept_with_all_that_it_lies_on_or_not_at_all() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path();
        let disks = Disks::new(directory.join("disks"), 0, None).unwrap();
        let disk = room(directory, "source");
        fs::write(&disk, "top").unwrap();
        // A file that has a size and a link, and cannot be opened to be synced.
        let below = std::os::unix::net::UnixListener::bind(place(&disk, 0)).unwrap();
        for how in [Capture::Copy, Capture::Keep] {
            let image = room(directory, &format!("{how:?}"));
            disks.capture(&disk, &image, how).unwrap_err();
            let left = fs::read_dir(image.parent().unwrap()).unwrap();
            assert_eq!(left.count(), 0, "it leaves nothing");
        }
        let passing = room(directory, "passing");
        (disks.capture(&disk, &passing, Capture::PassingCopy)).unwrap();
        drop(below);
    }

    #[test]
    fn disks_are_not_stacked_higher_than_is_good() {
        let temporary = tempfile::tempdir().unwrap();
        let directory = temporary.path();
        let Some(disks) = disks(directory) else {
            return;
        };
        let mut image = room(directory, "0");
        drop(disks.mount_from(&DiskSource::Empty, &image, 16 * DISK_MIB));
        let mut heights = Vec::new();
        for number in 1..=MOST_BELOW + 2 {
            // It occupies so much, whatever is in it.
            let file = fs::File::options().write(true).open(&image).unwrap();
            let flags = rustix::fs::FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&file, flags, 0, SMALL + MIB).unwrap();
            let path = room(directory, &number.to_string());
            let source = DiskSource::Copy(image);
            let mounted = disks.mount_from(&source, &path, 16 * DISK_MIB).unwrap();
            heights.push(mounted.below.len());
            image = path;
        }
        let most = MOST_BELOW;
        assert_eq!(heights, [1, 2, 3, 4, 5, 6, 7, most, most, most]);
    }
}
