//! The open files by which processes join the groups of a sandbox.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use super::{CgroupError, Cgroups, Child, Group, Settings, file};

/// Open files of a sandbox's groups.
#[derive(Debug)]
pub struct JoinFds {
    /// The `cgroup.procs` files of the sandbox's group, which the launcher joins before it makes
    /// namespaces.
    pub join: Vec<File>,
    /// Those of the group that the new process lives in.
    pub home: Vec<File>,
    /// The files of the group of everything that user code starts.
    pub work: Vec<File>,
    /// The file that counts OOM kills, in a line `oom_kill <count>`.
    pub kill_count: File,
    /// The file that tells what counts against the memory limit of the sandbox.
    pub memory_used: File,
    /// The file `memory.stat` of the sandbox.
    pub memory_statistics: File,
    /// Limits that the launcher writes, if there are such.
    pub settings: Option<Settings>,
}

impl Cgroups {
    /// Opens all files by which processes join a group.
    pub(crate) fn open_join_fds(
        &self,
        group: &Group,
        settings: Option<Settings>,
    ) -> Result<JoinFds, CgroupError> {
        let own = match self {
            Self::V1(hierarchies) => hierarchies.own_directories(group),
            Self::V2(tree) => vec![tree.directory(group)],
        };
        Ok(JoinFds {
            join: open_all(&own)?,
            home: self.join_fds(group, Child::Agent)?,
            work: self.join_fds(group, Child::Work)?,
            kill_count: self.kill_count(group)?,
            memory_used: self.open_memory(group, self.memory_used())?,
            memory_statistics: self.open_memory(group, "memory.stat")?,
            settings,
        })
    }

    /// Opens the files that a process joins a child of the group by: it writes `0` to each.
    ///
    /// The kernel checks the right to do so against whoever opened the file, so a process
    /// without any rights on the host can use them, and only for itself.
    pub(crate) fn join_fds(&self, group: &Group, child: Child) -> Result<Vec<File>, CgroupError> {
        open_all(&self.directories(group, child))
    }

    /// The directories, one per hierarchy, in which the processes of a child of the group live.
    pub(super) fn directories(&self, group: &Group, child: Child) -> Vec<PathBuf> {
        match self {
            Self::V1(hierarchies) => hierarchies.directories(group, child),
            Self::V2(tree) => vec![tree.leaf(group, child)],
        }
    }

    fn memory_used(&self) -> &'static str {
        match self {
            Self::V1(_) => "memory.usage_in_bytes",
            Self::V2(_) => "memory.current",
        }
    }

    /// Opens a file of the sandbox's own memory cgroup for reading.
    fn open_memory(&self, group: &Group, name: &str) -> Result<File, CgroupError> {
        let path = match self {
            Self::V1(hierarchies) => hierarchies.memory(group),
            Self::V2(tree) => tree.directory(group),
        };
        let path = path.join(name);
        File::open(&path).map_err(file("open", &path))
    }

    /// Opens the file that counts how many processes of the sandbox's own work were killed for
    /// want of memory, in a line `oom_kill <count>`.
    fn kill_count(&self, group: &Group) -> Result<File, CgroupError> {
        let path = match self {
            Self::V1(hierarchies) => hierarchies.kill_count(group),
            // It counts what is below, too, and is there before the controllers of `work` are.
            Self::V2(tree) => tree.directory(group).join("memory.events"),
        };
        File::open(&path).map_err(file("open", &path))
    }
}

fn open_all(directories: &[PathBuf]) -> Result<Vec<File>, CgroupError> {
    let all = directories.iter();
    all.map(|directory| open_procs(directory)).collect()
}

/// Opens the file by which a process joins the group in `directory`.
pub(super) fn open_procs(directory: &Path) -> Result<File, CgroupError> {
    let path = directory.join("cgroup.procs");
    let procs = OpenOptions::new().write(true).open(&path);
    procs.map_err(file("open", &path))
}
