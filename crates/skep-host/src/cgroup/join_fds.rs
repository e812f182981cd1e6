//! The open files by which processes join the groups of a sandbox.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use super::{CgroupError, Cgroups, Child, Group, file};

/// Open files of a sandbox's groups.
#[derive(Debug)]
pub struct JoinFds {
    /// The `cgroup.procs` files that the launcher joins before it makes namespaces.
    pub join: Vec<File>,
    /// Those that it and the new process join after that, where it is another group.
    pub home: Vec<File>,
    /// The files of the group of everything that user code starts.
    pub work: Vec<File>,
    /// The file that counts OOM kills, in a line `oom_kill <count>`.
    pub kill_count: File,
}

impl Cgroups {
    /// Opens all files by which processes join a group.
    pub(crate) fn open_join_fds(&self, group: &Group) -> Result<JoinFds, CgroupError> {
        let (join, home) = self.entrances(group)?;
        Ok(JoinFds {
            join,
            home,
            work: self.join_fds(group, Child::Work)?,
            kill_count: self.kill_count(group)?,
        })
    }

    /// Opens what the launcher joins before it makes namespaces, and what it and the new process
    /// join after that.
    ///
    /// On v2 the agent may move processes only between groups below the one in which its
    /// namespace was made, so that must be the one it makes groups in.
    pub(super) fn entrances(&self, group: &Group) -> Result<(Vec<File>, Vec<File>), CgroupError> {
        match self {
            Self::V1(_) => Ok((self.join_fds(group, Child::Agent)?, Vec::new())),
            Self::V2(tree) => Ok((
                vec![open_procs(&tree.kernels(group))?],
                self.join_fds(group, Child::Agent)?,
            )),
        }
    }

    /// Opens the files that a process joins a child of the group by: it writes `0` to each.
    ///
    /// The kernel checks the right to do so against whoever opened the file, so a process
    /// without any rights on the host can use them, and only for itself.
    pub(crate) fn join_fds(&self, group: &Group, child: Child) -> Result<Vec<File>, CgroupError> {
        let directories = self.directories(group, child);
        directories
            .iter()
            .map(|directory| open_procs(directory))
            .collect()
    }

    /// The directories, one per hierarchy, in which the processes of a child of the group live.
    pub(super) fn directories(&self, group: &Group, child: Child) -> Vec<PathBuf> {
        match self {
            Self::V1(hierarchies) => hierarchies.directories(group, child),
            Self::V2(tree) => vec![tree.leaf(group, child)],
        }
    }

    /// Opens the file that counts how many processes of the sandbox's own work were killed for
    /// want of memory, in a line `oom_kill <count>`.
    fn kill_count(&self, group: &Group) -> Result<File, CgroupError> {
        let path = match self {
            Self::V1(hierarchies) => hierarchies.kill_count(group),
            Self::V2(tree) => tree
                .directory(group)
                .join(Child::Work.name())
                .join("memory.events"),
        };
        File::open(&path).map_err(file("open", &path))
    }
}

/// Opens the file by which a process joins the group in `directory`.
pub(super) fn open_procs(directory: &Path) -> Result<File, CgroupError> {
    let path = directory.join("cgroup.procs");
    let procs = OpenOptions::new().write(true).open(&path);
    procs.map_err(file("open", &path))
}
