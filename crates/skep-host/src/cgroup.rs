//! Limits and counters of a sandbox, on cgroup v1 hierarchies and on the unified v2 tree.
//!
//! Each sandbox has a group with two children. `work` holds everything user code starts and
//! has the sandbox's limits. `agent` holds the first process; the parent's limits are a little
//! wider, so that the agent still answers when `work` has used all it may.
//!
//! ```text
//! <parent>/<sandbox>          limits + reserve
//!            ├─ agent         the first process
//!            └─ work          the limits; everything else
//!                 ├─ rest     v2 only, where processes live in leaves: what is no kernel
//!                 └─ kernels  v2 only: as `work` on v1, where the agent makes groups
//! ```
//!
//! The sandbox's cgroup namespace is made in its group, so that it sees `/work` and nothing above.
//! On v2 no controller can be enabled below a group that has processes; so what is limited below
//! the sandbox's group is limited by the launcher, with [`Settings`], when it has left.
//!
//! The agent makes a group for each kernel, to count and limit it apart. It gets a directory for
//! that by a descriptor and owns nothing but the directory: the limits of `work` stay ours.

mod destroy;
mod device;
mod freeze;
mod join_fds;
mod ready;
mod settings;
mod subgroups;
mod v1;
mod v2;
mod walk;

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use skep_types::{Resources, Usage};

pub(crate) use device::{DiskSpeed, IoLimit};
pub use join_fds::JoinFds;
use join_fds::open_procs;
pub(crate) use ready::ReadyGroups;
pub use settings::Settings;
pub use subgroups::Subgroup;

/// Memory that the agent may use beyond the sandbox's limits.
const RESERVED_MEMORY: u64 = 64 * 1024 * 1024;
const RESERVED_PIDS: u32 = 32;
/// Processor time reserved for the agent, in each period. The agent answers also when everything
/// else has used up its time, and cannot be made to use a second processor.
const RESERVED_TIME: Duration = Duration::from_millis(25);
/// Divisor of a sandbox's memory that yields its limit for socket buffers, where they are counted
/// apart. A connection at full speed over a long line takes six megabytes.
const SOCKETS_PART: u64 = 8;
/// The period in which processor time is dealt out.
const PERIOD: Duration = Duration::from_millis(100);
/// Limit on the cgroups that are read to count OOM kills. Those beyond are groups that no agent of
/// ours made.
const MOST_COUNTED: usize = 1024;

/// The two children of a sandbox's cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Child {
    Agent,
    Work,
}

impl Child {
    const ALL: [Self; 2] = [Self::Agent, Self::Work];

    fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Work => "work",
        }
    }
}

/// The cgroups of this host, as far as sandboxes are concerned.
#[derive(Debug, Clone)]
pub(crate) enum Cgroups {
    V1(v1::Hierarchies),
    V2(v2::Tree),
}

/// Failure to make, read or remove a cgroup.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CgroupError {
    /// No hierarchy has the controllers that hold the limits.
    #[error("no cgroup hierarchy offers {missing}")]
    Missing { missing: String },
    #[error("cannot {operation} `{}`", path.display())]
    File {
        operation: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// A file of the kernel holds something unexpected.
    #[error("cannot read `{text}` in `{}`", path.display())]
    Content { path: PathBuf, text: String },
    /// Processes are left after every one was killed.
    #[error("processes in `{}` do not die", path.display())]
    Undead { path: PathBuf },
    /// Processes run on although they were told to stand.
    #[error("processes in `{}` do not stand still", path.display())]
    Restless { path: PathBuf },
    /// There are more groups than could be removed in the time there was. Fewer are left now.
    #[error("too many groups in `{}`", path.display())]
    Many { path: PathBuf },
}

/// One sandbox's group. Dropping it does nothing: [`Cgroups::destroy`] does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    name: String,
}

impl Group {
    /// A group that has no sandbox yet.
    fn ready(name: &str) -> Self {
        Self { name: name.into() }
    }

    /// The group of the sandbox of this name. The name is an id: it cannot leave the parent.
    pub(crate) fn new(id: &skep_types::SandboxId) -> Self {
        Self {
            name: id.to_string(),
        }
    }
}

impl Cgroups {
    /// Finds the hierarchies below `root` (usually `/sys/fs/cgroup`) and the parent group
    /// `parent` in them, which is made if it is missing.
    ///
    /// # Errors
    ///
    /// [`CgroupError::Missing`] names the controllers that are not there.
    pub(crate) fn open(root: &Path, parent: &str) -> Result<Self, CgroupError> {
        match v2::Tree::open(root, parent)? {
            Some(tree) => Ok(Self::V2(tree)),
            None => v1::Hierarchies::open(root, parent).map(Self::V1),
        }
    }

    /// The cgroup version that holds the limits, for display.
    pub(crate) fn version(&self) -> &'static str {
        match self {
            Self::V1(_) => "v1",
            Self::V2(_) => "v2",
        }
    }

    /// The same without a count of what sockets hold, for the control of an attack. The unified
    /// tree always counts them.
    pub(crate) fn without_counted_sockets(self) -> Self {
        match self {
            Self::V1(hierarchies) => Self::V1(hierarchies.without_counted_sockets()),
            Self::V2(tree) => Self::V2(tree),
        }
    }

    /// Makes the group with its children and writes the limits, except those that the launcher is
    /// to write. Whatever was made is removed again if something fails.
    pub(crate) fn create(
        &self,
        group: &Group,
        resources: &Resources,
        io: Option<IoLimit>,
    ) -> Result<Option<Settings>, CgroupError> {
        let made = match self {
            Self::V1(hierarchies) => hierarchies.create(group, resources, io).map(|()| None),
            Self::V2(tree) => tree.create(group, resources, io).map(Some),
        };
        made.inspect_err(|_| {
            if let Err(error) = self.destroy(group, Instant::now()) {
                tracing::warn!(%error, "cannot remove incomplete cgroup; the next start removes it");
            }
        })
    }

    /// Gives a group another name.
    fn rename(&self, group: &Group, to: &Group) -> Result<(), CgroupError> {
        match self {
            Self::V1(hierarchies) => hierarchies.rename(group, to),
            // The kernel has no such operation there.
            Self::V2(tree) => Err(file("rename", &tree.directory(group))(
                io::ErrorKind::Unsupported.into(),
            )),
        }
    }

    /// Lets `owner`, the agent, make groups of its own for kernels, and opens what it needs for
    /// that, each under the name by which the agent knows it.
    pub(crate) fn delegate(
        &self,
        group: &Group,
        owner: Option<u32>,
    ) -> Result<Vec<(&'static str, OwnedFd)>, CgroupError> {
        match self {
            Self::V1(hierarchies) => hierarchies.delegate(group, owner),
            Self::V2(tree) => tree.delegate(group, owner),
        }
    }

    /// Resource usage of every process in the group.
    pub(crate) fn usage(&self, group: &Group) -> Result<Usage, CgroupError> {
        match self {
            Self::V1(hierarchies) => hierarchies.usage(group),
            Self::V2(tree) => tree.usage(group),
        }
    }

    /// The memory and the processes of the group at this moment: what changes first when they
    /// are killed. Takes microseconds.
    pub(crate) fn in_use(&self, group: &Group) -> Result<(u64, u32), CgroupError> {
        let (memory, pids) = match self {
            Self::V1(hierarchies) => hierarchies.in_use(group)?,
            Self::V2(tree) => tree.in_use(group)?,
        };
        Ok((memory, u32::try_from(pids).unwrap_or(u32::MAX)))
    }

    /// Processor time that every process of the group has used, also those that are gone.
    pub(crate) fn processor_time(&self, group: &Group) -> Result<Duration, CgroupError> {
        match self {
            Self::V1(hierarchies) => hierarchies.processor_time(group),
            Self::V2(tree) => tree.processor_time(group),
        }
    }

    /// Processor time that all groups have used together, also those that are gone.
    pub(crate) fn processor_time_of_all(&self) -> Result<Duration, CgroupError> {
        match self {
            Self::V1(hierarchies) => hierarchies.processor_time_of_all(),
            Self::V2(tree) => tree.processor_time_of_all(),
        }
    }

    /// Memory limit of everything that user code starts, in bytes.
    pub(crate) fn memory_limit(&self, group: &Group) -> Result<u64, CgroupError> {
        let (directory, file) = match self {
            Self::V1(hierarchies) => (hierarchies.memory_directory(group), "memory.limit_in_bytes"),
            Self::V2(tree) => (tree.directory(group), "memory.max"),
        };
        read_number(&directory.join(Child::Work.name()), file)
    }

    /// The processes in the group and in what others made in it.
    pub(crate) fn processes(&self, group: &Group) -> Result<Vec<Pid>, CgroupError> {
        let directory = match self {
            Self::V1(hierarchies) => hierarchies.memory_directory(group),
            Self::V2(tree) => tree.directory(group),
        };
        let mut all = Vec::new();
        let listed = walk::visit(open_directory(&directory)?, MOST_COUNTED, |group| {
            all.extend(destroy::processes(group)?);
            Ok(())
        });
        listed.map_err(file("list processes of", &directory))?;
        Ok(all)
    }

    /// Kills every process of the group and removes it, with whatever groups others have made
    /// in it. One that is not there is no error. Blocks until `deadline` at the latest.
    ///
    /// # Errors
    ///
    /// [`CgroupError::Undead`] if processes do not die. Their groups and limits stay.
    pub(crate) fn destroy(&self, group: &Group, deadline: Instant) -> Result<(), CgroupError> {
        match self {
            Self::V1(hierarchies) => hierarchies.destroy(group, deadline),
            Self::V2(tree) => tree.destroy(group, deadline),
        }
    }

    /// Returns true if block I/O of the group is limited.
    #[cfg(test)]
    fn limits_io(&self, group: &Group) -> Result<bool, CgroupError> {
        let limits = match self {
            Self::V1(hierarchies) => {
                let directories = hierarchies.directories(group, Child::Work);
                let blkio = directories
                    .iter()
                    .find(|directory| directory.starts_with("/sys/fs/cgroup/blkio"));
                blkio.map_or(Ok(String::new()), |directory| {
                    read(directory, "blkio.throttle.write_bps_device")
                })?
            }
            Self::V2(tree) => read(&tree.directory(group).join(Child::Work.name()), "io.max")?,
        };
        Ok(!limits.trim().is_empty())
    }

    /// The names of all groups below the parent.
    pub(crate) fn list(&self) -> Result<Vec<String>, CgroupError> {
        match self {
            Self::V1(hierarchies) => hierarchies.list(),
            Self::V2(tree) => directories_in(tree.parent()),
        }
    }

    /// Removes the parent itself, when nothing is in it.
    pub(crate) fn remove_parent(&self) -> Result<(), CgroupError> {
        match self {
            Self::V1(hierarchies) => hierarchies.remove_parent(),
            Self::V2(tree) => remove_directory(tree.parent()),
        }
    }
}

/// Opens a directory for whoever makes groups in it.
fn open_directory(path: &Path) -> Result<OwnedFd, CgroupError> {
    let directory = File::open(path).map_err(file("open", path))?;
    Ok(directory.into())
}

fn give_to(owner: Option<u32>, path: &Path) -> Result<(), CgroupError> {
    std::os::unix::fs::chown(path, owner, owner).map_err(file("give away", path))
}

fn file(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CgroupError {
    let path = path.to_owned();
    move |source| CgroupError::File {
        operation,
        path,
        source,
    }
}

fn write(directory: &Path, name: &str, value: impl ToString) -> Result<(), CgroupError> {
    let path = directory.join(name);
    fs::write(&path, value.to_string()).map_err(file("write", &path))
}

fn read(directory: &Path, name: &str) -> Result<String, CgroupError> {
    let path = directory.join(name);
    fs::read_to_string(&path).map_err(file("read", &path))
}

fn read_number(directory: &Path, name: &str) -> Result<u64, CgroupError> {
    let text = read(directory, name)?;
    text.trim().parse().map_err(|_| CgroupError::Content {
        path: directory.join(name),
        text: text.trim().chars().take(64).collect(),
    })
}

/// The number behind `key` in a file of `key number` lines; 0 if the kernel does not have it.
fn read_field(directory: &Path, name: &str, key: &str) -> Result<u64, CgroupError> {
    let text = read(directory, name)?;
    let value = field(&text, key);
    value.parse().map_err(|_| CgroupError::Content {
        path: directory.join(name),
        text: value.chars().take(64).collect(),
    })
}

/// The value after `key` in lines of the form `key number`, or `0` if the key is missing.
fn field<'a>(text: &'a str, key: &str) -> &'a str {
    text.lines()
        .find_map(|line| line.split_once(' ').filter(|(name, _)| *name == key))
        .map_or("0", |(_, value)| value.trim())
}

fn make_directory(path: &Path) -> Result<(), CgroupError> {
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(file("make", path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn remove_directory(path: &Path) -> Result<(), CgroupError> {
    match fs::remove_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(file("remove", path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

fn directories_in(path: &Path) -> Result<Vec<String>, CgroupError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(file("list", path))? {
        let entry = entry.map_err(file("list", path))?;
        if entry.file_type().map_err(file("list", path))?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

fn quota(resources: &Resources) -> (u64, u64) {
    let period = u64::try_from(PERIOD.as_micros()).expect("a tenth of a second");
    (u64::from(resources.cpus.max(1)) * period, period)
}

/// Quota and period of a sandbox with its agent.
fn whole_quota(resources: &Resources) -> (u64, u64) {
    let (quota, period) = quota(resources);
    let reserved = u64::try_from(RESERVED_TIME.as_micros()).expect("less than a period");
    (quota + reserved, period)
}

fn memory(resources: &Resources) -> u64 {
    u64::from(resources.memory_mib) * 1024 * 1024
}

#[cfg(test)]
mod tests;
