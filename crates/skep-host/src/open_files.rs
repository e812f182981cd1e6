//! Memory held by open directories and by descriptors on their way, which no cgroup counts.
//!
//! A directory that somebody has begun to read keeps names in the kernel's memory: ext4 those of
//! one of its blocks, and overlayfs, where several layers are merged, all of them, for each open
//! file that has seen another version of it. Neither is charged to anybody, and 64 MiB of charged
//! memory held two gigabytes so. No setting bounds it, and the filter cannot. So descriptors of
//! sandboxes are looked at when the host's memory shrinks, a sample where they are many, and
//! whoever holds too much is named.
//!
//! The kernel does not tell how much a directory holds; it is estimated from its size. What was
//! inherited is one open file at many descriptors, and counted once. Descriptors that were sent
//! and not received are in no table: the socket they wait at tells how many they are.
//!
//! Whoever opens something takes processor time for it. A sandbox that was seen whole and has run
//! for no nanosecond since is not looked at again, so that hundreds of idle ones cost nothing.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::io::Errno;
use skep_types::{Capacity, SandboxId};

use crate::descriptor_tables::{Owners, random, shares, shuffle, table_size};
use crate::pace::PacedLook;
use crate::queues::{LEAST_ALLOWED, allowed};

/// The names of one block of a directory.
const DIRECTORY: u64 = 20 << 10;
/// The least that a merged directory counts: those of the templates below have so many names.
const MERGED: u64 = 256 << 10;
/// Ratio of what overlayfs keeps of a name to the bytes of a short name on disk.
const MERGED_RATIO: u64 = 6;
/// A merged directory that was removed: the kernel does not tell how large it was.
const REMOVED: u64 = 4 << 20;
/// A descriptor that is on its way, and may be of a directory, or of a file with locks.
const ON_ITS_WAY: u64 = 64 << 10;

/// The descriptors of one sandbox that are looked at in one look.
const SAMPLE: usize = 8192;
/// Number of sampled descriptors that hold something, below which they stand for themselves only:
/// a single large directory must not be taken for many.
const ENOUGH: usize = 32;
/// The descriptors that are compared with those of other processes.
const COMPARED: usize = 64;

/// Finds the sandboxes whose open files hold too much.
#[derive(Debug, Default)]
pub(crate) struct OpenFileWatch {
    look: PacedLook,
    /// Sandboxes whose descriptors were all seen, and hold little, with the processor time that
    /// they had used before that.
    seen: Mutex<HashMap<SandboxId, Duration>>,
}

impl OpenFileWatch {
    /// The sandboxes whose open files hold too much, of those that `sandboxes` names with their
    /// first processes, if it is time to look, with this memory of the host and processor time of all sandboxes. `memory` is what a sandbox may use, and
    /// `processor_time` what it has used.
    pub(crate) fn look(
        &self,
        (host, used): (Capacity, Option<Duration>),
        sandboxes: impl FnOnce() -> Vec<(SandboxId, i32)>,
        memory: impl Fn(&SandboxId) -> io::Result<u64>,
        processor_time: impl Fn(&SandboxId) -> io::Result<Duration>,
    ) -> io::Result<Vec<SandboxId>> {
        self.look.if_due(host, used, || {
            self.find(Path::new("/proc"), &sandboxes(), memory, processor_time)
        })
    }

    fn find(
        &self,
        proc: &Path,
        sandboxes: &[(SandboxId, i32)],
        memory: impl Fn(&SandboxId) -> io::Result<u64>,
        processor_time: impl Fn(&SandboxId) -> io::Result<Duration>,
    ) -> io::Result<Vec<SandboxId>> {
        // Read before anything else: what is opened during the look is found by the next one.
        let used = |(id, _): &(SandboxId, i32)| Some((id.clone(), processor_time(id).ok()?));
        let times: HashMap<_, _> = sandboxes.iter().filter_map(used).collect();
        let mut seen = self.seen.lock();
        seen.retain(|id, time| times.get(id) == Some(time));
        let mut active = sandboxes.to_vec();
        active.retain(|(id, _)| !seen.contains_key(id));
        if active.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for (id, files) in open_files(proc, &active)? {
            let bytes = held(&files.tables, SAMPLE, is_same);
            // One that has ended has no limit any more.
            if bytes > LEAST_ALLOWED && memory(id).is_ok_and(|memory| bytes > allowed(memory)) {
                tracing::debug!(sandbox = %id, bytes, "its open files hold too much memory");
                found.push(id.clone());
            } else if let Some(time) = times.get(id).filter(|_| files.is_all()) {
                seen.insert(id.clone(), *time);
            }
        }
        Ok(found)
    }
}

/// A table of descriptors, as a thread that has it shows it.
#[derive(Debug)]
struct Table {
    thread: PathBuf,
    id: i32,
    size: usize,
}

/// The tables of descriptors of one sandbox.
#[derive(Debug, Default)]
struct OpenFiles {
    tables: Vec<Table>,
    /// True if there are threads whose tables are not among them.
    has_more: bool,
}

impl OpenFiles {
    /// Returns true if a look at these sees every descriptor of the sandbox.
    fn is_all(&self) -> bool {
        !self.has_more && self.tables.iter().map(|table| table.size).sum::<usize>() <= SAMPLE
    }
}

/// The tables of descriptors of sandboxes.
fn open_files<'a>(
    proc: &'a Path,
    sandboxes: &'a [(SandboxId, i32)],
) -> io::Result<HashMap<&'a SandboxId, OpenFiles>> {
    let owners = Owners::new(proc, sandboxes, shares);
    let mut files: HashMap<_, OpenFiles> = HashMap::new();
    for (pid, owner) in owners.processes()? {
        let of_owner = files.entry(owner).or_default();
        let threads = owners.threads(&pid);
        of_owner.has_more |= !threads.is_all;
        for thread in threads.directories {
            let name = thread.file_name().and_then(|name| name.to_str());
            if let Some(id) = name.and_then(|name| name.parse().ok()) {
                of_owner.tables.push(Table {
                    size: table_size(&thread),
                    thread,
                    id,
                });
            }
        }
    }
    Ok(files)
}

/// Estimates the bytes that are held by the open files of some tables, from at most `sample`
/// descriptors of them.
fn held(tables: &[Table], sample: usize, is_same: fn(&Table, &Table, usize) -> bool) -> u64 {
    let total: usize = tables.iter().map(|table| table.size).sum();
    let picks: Vec<usize> = if total <= sample {
        (0..total).collect()
    } else {
        (0..sample).map(|_| below(total)).collect()
    };
    let mut costly: Vec<(&Table, usize, u64)> = picks
        .iter()
        .filter_map(|pick| {
            let (table, descriptor) = locate(tables, *pick)?;
            let bytes = cost(&table.thread, descriptor);
            (bytes > 0).then_some((table, descriptor, bytes))
        })
        .collect();
    let sum = |costly: &[(&Table, usize, u64)]| costly.iter().map(|(.., bytes)| bytes).sum::<u64>();
    let mut estimate = sum(&costly);
    if costly.len() >= ENOUGH {
        estimate = scale(estimate, total as u64, picks.len() as u64);
    }
    if estimate <= LEAST_ALLOWED {
        return estimate;
    }
    shuffle(&mut costly);
    costly.truncate(COMPARED);
    let distinct = costly.iter().map(|(table, descriptor, bytes)| {
        // Whoever inherits a descriptor has it under the same number.
        let others = tables.iter().filter(|other| {
            other.id != table.id && other.size > *descriptor && is_same(table, other, *descriptor)
        });
        bytes / (1 + others.count() as u64)
    });
    scale(estimate, distinct.sum(), sum(&costly))
}

/// Returns `value * part / whole`.
fn scale(value: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn below(bound: usize) -> usize {
    usize::try_from(random() % bound as u64).unwrap_or_default()
}

/// The descriptor with this index in all tables.
fn locate(tables: &[Table], mut index: usize) -> Option<(&Table, usize)> {
    for table in tables {
        if index < table.size {
            return Some((table, index));
        }
        index -= table.size;
    }
    None
}

/// Returns true if two tables have one open file at a descriptor. If the kernel does not tell, it
/// is one: nobody is blamed for what was not seen.
fn is_same(one: &Table, other: &Table, descriptor: usize) -> bool {
    let Ok(descriptor) = u32::try_from(descriptor) else {
        return false;
    };
    let gone = [Errno::BADF, Errno::SRCH].map(Errno::raw_os_error);
    skep_linux::is_same_open_file((one.id, descriptor), (other.id, descriptor)).unwrap_or_else(
        |error| {
            !error
                .raw_os_error()
                .is_some_and(|code| gone.contains(&code))
        },
    )
}

/// Estimates the bytes behind a descriptor, as far as nobody is charged for them.
fn cost(thread: &Path, descriptor: usize) -> u64 {
    let number = descriptor.to_string();
    let Ok(metadata) = fs::metadata(thread.join("fd").join(&number)) else {
        return 0;
    };
    if metadata.is_dir() {
        return cost_of_directory(metadata.nlink(), metadata.size());
    }
    if !metadata.file_type().is_socket() {
        return 0;
    }
    let information = fs::read_to_string(thread.join("fdinfo").join(&number)).unwrap_or_default();
    on_their_way(&information).saturating_mul(ON_ITS_WAY)
}

/// Estimates what an open directory holds. Overlayfs gives merged ones a single link; file systems
/// give others two and more.
fn cost_of_directory(links: u64, size: u64) -> u64 {
    match (links, size) {
        (1, 0) => REMOVED,
        (1, size) => size.saturating_mul(MERGED_RATIO).max(MERGED),
        _ => DIRECTORY,
    }
}

/// Number of descriptors that wait at a socket, from what the kernel says of it.
fn on_their_way(information: &str) -> u64 {
    let mut lines = information.lines();
    lines
        .find_map(|line| line.strip_prefix("scm_fds:")?.trim().parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn nothing_is_inherited(_: &Table, _: &Table, _: usize) -> bool {
        false
    }

    fn all_is_inherited(_: &Table, _: &Table, _: usize) -> bool {
        true
    }

    /// Threads with directories at all their descriptors.
    struct Threads {
        directory: tempfile::TempDir,
    }

    impl Threads {
        fn new() -> Self {
            Self {
                directory: tempfile::tempdir().unwrap(),
            }
        }

        fn table(&self, id: i32, open: usize, size: usize) -> Table {
            let thread = self.directory.path().join(id.to_string());
            fs::create_dir_all(thread.join("fd")).unwrap();
            for descriptor in 0..open {
                let at = thread.join("fd").join(descriptor.to_string());
                // One with more than one link, wherever tests run.
                symlink("/proc/self/task", at).unwrap();
            }
            Table { thread, id, size }
        }
    }

    /// A host with one process, which is of one sandbox.
    struct Host {
        proc: tempfile::TempDir,
        sandboxes: [(SandboxId, i32); 1],
    }

    impl Host {
        fn new() -> Self {
            let proc = tempfile::tempdir().unwrap();
            fs::create_dir_all(proc.path().join("7/ns")).unwrap();
            symlink("pid:[4711]", proc.path().join("7/ns/pid")).unwrap();
            let host = Self {
                proc,
                sandboxes: [(SandboxId::random(), 7)],
            };
            host.open(10);
            host
        }

        /// Opens so many directories in the process.
        fn open(&self, descriptors: usize) {
            let task = self.proc.path().join("7/task/7");
            fs::create_dir_all(task.join("fd")).unwrap();
            fs::write(task.join("status"), format!("FDSize:\t{descriptors}\n")).unwrap();
            for descriptor in 0..descriptors {
                let at = task.join("fd").join(descriptor.to_string());
                // There from an earlier call, if at all.
                if !at.is_symlink() {
                    symlink("/proc/self/task", at).unwrap();
                }
            }
        }

        /// Number of sandboxes that hold too much, after so much processor time.
        fn find(&self, watch: &OpenFileWatch, time: u64) -> usize {
            let memory = |_: &SandboxId| Ok(256 * MIB);
            let time = |_: &SandboxId| Ok(Duration::from_nanos(time));
            let found = watch.find(self.proc.path(), &self.sandboxes, memory, time);
            found.unwrap().len()
        }
    }

    #[test]
    fn a_sandbox_that_has_not_run_since_is_not_looked_at_again() {
        let (host, watch) = (Host::new(), OpenFileWatch::default());
        assert_eq!(host.find(&watch, 1), 0);
        host.open(4000);
        assert_eq!(host.find(&watch, 1), 0, "it was looked at");
        assert_eq!(host.find(&watch, 2), 1);
        assert_eq!(
            host.find(&watch, 2),
            1,
            "it holds too much for as long as it does"
        );
    }

    #[test]
    fn a_sandbox_of_which_a_sample_was_seen_is_looked_at_again() {
        let (host, watch) = (Host::new(), OpenFileWatch::default());
        let status = host.proc.path().join("7/task/7/status");
        fs::write(status, format!("FDSize:\t{}\n", SAMPLE + 1)).unwrap();
        assert_eq!(host.find(&watch, 1), 0);
        host.open(4000);
        assert_eq!(host.find(&watch, 1), 1);
    }

    #[test]
    fn every_open_directory_counts() {
        let threads = Threads::new();
        let tables = [threads.table(7, 10, 64), threads.table(8, 30, 64)];
        let bytes = held(&tables, SAMPLE, nothing_is_inherited);
        assert_eq!(bytes, 40 * DIRECTORY);
    }

    #[test]
    fn a_sample_stands_for_all_if_it_found_enough() {
        let threads = Threads::new();
        let many = [threads.table(7, 2000, 2000)];
        let bytes = held(&many, 200, nothing_is_inherited);
        assert_eq!(bytes, 2000 * DIRECTORY);
        // A few directories among many descriptors are a few.
        let few = [threads.table(8, 20, 2000)];
        let bytes = held(&few, 1000, nothing_is_inherited);
        assert!(bytes <= 31 * DIRECTORY, "{bytes}");
    }

    #[test]
    fn what_was_inherited_counts_once() {
        let threads = Threads::new();
        let tables: Vec<_> = (7..11).map(|id| threads.table(id, 2000, 2000)).collect();
        let one = 2000 * DIRECTORY;
        assert!(4 * one > LEAST_ALLOWED);
        assert_eq!(held(&tables, SAMPLE, all_is_inherited), one);
        assert_eq!(held(&tables, SAMPLE, nothing_is_inherited), 4 * one);
    }

    #[test]
    fn merged_directories_count_by_their_size() {
        assert_eq!(cost_of_directory(2, 100 * MIB), DIRECTORY);
        assert_eq!(cost_of_directory(1, 4096), MERGED);
        assert_eq!(cost_of_directory(1, MIB), 6 * MIB);
        assert_eq!(cost_of_directory(1, 0), REMOVED);
    }

    #[test]
    fn descriptors_on_their_way_are_told_by_this_kernel() {
        use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
        use std::os::fd::{AsFd as _, AsRawFd as _};

        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let sent = [one.as_fd(), other.as_fd()];
        let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
        let mut buffer = SendAncillaryBuffer::new(&mut space);
        assert!(buffer.push(SendAncillaryMessage::ScmRights(&sent)));
        let bytes = [io::IoSlice::new(b"x")];
        sendmsg(&one, &bytes, &mut buffer, SendFlags::empty()).unwrap();
        let descriptor = usize::try_from(other.as_raw_fd()).unwrap();
        let thread = Path::new("/proc/thread-self");
        assert_eq!(cost(thread, descriptor), 2 * ON_ITS_WAY);
        assert_eq!(cost(thread, usize::try_from(one.as_raw_fd()).unwrap()), 0);
    }
}
