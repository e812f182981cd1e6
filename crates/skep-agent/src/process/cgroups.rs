//! A cgroup for each kernel, so that what it uses is counted, and can be limited, where no code
//! in the sandbox can reach.
//!
//! The server passes directories of the sandbox's cgroups in which this process, and only this one,
//! can make cgroups: there is no cgroup file system in the sandbox, and nobody else in it has
//! these descriptors. On v1 there is a directory per controller; on v2 there is one, and a
//! `cgroup.procs` file through which a process comes below it first.
//!
//! A cgroup is used again when its kernel has ended and nothing is left in it, and is never
//! removed: the server does that with the sandbox's own, after it has read the counters.

mod counters;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Pid, Signal};
use skep_kernels::{Meter, Usage};
use skep_linux::as_effective_user;

/// Longest file read here; longer ones exist only with thousands of disks or processes.
const LONGEST_FILE: u64 = 256 << 10;

/// Largest number of cgroups of one sandbox: a kernel for every context that there may be, one for
/// every checkpoint, and some for spares and for those in which something outlived its kernel. The
/// host has 65,535 ids for memory cgroups, and those of all sandboxes come out of them.
const MAX_GROUPS: u32 = 320;

/// Memory in bytes that a cgroup without processes may hold, for the next kernel in it not to be
/// charged for it.
const MAX_HELD: u64 = 1 << 20;

/// Value of "no limit" in the files of cgroup v1 and v2.
const UNLIMITED_V1: &str = "-1";
const UNLIMITED_V2: &str = "max";

/// Pool of cgroups for kernels.
#[derive(Debug)]
pub(crate) struct CgroupPool {
    parents: Directories,
    /// Numbers of cgroups that exist and have no kernel.
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

/// The cgroup of one kernel.
#[derive(Debug)]
pub(crate) struct Cgroup {
    pool: Arc<CgroupPool>,
    number: u32,
    directories: Directories,
    /// The peak of memory, where it can begin anew.
    peak: Option<File>,
    /// The peak of what was seen, where it cannot.
    seen: AtomicU64,
}

/// The directories of one cgroup, or those in which cgroups are made.
#[derive(Debug)]
enum Directories {
    V1 {
        memory: OwnedFd,
        processor: OwnedFd,
        storage: Option<OwnedFd>,
    },
    V2 {
        directory: OwnedFd,
        entry: OwnedFd,
    },
}

impl CgroupPool {
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
                _ => tracing::warn!(name, "the server passed a directory that is not known"),
            }
        }
        let parents = match (memory, processor, unified, entry) {
            (Some(memory), Some(processor), None, None) => Directories::V1 {
                memory,
                processor,
                storage,
            },
            (None, None, Some(directory), Some(entry)) => Directories::V2 { directory, entry },
            _ => return None,
        };
        Some(Self {
            parents,
            free: Mutex::default(),
        })
    }

    /// Makes a cgroup, or takes one that nobody uses any more.
    pub(crate) fn take(self: &Arc<Self>) -> io::Result<Cgroup> {
        let mut unused = std::mem::take(&mut self.free.lock().numbers);
        let mut holding = Vec::new();
        while let Some(number) = unused.pop() {
            let cgroup = self.make_and_open(number);
            let is_empty = |cgroup: &Cgroup| cgroup.processes().is_ok_and(|all| all.is_empty());
            if let Ok(cgroup) = cgroup
                && is_empty(&cgroup)
            {
                // Memory stays counted where it was first used. Copies of the kernel that was here
                // live elsewhere and have it still.
                if cgroup.holds_memory() {
                    holding.push(cgroup);
                    continue;
                }
                self.free.lock().numbers.append(&mut unused);
                return Ok(cgroup);
            }
            // Something that its last kernel started lives on in it, and is still counted. When
            // the cgroup is dropped it waits again.
        }
        let number = self.free.lock().next_number();
        match number {
            Ok(number) => self.make_and_open(number),
            Err(full) => holding.pop().ok_or(full),
        }
    }

    /// The number waits for another try if this fails.
    fn make_and_open(self: &Arc<Self>, number: u32) -> io::Result<Cgroup> {
        let cgroup = self.make(number).and_then(|()| self.open(number));
        cgroup.inspect_err(|_| self.free.lock().numbers.push(number))
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
            Directories::V1 {
                memory,
                processor,
                storage,
            } => {
                let all = [Some(memory), Some(processor), storage.as_ref()];
                all.into_iter().flatten().try_for_each(make)?;
                count_sockets(memory, &name)
            }
            Directories::V2 { directory, .. } => {
                enable(directory)?;
                make(directory)
            }
        }
    }

    fn open(self: &Arc<Self>, number: u32) -> io::Result<Cgroup> {
        let open = |parent: &OwnedFd| -> io::Result<OwnedFd> {
            let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
            let name = name(number);
            Ok(rustix::fs::openat(parent, name, flags, Mode::empty())?)
        };
        let directories = match &self.parents {
            Directories::V1 {
                memory,
                processor,
                storage,
            } => Directories::V1 {
                memory: open(memory)?,
                processor: open(processor)?,
                storage: storage.as_ref().map(open).transpose()?,
            },
            Directories::V2 { directory, entry } => Directories::V2 {
                directory: open(directory)?,
                entry: entry.try_clone()?,
            },
        };
        let mut cgroup = Cgroup {
            pool: Arc::clone(self),
            number,
            directories,
            peak: None,
            seen: AtomicU64::new(0),
        };
        cgroup.peak = cgroup.resettable_peak();
        Ok(cgroup)
    }
}

/// Has what the sockets of a cgroup hold counted, against the limit of the cgroup above: v1 counts
/// only in cgroups to which somebody has written that they have a limit, be it none.
fn count_sockets(parent: &OwnedFd, cgroup: &str) -> io::Result<()> {
    let file = format!("{cgroup}/memory.kmem.tcp.limit_in_bytes");
    match write(parent.as_fd(), &file, UNLIMITED_V1) {
        // Kernels are built without it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// Lets cgroups below `directory` count and limit memory and storage.
fn enable(directory: &OwnedFd) -> io::Result<()> {
    let enabled = read(directory.as_fd(), "cgroup.subtree_control")?;
    let offered = read(directory.as_fd(), "cgroup.controllers")?;
    let has = |text: &str, name: &str| text.split_whitespace().any(|found| found == name);
    for controller in ["memory", "io"] {
        if has(&offered, controller) && !has(&enabled, controller) {
            write(
                directory.as_fd(),
                "cgroup.subtree_control",
                &format!("+{controller}"),
            )?;
        }
    }
    Ok(())
}

impl Cgroup {
    /// Opens the files through which a process enters, in their order.
    pub(super) fn join_fds(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |directory: &OwnedFd| -> io::Result<OwnedFd> {
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            let join_fd = rustix::fs::openat(directory, "cgroup.procs", flags, Mode::empty())?;
            Ok(join_fd)
        };
        match &self.directories {
            Directories::V1 {
                memory,
                processor,
                storage,
            } => [Some(memory), Some(processor), storage.as_ref()]
                .into_iter()
                .flatten()
                .map(open)
                .collect(),
            Directories::V2 { directory, entry } => Ok(vec![entry.try_clone()?, open(directory)?]),
        }
    }

    /// Returns true if a process must join the cgroups of all work before it joins this cgroup.
    pub(super) fn is_beside_work(&self) -> bool {
        matches!(self.directories, Directories::V1 { .. })
    }

    /// Moves a process of this user into it, which another cgroup of the pool holds.
    pub(super) fn admit(&self, pid: Pid, uid: u32) -> io::Result<()> {
        let number = pid.as_raw_nonzero().to_string();
        match &self.directories {
            Directories::V1 {
                memory,
                processor,
                storage,
            } => as_effective_user(uid, || {
                [Some(memory), Some(processor), storage.as_ref()]
                    .into_iter()
                    .flatten()
                    .try_for_each(|directory| write(directory.as_fd(), "cgroup.procs", &number))
            }),
            Directories::V2 { directory, .. } => write(directory.as_fd(), "cgroup.procs", &number),
        }
    }

    fn memory_directory(&self) -> BorrowedFd<'_> {
        match &self.directories {
            Directories::V1 { memory, .. } => memory.as_fd(),
            Directories::V2 { directory, .. } => directory.as_fd(),
        }
    }

    fn processes(&self) -> io::Result<Vec<Pid>> {
        let list = read(self.memory_directory(), "cgroup.procs")?;
        let number = |line: &str| line.parse().ok().and_then(Pid::from_raw);
        Ok(list.lines().filter_map(number).collect())
    }

    /// The file with the peak of memory, if writing to it lets the peak begin anew.
    fn resettable_peak(&self) -> Option<File> {
        let name = match &self.directories {
            Directories::V1 { .. } => "memory.max_usage_in_bytes",
            Directories::V2 { .. } => "memory.peak",
        };
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.memory_directory(), name, flags, Mode::empty()).ok()?;
        let mut file = File::from(file);
        // On v2 this can be done since Linux 6.12, for this descriptor alone.
        file.write_all(b"0").ok()?;
        Some(file)
    }
}

impl Meter for Cgroup {
    fn usage(&self) -> Option<Usage> {
        self.read_usage()
            .inspect_err(|error| {
                tracing::warn!(%error, "the counters of a kernel cannot be read");
            })
            .ok()
    }

    fn is_sampled(&self) -> bool {
        self.peak.is_none()
    }

    fn reset_peak(&self) {
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

    fn limit_memory(&self, limit: Option<u64>) -> io::Result<()> {
        let limited = match &self.directories {
            Directories::V1 { memory, .. } => limit_v1(memory.as_fd(), limit),
            Directories::V2 { directory, .. } => limit_v2(directory.as_fd(), limit),
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

    fn may_hold(&self, pid: u32) -> bool {
        let is_it = |held: &Pid| held.as_raw_nonzero().get().unsigned_abs() == pid;
        self.processes().is_ok_and(|all| all.iter().any(is_it))
    }

    fn kill(&self) {
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
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.pool.free.lock().numbers.push(self.number);
    }
}

fn name(number: u32) -> String {
    format!("kernel-{number}")
}

fn limit_v1(directory: BorrowedFd<'_>, limit: Option<u64>) -> io::Result<()> {
    let text = limit.map_or(UNLIMITED_V1.to_owned(), |limit| limit.to_string());
    let memory = || write(directory, "memory.limit_in_bytes", &text);
    // Swap counts too, where it is counted. The limit with it is never below the one without.
    let with_swap = || match write(directory, "memory.memsw.limit_in_bytes", &text) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        written => written,
    };
    if limit.is_some() {
        // A limit that is there may be in the way of both.
        limit_v1(directory, None)?;
        memory()?;
        with_swap()
    } else {
        with_swap()?;
        memory()
    }
}

fn limit_v2(directory: BorrowedFd<'_>, limit: Option<u64>) -> io::Result<()> {
    let Some(limit) = limit else {
        return write(directory, "memory.max", UNLIMITED_V2);
    };
    // v2 kills until the limit holds; what ran before must not be killed for what comes.
    let used = counters::number(&read(directory, "memory.current")?).unwrap_or(0);
    let files = counters::field(&read(directory, "memory.stat")?, "file").unwrap_or(0);
    if used.saturating_sub(files) >= limit {
        return Err(io::ErrorKind::ResourceBusy.into());
    }
    write(directory, "memory.max", &limit.to_string())
}

fn read(directory: BorrowedFd<'_>, name: &str) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    skep_linux::kernel_text(File::from(file), LONGEST_FILE)
}

fn write(directory: BorrowedFd<'_>, name: &str, value: &str) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    File::from(file).write_all(value.as_bytes())
}

#[cfg(test)]
mod tests;
