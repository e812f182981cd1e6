//! Memory and processor time of processes on this host.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host_info::kibibytes;

/// Memory of one process or several, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Memory that is its own: what its end gives back.
    pub(crate) private: u64,
    /// Memory that it shares with others, counted whole.
    pub(crate) shared: u64,
    /// Private, and its share of the shared.
    pub(crate) proportional: u64,
    /// Memory that is in no file: what an image with memory holds.
    pub(crate) anonymous: u64,
}

impl Memory {
    /// Sums up the memory of these processes. One that has ended meanwhile has none.
    pub(crate) fn of(pids: &[u32]) -> io::Result<Self> {
        let mut sum = Self::default();
        for pid in pids {
            let text = match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
                Ok(text) => text,
                // The kernel says ESRCH of a process that is ending, and has no file of one
                // that has ended.
                Err(error) if is_gone(&error) => continue,
                Err(error) => return Err(error),
            };
            let one = Self::parse(&text);
            sum.private += one.private;
            sum.shared += one.shared;
            sum.proportional += one.proportional;
            sum.anonymous += one.anonymous;
        }
        Ok(sum)
    }

    fn parse(text: &str) -> Self {
        let bytes = |key: &str| kibibytes(text, key).unwrap_or_default() << 10;
        Self {
            private: bytes("Private_Clean:") + bytes("Private_Dirty:"),
            shared: bytes("Shared_Clean:") + bytes("Shared_Dirty:"),
            proportional: bytes("Pss:"),
            anonymous: bytes("Anonymous:"),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

/// The memory that a process has now, of which parts may be shared.
pub(crate) fn resident(pid: u32) -> io::Result<u64> {
    status(pid, "VmRSS:")
}

/// The most memory that a process ever had.
pub(crate) fn peak(pid: u32) -> io::Result<u64> {
    status(pid, "VmHWM:")
}

fn status(pid: u32, key: &str) -> io::Result<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let value = kibibytes(&text, key).ok_or_else(|| io::Error::other(format!("no {key}")))?;
    Ok(value << 10)
}

/// Processor time of all threads that these processes have now.
pub(crate) fn processor_time(pids: &[u32]) -> io::Result<Duration> {
    let mut nanoseconds = 0;
    for pid in pids {
        let threads = match fs::read_dir(format!("/proc/{pid}/task")) {
            Ok(threads) => threads,
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        for thread in threads {
            match fs::read_to_string(thread?.path().join("schedstat")) {
                Ok(text) => nanoseconds += time_on_processor(&text),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(Duration::from_nanos(nanoseconds))
}

/// The first number: nanoseconds on a processor. The others are waiting and turns.
fn time_on_processor(schedstat: &str) -> u64 {
    let first = schedstat.split_whitespace().next();
    first.and_then(|time| time.parse().ok()).unwrap_or_default()
}

/// The cgroup of one server, below which each of its sandboxes has one.
#[derive(Debug)]
pub(crate) struct Group {
    path: PathBuf,
}

impl Group {
    /// The one that the sandbox `id` is in, in the first hierarchy of `root` that has it. Only
    /// the server knows how its own is called, but each sandbox has one of its ID below it.
    pub(crate) fn around(root: &Path, id: &str) -> io::Result<Self> {
        let below = |directory: &Path| -> io::Result<Vec<PathBuf>> {
            let entries = fs::read_dir(directory)?.filter_map(Result::ok);
            Ok(entries.map(|entry| entry.path()).collect())
        };
        let hierarchies = below(root)?;
        // Those of version 1 are directories of the root; of version 2 the root is the only one.
        let nested = hierarchies
            .iter()
            .flat_map(|hierarchy| below(hierarchy).unwrap_or_default());
        hierarchies
            .iter()
            .cloned()
            .chain(nested)
            .find(|group| group.join(id).join("cgroup.procs").exists())
            .map(|path| Self { path })
            .ok_or_else(|| io::Error::other(format!("sandbox `{id}` has no cgroup")))
    }

    /// All processes of the sandbox `id`.
    pub(crate) fn processes_of(&self, id: &str) -> io::Result<Vec<u32>> {
        processes_below(&self.path.join(id))
    }

    /// The agent of the sandbox `id`.
    pub(crate) fn agent_of(&self, id: &str) -> io::Result<Vec<u32>> {
        processes_below(&self.path.join(id).join("agent"))
    }

    /// All processes that the server holds.
    pub(crate) fn processes(&self) -> io::Result<Vec<u32>> {
        processes_below(&self.path)
    }
}

fn processes_below(directory: &Path) -> io::Result<Vec<u32>> {
    let listed = fs::read_to_string(directory.join("cgroup.procs"))?;
    let mut pids: Vec<u32> = listed.lines().filter_map(|pid| pid.parse().ok()).collect();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            pids.extend(processes_below(&entry.path())?);
        }
    }
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_and_shared_memory_are_told_apart() {
        let text = "00-ff ---p 00:00 0 [rollup]\nRss: 60 kB\nPss: 35 kB\nPss_Dirty: 9 kB\n\
                    Shared_Clean: 30 kB\nShared_Dirty: 2 kB\nPrivate_Clean: 8 kB\nPrivate_Dirty: 20 kB\n\
                    Anonymous: 22 kB\n";
        let expected = Memory {
            private: 28 << 10,
            shared: 32 << 10,
            proportional: 35 << 10,
            anonymous: 22 << 10,
        };
        assert_eq!(Memory::parse(text), expected);
    }

    #[test]
    fn this_process_has_memory_and_uses_the_processor() {
        let pids = [std::process::id()];
        assert!(Memory::of(&pids).unwrap().private > 0);
        assert!(processor_time(&pids).unwrap() > Duration::ZERO);
        assert!(peak(pids[0]).unwrap() >= resident(pids[0]).unwrap());
    }

    #[test]
    fn a_process_that_has_ended_has_no_memory() {
        // No process has this id: the kernel's highest is below it.
        let pids = [u32::MAX >> 1];
        assert_eq!(Memory::of(&pids).unwrap(), Memory::default());
        assert_eq!(processor_time(&pids).unwrap(), Duration::ZERO);
    }

    #[test]
    fn processes_of_groups_below_count() {
        let root = tempfile::tempdir().unwrap();
        let agent = root.path().join("memory/skep-7/i1/agent");
        fs::create_dir_all(&agent).unwrap();
        fs::write(agent.join("cgroup.procs"), "12\n").unwrap();
        for (directory, pids) in [("i1", "11\n"), ("", "")] {
            let directory = root.path().join("memory/skep-7").join(directory);
            fs::write(directory.join("cgroup.procs"), pids).unwrap();
        }
        let group = Group::around(root.path(), "i1").unwrap();
        assert_eq!(group.processes_of("i1").unwrap(), [11, 12]);
        assert_eq!(group.agent_of("i1").unwrap(), [12]);
        assert_eq!(group.processes().unwrap(), [11, 12]);
        Group::around(root.path(), "i2").unwrap_err();
        let unified = Group::around(&root.path().join("memory"), "i1").unwrap();
        assert_eq!(unified.processes().unwrap(), [11, 12]);
    }
}
