//! The disk by which a sandbox's reading and writing is limited.

use std::fs;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Limits, in bytes per second, on a sandbox's reads from and writes to a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IoLimit {
    /// The disk's number, as the kernel writes it.
    pub(super) disk: (u32, u32),
    /// Limit in each direction.
    pub(super) bytes_per_second: u64,
}

/// Speed limit of the disks of sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskSpeed {
    bytes_per_second: u64,
    /// The disk that holds their images. `None` if that is not one disk: network filesystems, btrfs
    /// and the like hide theirs.
    host_disk: Option<(u32, u32)>,
}

impl DiskSpeed {
    /// The limit in each direction, of disks whose images are in `directory`.
    pub(crate) fn new(directory: &Path, bytes_per_second: u64) -> Self {
        let device = fs::metadata(directory).map(|metadata| metadata.dev());
        Self {
            bytes_per_second,
            host_disk: device.ok().and_then(disk_of),
        }
    }

    /// The limit on the disk that holds the images.
    pub(super) fn on_host_disk(self) -> Option<IoLimit> {
        let bytes_per_second = self.bytes_per_second;
        self.host_disk.map(|disk| IoLimit {
            disk,
            bytes_per_second,
        })
    }

    /// The limit on the disk that is mounted here: what a sandbox reads and writes goes to it.
    pub(super) fn on_mounted_disk(self, mount: BorrowedFd<'_>) -> Option<IoLimit> {
        let device = rustix::fs::fstat(mount).ok()?.st_dev;
        Some(IoLimit {
            disk: disk_of(device)?,
            bytes_per_second: self.bytes_per_second,
        })
    }
}

/// The disk of the filesystem with this device number.
fn disk_of(device: u64) -> Option<(u32, u32)> {
    let numbers = (rustix::fs::major(device), rustix::fs::minor(device));
    whole_disk(Path::new("/sys/dev/block"), numbers)
}

/// The disk of a partition; a disk is its own. Limits are set on whole disks only.
fn whole_disk(devices: &Path, (major, minor): (u32, u32)) -> Option<(u32, u32)> {
    let device = fs::canonicalize(devices.join(format!("{major}:{minor}"))).ok()?;
    let disk = if device.join("partition").exists() {
        device.parent()?.to_owned()
    } else {
        device
    };
    let text = fs::read_to_string(disk.join("dev")).ok()?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_limited_by_its_disk() {
        let directory = tempfile::tempdir().unwrap();
        let disk = directory.path().join("devices/vda");
        let partition = disk.join("vda1");
        fs::create_dir_all(&partition).unwrap();
        fs::write(disk.join("dev"), "254:0\n").unwrap();
        fs::write(partition.join("dev"), "254:1\n").unwrap();
        fs::write(partition.join("partition"), "1\n").unwrap();
        let devices = directory.path().join("block");
        fs::create_dir(&devices).unwrap();
        std::os::unix::fs::symlink(&disk, devices.join("254:0")).unwrap();
        std::os::unix::fs::symlink(&partition, devices.join("254:1")).unwrap();

        assert_eq!(whole_disk(&devices, (254, 0)), Some((254, 0)));
        assert_eq!(whole_disk(&devices, (254, 1)), Some((254, 0)));
        assert_eq!(whole_disk(&devices, (0, 42)), None);
    }
}
