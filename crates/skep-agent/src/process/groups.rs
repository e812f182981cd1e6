//! A cgroup for each kernel, so that what it uses is counted, and can be limited, where no code
//! in the sandbox can reach.
//!
//! The server passes directories of the sandbox's cgroups in which this process, and only this one,
//! can make groups: there is no cgroup file system in the sandbox, and nobody else in it has
//! these descriptors. On v1 there is a directory per controller; on v2 there is one, and a
//! `cgroup.procs` file through which a process comes below it first.
//!
//! A group is used again when its kernel has ended and nothing is left in it, and is never
//! removed: the server does that with the sandbox's own, after it has read the counters.

mod counters;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};

pub use counters::{Bytes, GroupUsage};

/// Longest file read here; longer ones exist only with thousands of disks or processes.
const LONGEST_FILE: u64 = 256 << 10;

/// Largest number of groups of one sandbox: a kernel for every context that there may be, and some
/// for spares and for those in which something outlived its kernel. The host has 65,535 ids for
/// memory cgroups, and those of all sandboxes come out of them.
const MAX_GROUPS: u32 = 288;

/// Value of "no limit" in the files of cgroup v1 and v2.
const UNLIMITED_V1: &str = "-1";
const UNLIMITED_V2: &str = "max";

/// Pool of cgroups for kernels.
#[derive(Debug)]
pub(crate) struct Groups {
    parents: Folders,
    /// Numbers of groups that exist and have no kernel.
    free: Mutex<Free>,
}

#[derive(Debug, Default)]
struct Free {
    numbers: Vec<u32>,
    made: u32,
}

impl Free {
    fn next_number(&mut self) -> io::Result<u32> {
        if self.made >= MAX_GROUPS {
            let text = format!("something runs in each of the {MAX_GROUPS} cgroups for kernels");
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, text));
        }
        self.made += 1;
        Ok(self.made)
    }
}

/// The group of one kernel.
#[derive(Debug)]
pub struct Group {
    groups: Arc<Groups>,
    number: u32,
    folders: Folders,
    /// The peak of memory, where it can begin anew.
    peak: Option<File>,
    /// The peak of what was seen, where it cannot.
    seen: AtomicU64,
}

/// The directories of one group, or those in which groups are made.
#[derive(Debug)]
enum Folders {
    V1 {
        memory: OwnedFd,
        processor: OwnedFd,
        storage: Option<OwnedFd>,
    },
    V2 {
        folder: OwnedFd,
        entry: OwnedFd,
    },
}

impl Groups {
    /// Makes a pool from the directories that the server passed, by their names; `None` if some are
    /// missing.
    pub(crate) fn new(passed: Vec<(String, OwnedFd)>) -> Option<Self> {
        let (mut memory, mut processor, mut storage) = (None, None, None);
        let (mut unified, mut entry) = (None, None);
        for (name, descriptor) in passed {
            match name.as_str() {
                "memory" => memory = Some(descriptor),
                "cpuacct" => processor = Some(descriptor),
                "blkio" => storage = Some(descriptor),
                "unified" => unified = Some(descriptor),
                "entry" => entry = Some(descriptor),
                _ => tracing::warn!(name, "the server passed a folder that is not known"),
            }
        }
        let parents = match (memory, processor, unified, entry) {
            (Some(memory), Some(processor), None, None) => Folders::V1 {
                memory,
                processor,
                storage,
            },
            (None, None, Some(folder), Some(entry)) => Folders::V2 { folder, entry },
            _ => return None,
        };
        Some(Self {
            parents,
            free: Mutex::default(),
        })
    }

    /// Makes a group, or takes one that nobody uses any more.
    pub(crate) fn take(self: &Arc<Self>) -> io::Result<Group> {
        let mut unused = std::mem::take(&mut self.free().numbers);
        while let Some(number) = unused.pop() {
            let group = self.make_and_open(number);
            let is_empty = |group: &Group| group.processes().is_ok_and(|all| all.is_empty());
            if let Ok(group) = group
                && is_empty(&group)
            {
                self.free().numbers.append(&mut unused);
                return Ok(group);
            }
            // Something that its last kernel started lives on in it, and is still counted. When
            // the group is dropped it waits again.
        }
        let number = self.free().next_number()?;
        self.make_and_open(number)
    }

    /// The number waits for another try if this fails.
    fn make_and_open(self: &Arc<Self>, number: u32) -> io::Result<Group> {
        let group = self.make(number).and_then(|()| self.open(number));
        group.inspect_err(|_| self.free().numbers.push(number))
    }

    fn free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, number: u32) -> io::Result<()> {
        let name = name(number);
        let make = |parent: &OwnedFd| -> io::Result<()> {
            match rustix::fs::mkdirat(parent, name.as_str(), Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
                Err(error) => Err(error.into()),
            }
        };
        match &self.parents {
            Folders::V1 {
                memory,
                processor,
                storage,
            } => {
                let all = [Some(memory), Some(processor), storage.as_ref()];
                all.into_iter().flatten().try_for_each(make)?;
                count_sockets(memory, &name)
            }
            Folders::V2 { folder, .. } => {
                enable(folder)?;
                make(folder)
            }
        }
    }

    fn open(self: &Arc<Self>, number: u32) -> io::Result<Group> {
        let open = |parent: &OwnedFd| -> io::Result<OwnedFd> {
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
            let name = name(number);
            Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
        };
        let folders = match &self.parents {
            Folders::V1 {
                memory,
                processor,
                storage,
            } => Folders::V1 {
                memory: open(memory)?,
                processor: open(processor)?,
                storage: storage.as_ref().map(open).transpose()?,
            },
            Folders::V2 { folder, entry } => Folders::V2 {
                folder: open(folder)?,
                entry: entry.try_clone()?,
            },
        };
        let mut group = Group {
            groups: Arc::clone(self),
            number,
            folders,
            peak: None,
            seen: AtomicU64::new(0),
        };
        group.peak = group.resettable_peak();
        Ok(group)
    }
}

/// Has what the sockets of a group hold counted, against the limit of the group above: v1 counts
/// only in groups to which somebody has written that they have a limit, be it none.
fn count_sockets(parent: &OwnedFd, group: &str) -> io::Result<()> {
    let file = format!("{group}/memory.kmem.tcp.limit_in_bytes");
    match write(parent.as_fd(), &file, UNLIMITED_V1) {
        // Kernels are built without it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Lets groups below `folder` count and limit memory and storage.
fn enable(folder: &OwnedFd) -> io::Result<()> {
    let enabled = read(folder.as_fd(), "cgroup.subtree_control")?;
    let offered = read(folder.as_fd(), "cgroup.controllers")?;
    let has = |text: &str, name: &str| text.split_whitespace().any(|found| found == name);
    for controller in ["memory", "io"] {
        if has(&offered, controller) && !has(&enabled, controller) {
            write(
                folder.as_fd(),
                "cgroup.subtree_control",
                &format!("+{controller}"),
            )?;
        }
    }
    Ok(())
}

impl Group {
    /// Opens the files through which a process enters, in their order.
    pub(super) fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |folder: &OwnedFd| -> io::Result<OwnedFd> {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            let door = rustix::fs::openat(folder, "cgroup.procs", flags, Mode::empty())?;
            Ok(door)
        };
        match &self.folders {
            Folders::V1 {
                memory,
                processor,
                storage,
            } => [Some(memory), Some(processor), storage.as_ref()]
                .into_iter()
                .flatten()
                .map(open)
                .collect(),
            Folders::V2 { folder, entry } => Ok(vec![entry.try_clone()?, open(folder)?]),
        }
    }

    /// Returns true if a process must join the cgroups of all work before it joins this group.
    pub(super) fn is_beside_work(&self) -> bool {
        matches!(self.folders, Folders::V1 { .. })
    }

    /// Returns true if the peak of memory is only the most that was sampled, so that it must be
    /// sampled often.
    pub fn is_sampled(&self) -> bool {
        self.peak.is_none()
    }

    /// Lets the peak of memory begin anew.
    pub fn reset_peak(&self) {
        self.seen
            .store(self.memory().unwrap_or(0), Ordering::Relaxed);
        let reset = match &self.peak {
            Some(peak) => (&mut &*peak).write_all(b"0"),
            None => Ok(()),
        };
        if let Err(error) = reset {
            tracing::debug!(%error, "cannot reset the peak of memory");
        }
    }

    /// Limits the memory of everything in the group together, or lifts the limit.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` if more is used already and cannot be given back.
    pub fn limit_memory(&self, limit: Option<u64>) -> io::Result<()> {
        let limited = match &self.folders {
            Folders::V1 { memory, .. } => limit_v1(memory.as_fd(), limit),
            Folders::V2 { folder, .. } => limit_v2(folder.as_fd(), limit),
        };
        // v1 answers EBUSY when it cannot reclaim enough to get below a new limit.
        limited.map_err(|error| {
            if error.kind() == io::ErrorKind::ResourceBusy {
                io::ErrorKind::OutOfMemory.into()
            } else {
                error
            }
        })
    }

    /// Kills everything in the group, and what that starts meanwhile.
    pub fn kill(&self) {
        // A list is out of date when it has been read: what was forked meanwhile is in the next
        // one. Bounded, because a fork bomb could be faster.
        for _ in 0..16 {
            match self.processes() {
                Ok(processes) if processes.is_empty() => return,
                Ok(processes) => {
                    for process in processes {
                        // It may have ended by now.
                        rustix::process::kill_process(process, Signal::KILL).ok();
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot see what a kernel has started");
                    return;
                }
            }
        }
    }

    fn memory_folder(&self) -> BorrowedFd<'_> {
        match &self.folders {
            Folders::V1 { memory, .. } => memory.as_fd(),
            Folders::V2 { folder, .. } => folder.as_fd(),
        }
    }

    fn processes(&self) -> io::Result<Vec<Pid>> {
        let list = read(self.memory_folder(), "cgroup.procs")?;
        let number = |line: &str| line.parse().ok().and_then(Pid::from_raw);
        Ok(list.lines().filter_map(number).collect())
    }

    /// The file with the peak of memory, if writing to it lets the peak begin anew.
    fn resettable_peak(&self) -> Option<File> {
        let name = match &self.folders {
            Folders::V1 { .. } => "memory.max_usage_in_bytes",
            Folders::V2 { .. } => "memory.peak",
        };
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.memory_folder(), name, flags, Mode::empty()).ok()?;
        let mut file = File::from(file);
        // On v2 this can be done since Linux 6.12, for this descriptor alone.
        file.write_all(b"0").ok()?;
        Some(file)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.groups.free().numbers.push(self.number);
    }
}

fn name(number: u32) -> String {
    format!("kernel-{number}")
}

fn limit_v1(folder: BorrowedFd<'_>, limit: Option<u64>) -> io::Result<()> {
    let text = limit.map_or(UNLIMITED_V1.to_owned(), |limit| limit.to_string());
    let memory = || write(folder, "memory.limit_in_bytes", &text);
    // Swap counts too, where it is counted. The limit with it is never below the one without.
    let with_swap = || match write(folder, "memory.memsw.limit_in_bytes", &text) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written,
    };
    if limit.is_some() {
        // A limit that is there may be in the way of both.
        limit_v1(folder, None)?;
        memory()?;
        with_swap()
    } else {
        with_swap()?;
        memory()
    }
}

fn limit_v2(folder: BorrowedFd<'_>, limit: Option<u64>) -> io::Result<()> {
    let Some(limit) = limit else {
        return write(folder, "memory.max", UNLIMITED_V2);
    };
    // v2 kills until the limit holds; what ran before must not be killed for what comes.
    let used = counters::number(&read(folder, "memory.current")?).unwrap_or(0);
    let files = counters::field(&read(folder, "memory.stat")?, "file").unwrap_or(0);
    if used.saturating_sub(files) >= limit {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    write(folder, "memory.max", &limit.to_string())
}

fn read(folder: BorrowedFd<'_>, name: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    let mut text = String::new();
    file.take(LONGEST_FILE).read_to_string(&mut text)?;
    Ok(text)
}

fn write(folder: BorrowedFd<'_>, name: &str, value: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, name, flags, Mode::empty())?;
    File::from(file).write_all(value.as_bytes())
}

#[cfg(test)]
mod tests;
