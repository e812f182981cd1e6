//! Counters in the files of a cgroup.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::process::Pid;
use skep_kernels::{Moved, Usage};

use super::{Cgroup, Directories, MAX_HELD, read};
use crate::rootfs;

impl Cgroup {
    /// Reads the usage of everything in the group: processor time of those that have ended too,
    /// memory with what is kept of files, storage as the disks have seen it, and files as its
    /// living processes, and those they have waited for, have read and written them. Writes to
    /// files are counted when they are made, not when the disk gets them.
    ///
    /// # Errors
    ///
    /// If the kernel does not say.
    pub(super) fn read_usage(&self) -> io::Result<Usage> {
        let memory = self.memory()?;
        let seen = self.seen.fetch_max(memory, Ordering::Relaxed).max(memory);
        let (processor, kills, storage) = match &self.directories {
            Directories::V1 {
                memory,
                processor,
                storage,
            } => {
                let nanoseconds = number(&read(processor.as_fd(), "cpuacct.usage")?);
                let kills = field(&read(memory.as_fd(), "memory.oom_control")?, "oom_kill");
                let storage = storage.as_ref().and_then(|storage| {
                    let text = read(storage.as_fd(), "blkio.throttle.io_service_bytes");
                    Some(moved_v1(&text.ok()?))
                });
                (nanoseconds.map(Duration::from_nanos), kills, storage)
            }
            Directories::V2 { directory, .. } => {
                let directory = directory.as_fd();
                let microseconds = field(&read(directory, "cpu.stat")?, "usage_usec");
                let kills = field(&read(directory, "memory.events")?, "oom_kill");
                let storage = read(directory, "io.stat").ok().map(|text| moved_v2(&text));
                (microseconds.map(Duration::from_micros), kills, storage)
            }
        };
        let unreadable = || io::Error::from(io::ErrorKind::InvalidData);
        Ok(Usage {
            processor: processor.ok_or_else(unreadable)?,
            memory: Some(memory),
            peak_memory: Some(self.peak().unwrap_or(seen).max(memory)),
            storage,
            files: self.files(),
            out_of_memory_kills: Some(kills.unwrap_or(0)),
        })
    }

    pub(super) fn memory(&self) -> io::Result<u64> {
        let name = match &self.directories {
            Directories::V1 { .. } => "memory.usage_in_bytes",
            Directories::V2 { .. } => "memory.current",
        };
        let text = read(self.memory_directory(), name)?;
        number(&text).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns true if it has memory that does not belong to files. Those can take theirs back, and
    /// are counted late, so that a look at all of it comes first.
    pub(super) fn holds_memory(&self) -> bool {
        let name = match &self.directories {
            Directories::V1 { .. } => "rss",
            Directories::V2 { .. } => "anon",
        };
        let anonymous = || field(&read(self.memory_directory(), "memory.stat").ok()?, name);
        let exceeds = |bytes: u64| bytes > MAX_HELD;
        self.memory().is_ok_and(exceeds) && anonymous().is_some_and(exceeds)
    }

    /// The peak since it began anew, from the descriptor for which it did.
    fn peak(&self) -> Option<u64> {
        let mut text = [0; 64];
        let length = self.peak.as_ref()?.read_at(&mut text, 0).ok()?;
        number(str::from_utf8(&text[..length]).ok()?)
    }

    /// `None` if there is nobody to ask. One that has ended meanwhile is counted by the one that
    /// waited for it.
    fn files(&self) -> Option<Moved> {
        let each = self.processes().ok()?.into_iter();
        let more = |some: Moved, other: Moved| Moved {
            read: some.read + other.read,
            written: some.written + other.written,
        };
        each.filter_map(|process| files_of(process).ok())
            .reduce(more)
    }
}

/// Returns the bytes that a process has read and written. The kernel tells this to those who are
/// its user, and to those who may look into every process, which nobody in a sandbox may.
fn files_of(process: Pid) -> io::Result<Moved> {
    let directory = format!("/proc/{}", process.as_raw_nonzero());
    let owner = rootfs::stat(&*directory)?;
    let text = skep_linux::as_file_owner(owner.st_uid, owner.st_gid, || {
        rootfs::kernel_file(&format!("{directory}/io"))
    })?;
    Ok(Moved {
        read: field(&text, "read_bytes:").unwrap_or(0),
        written: field(&text, "write_bytes:").unwrap_or(0),
    })
}

pub(super) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The number behind `key` in lines of `key number`.
pub(super) fn field(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines();
    lines.find_map(|line| number(line.strip_prefix(key)?.strip_prefix(' ')?))
}

/// Lines of `8:0 Read 4096`.
fn moved_v1(text: &str) -> Moved {
    let mut moved = DeviceBytes::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if let (Some(device), Some(direction), Some(amount)) =
            (words.next(), words.next(), words.next())
        {
            let amount = number(amount).unwrap_or(0);
            match direction {
                "Read" => moved.of(device).read += amount,
                "Write" => moved.of(device).written += amount,
                _ => {}
            }
        }
    }
    moved.bytes()
}

/// Lines of `8:0 rbytes=4096 wbytes=0 rios=1 …`.
fn moved_v2(text: &str) -> Moved {
    let mut moved = DeviceBytes::default();
    for line in text.lines() {
        let Some((device, counters)) = line.split_once(' ') else {
            continue;
        };
        for counter in counters.split_whitespace() {
            let (name, amount) = counter.split_once('=').unwrap_or((counter, ""));
            let amount = number(amount).unwrap_or(0);
            match name {
                "rbytes" => moved.of(device).read += amount,
                "wbytes" => moved.of(device).written += amount,
                _ => {}
            }
        }
    }
    moved.bytes()
}

/// Moved moved to and from loop devices, and other disks. What moves to a loop device may be
/// counted again when it moves to the disk that holds the device's file.
#[derive(Default)]
struct DeviceBytes {
    loops: Moved,
    disks: Moved,
}

impl DeviceBytes {
    fn of(&mut self, device: &str) -> &mut Moved {
        if device.starts_with("7:") {
            &mut self.loops
        } else {
            &mut self.disks
        }
    }

    fn bytes(&self) -> Moved {
        Moved {
            read: self.loops.read.max(self.disks.read),
            written: self.loops.written.max(self.disks.written),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_counted_for_a_loop_device_and_its_disk_is_counted_once() {
        let v1 =
            "7:3 Read 4096\n7:3 Write 100\n7:3 Sync 1\n254:0 Read 5000\n254:0 Write 90\nTotal 9\n";
        let moved = Moved {
            read: 5000,
            written: 100,
        };
        assert_eq!(moved_v1(v1), moved);
        let v2 = "7:3 rbytes=4096 wbytes=100 rios=1 wios=1\n254:0 rbytes=5000 wbytes=90\n8:0\n";
        assert_eq!(moved_v2(v2), moved);
        assert_eq!(moved_v1(""), Moved::default());
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(field(text, "oom_kill"), Some(3));
        assert_eq!(field(text, "oom"), None);
    }
}
