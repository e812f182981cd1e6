//! I/O counters of a sandbox's disk.
//!
//! Counted by the block device that its image is attached to. The counters of cgroups would not
//! do: v1 counts what is written through the cache for nobody, and neither counts a device that
//! is a file together with the disk below it only once.

use std::fs;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;

use skep_types::Usage;

/// Directory of sysfs with the block devices, by name and by number.
pub(crate) const BLOCK_DEVICES: &str = "/sys/block";
const DEVICE_NUMBERS: &str = "/sys/dev/block";
/// Directory of sysfs with the ext4 file systems, by the name of their device.
pub(crate) const FILE_SYSTEMS: &str = "/sys/fs/ext4";

/// Counters of the kernel are in sectors, of this size on every disk.
const SECTOR: u64 = 512;

/// The counters of a loop device at the moment a sandbox got it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DiskMeter {
    /// The number of the loop device.
    pub(crate) device: u32,
    /// Traffic of the device before this sandbox, to be subtracted.
    pub(crate) before: Traffic,
}

/// Bytes that went through a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Traffic {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl DiskMeter {
    /// Reads the counters of the device that a disk was mounted from; `None` if it is no loop
    /// device, or the kernel does not tell.
    pub(crate) fn of(disk: BorrowedFd<'_>) -> Option<Self> {
        let device = rustix::fs::fstat(disk).ok()?.st_dev;
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let link = fs::read_link(format!("{DEVICE_NUMBERS}/{major}:{minor}")).ok()?;
        let number = link.file_name()?.to_str()?.strip_prefix("loop")?;
        Self::of_device(Path::new(BLOCK_DEVICES), number.parse().ok()?)
    }

    fn of_device(devices: &Path, device: u32) -> Option<Self> {
        let before = counted(&devices.join(format!("loop{device}"))).ok()?;
        Some(Self { device, before })
    }

    /// Returns true if the file system on it failed to write data that it had accepted. It only
    /// counts that as a warning: whoever wrote was told that all is well.
    pub(crate) fn has_lost_writes(
        &self,
        devices: &Path,
        file_systems: &Path,
        image: &Path,
    ) -> io::Result<bool> {
        let device = format!("loop{}", self.device);
        if !holds(&devices.join(&device), image)? {
            return Ok(false);
        }
        let counted = |name: &str| {
            let text = fs::read_to_string(file_systems.join(&device).join(name))?;
            text.trim().parse::<u64>().map_err(io::Error::other)
        };
        Ok(counted("warning_count")? > 0 || counted("errors_count")? > 0)
    }

    /// Brings what was written to a disk to its image. Blocks.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(crate) fn sync(&self, image: &Path) -> io::Result<()> {
        let directory = Path::new(BLOCK_DEVICES).join(format!("loop{}", self.device));
        match holds(&directory, image) {
            Ok(true) => skep_linux::sync_loop_disk(self.device),
            // A device is let go when nobody has its file system mounted any more, and that is when all of it was
            // written: the processes of the sandbox are gone.
            Ok(false) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Adds the traffic of a disk to the usage of its sandbox, as far as it is known.
    pub(crate) fn add_traffic(meter: Option<Self>, usage: &mut Usage, image: &Path) {
        match meter.map(|meter| meter.traffic(Path::new(BLOCK_DEVICES), image)) {
            Some(Ok(traffic)) => {
                usage.disk_read_bytes = traffic.read;
                usage.disk_written_bytes = traffic.written;
            }
            Some(Err(error)) => tracing::debug!(%error, "disk traffic is lost"),
            None => {}
        }
    }

    /// Traffic of the device since the sandbox got it.
    ///
    /// # Errors
    ///
    /// If the sandbox has lost the device and another one has it.
    pub(crate) fn traffic(&self, devices: &Path, image: &Path) -> io::Result<Traffic> {
        let directory = devices.join(format!("loop{}", self.device));
        let now = counted(&directory)?;
        // The counters stay when the device is let go, until somebody else uses it.
        if directory.join("loop").exists() && !holds(&directory, image)? {
            return Err(io::Error::other("the device is another sandbox's now"));
        }
        Ok(Traffic {
            read: now.read.saturating_sub(self.before.read),
            written: now.written.saturating_sub(self.before.written),
        })
    }
}

fn holds(directory: &Path, image: &Path) -> io::Result<bool> {
    let held = fs::read_to_string(directory.join("loop/backing_file"))?;
    Ok(Path::new(held.trim_end_matches('\n')) == image)
}

fn counted(directory: &Path) -> io::Result<Traffic> {
    let text = fs::read_to_string(directory.join("stat"))?;
    let mut fields = text.split_whitespace().map(str::parse::<u64>);
    // Requests, merged requests, sectors, time; for reading, then for writing.
    let mut sectors = |index: usize| match fields.nth(index) {
        Some(Ok(sectors)) => Ok(sectors * SECTOR),
        Some(Err(_)) | None => Err(io::Error::other("unexpected contents of a stat file")),
    };
    Ok(Traffic {
        read: sectors(2)?,
        written: sectors(3)?,
    })
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    fn device(devices: &Path, number: u32, image: Option<&str>, read: u64, written: u64) {
        let directory = devices.join(format!("loop{number}"));
        fs::create_dir_all(&directory).unwrap();
        let stat = format!("  1 0 {read} 5 2 0 {written} 6 0 0 0 0 0 0 0 0 0\n");
        fs::write(directory.join("stat"), stat).unwrap();
        match image {
            Some(image) => {
                fs::create_dir_all(directory.join("loop")).unwrap();
                fs::write(directory.join("loop/backing_file"), format!("{image}\n")).unwrap();
            }
            None => fs::remove_dir_all(directory.join("loop")).unwrap_or_default(),
        }
    }

    #[test]
    fn only_what_went_through_since_the_start_counts() {
        let directory = tempfile::tempdir().unwrap();
        let devices = directory.path();
        device(devices, 2, Some("/image"), 100, 200);
        let image = Path::new("/image");
        let meter = DiskMeter::of_device(devices, 2).unwrap();
        device(devices, 2, Some("/image"), 102, 210);
        let traffic = meter.traffic(devices, image).unwrap();
        assert_eq!((traffic.read, traffic.written), (2 * 512, 10 * 512));
        // The sandbox has died, and then another one gets the device.
        device(devices, 2, None, 103, 210);
        assert_eq!(meter.traffic(devices, image).unwrap().read, 3 * 512);
        device(devices, 2, Some("/other"), 200, 300);
        meter.traffic(devices, image).unwrap_err();
    }

    #[test]
    fn a_disk_that_could_not_write_is_told_from_that_of_another() {
        let directory = tempfile::tempdir().unwrap();
        let devices = directory.path();
        device(devices, 2, Some("/image"), 0, 0);
        let file_system = devices.join("ext4/loop2");
        fs::create_dir_all(&file_system).unwrap();
        let meter = DiskMeter::of_device(devices, 2).unwrap();
        let lost = |warnings: &str, image: &str| {
            fs::write(file_system.join("warning_count"), warnings).unwrap();
            fs::write(file_system.join("errors_count"), "0\n").unwrap();
            let file_systems = devices.join("ext4");
            meter.has_lost_writes(devices, &file_systems, Path::new(image))
        };
        assert!(!lost("0\n", "/image").unwrap());
        assert!(lost("17\n", "/image").unwrap());
        assert!(!lost("17\n", "/other").unwrap());
    }

    #[test]
    fn the_device_of_a_disk_is_found_by_its_mount() {
        let directory = tempfile::tempdir().unwrap();
        let disks = crate::disk::Disks::new(directory.path().join("disks"), 0, None).unwrap();
        let image = directory.path().join("image");
        let mount = disks.mount(&image, 32).unwrap();
        let meter = DiskMeter::of(mount.as_fd()).unwrap();
        meter.traffic(Path::new(BLOCK_DEVICES), &image).unwrap();
        let not_a_disk = fs::File::open("/proc").unwrap();
        assert_eq!(DiskMeter::of(not_a_disk.as_fd()), None);
    }
}
