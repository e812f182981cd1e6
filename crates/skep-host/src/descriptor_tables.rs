//! Processes of sandboxes and their tables of descriptors, for those who look into them.

use std::collections::HashMap;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use skep_types::SandboxId;

/// Threads of a process that are looked at; one may have descriptors of its own.
const THREADS: usize = 16;

/// Finds the sandbox that a process belongs to.
#[derive(Debug)]
pub(crate) struct Owners<'a> {
    proc: &'a Path,
    /// Sandboxes by pid namespace: a sandbox has its own, and its processes can leave it for no
    /// other.
    by_namespace: HashMap<PathBuf, &'a SandboxId>,
    shares: Shares,
}

/// Returns true if two threads have one table of descriptors.
pub(crate) type Shares = fn(i32, i32) -> bool;

/// Asks the kernel. If it does not tell, they have two: one too many is looked at then.
pub(crate) fn shares(one: i32, other: i32) -> bool {
    skep_linux::share_descriptors(one, other).unwrap_or(false)
}

impl<'a> Owners<'a> {
    pub(crate) fn new(proc: &'a Path, sandboxes: &'a [(SandboxId, i32)], shares: Shares) -> Self {
        let by_namespace = sandboxes
            .iter()
            .filter_map(|(id, pid)| Some((namespace(proc, &pid.to_string())?, id)))
            .collect();
        Self {
            proc,
            by_namespace,
            shares,
        }
    }

    fn of(&self, pid: &str) -> Option<&'a SandboxId> {
        self.by_namespace.get(&namespace(self.proc, pid)?).copied()
    }

    /// All processes of sandboxes, in an order that nobody can foresee.
    pub(crate) fn processes(&self) -> io::Result<Vec<(String, &'a SandboxId)>> {
        let mut processes = Vec::new();
        for entry in fs::read_dir(self.proc)? {
            let name = entry?.file_name();
            let pid = name.to_str().filter(|name| name.parse::<u32>().is_ok());
            if let Some((pid, owner)) = pid.and_then(|pid| Some((pid, self.of(pid)?))) {
                processes.push((pid.to_owned(), owner));
            }
        }
        shuffle(&mut processes);
        Ok(processes)
    }

    /// The first thread of a process, and some of those that have descriptors of their own.
    pub(crate) fn threads(&self, pid: &str) -> Threads {
        let directory = self.proc.join(pid).join("task");
        let first = directory.join(pid);
        let mut threads: Vec<_> = fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten()
            .map(|thread| thread.path())
            .collect();
        let is_all = threads.len() <= THREADS;
        shuffle(&mut threads);
        threads.truncate(THREADS);
        threads.retain(|thread| {
            let id = |path: &Path| path.file_name()?.to_str()?.parse::<i32>().ok();
            let is_shared = |(this, first)| (self.shares)(this, first);
            *thread != first && !id(thread).zip(id(&first)).is_some_and(is_shared)
        });
        threads.push(first);
        Threads {
            directories: threads,
            is_all,
        }
    }
}

/// Threads of a process that do not share their descriptors.
#[derive(Debug)]
pub(crate) struct Threads {
    /// Their directories in procfs.
    pub(crate) directories: Vec<PathBuf>,
    /// False if the process has more threads than were looked at.
    pub(crate) is_all: bool,
}

/// Length of the table of descriptors of a thread, which has no more than that.
pub(crate) fn table_size(thread: &Path) -> usize {
    let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("FDSize:")?.trim().parse().ok())
        .unwrap_or_default()
}

/// Numbers of descriptors that a thread may have: all if they are at most `most`, else as many
/// of them by chance. The table is not listed: it may have a million entries.
pub(crate) fn sampled_descriptors(thread: &Path, most: usize) -> Vec<String> {
    let size = table_size(thread);
    if size <= most {
        return (0..size).map(|number| number.to_string()).collect();
    }
    (0..most)
        .map(|_| (random() % size as u64).to_string())
        .collect()
}

pub(crate) fn namespace(proc: &Path, pid: &str) -> Option<PathBuf> {
    fs::read_link(proc.join(pid).join("ns/pid")).ok()
}

pub(crate) fn shuffle<T>(things: &mut [T]) {
    for index in (1..things.len()).rev() {
        let other = random() % (index as u64 + 1);
        things.swap(index, usize::try_from(other).unwrap_or_default());
    }
}

/// A number that a sandbox cannot foresee.
pub(crate) fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
