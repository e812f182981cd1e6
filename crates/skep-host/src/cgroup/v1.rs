//! One hierarchy per controller.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use skep_types::{Resources, Usage};

use super::{
    CgroupError, Child, Group, IoLimit, MOST_COUNTED, RESERVED_MEMORY, RESERVED_PIDS, SOCKETS_PART,
    destroy, directories_in, field, file, give_to, make_directory, memory, open_directory, quota,
    read_field, read_number, remove_directory, walk, whole_quota, write,
};

/// Controllers without which a limit or a counter would not be there.
const NEEDED: [&str; 4] = ["memory", "pids", "cpu", "cpuacct"];
/// Controllers that are used where they are.
const WELCOME: [&str; 2] = ["freezer", "blkio"];
/// Controllers in which the agent makes groups for kernels.
const DELEGATED: [&str; 3] = ["memory", "cpuacct", "blkio"];

/// Limits the buffers of sockets, and lets them be counted at all: the kernel counts only those
/// that are made in a group in which this was written.
const SOCKETS: &str = "memory.kmem.tcp.limit_in_bytes";

/// The parent directory in each hierarchy. Hierarchies that are mounted together are named once.
#[derive(Debug, Clone)]
pub(crate) struct Hierarchies {
    controllers: Vec<(&'static str, PathBuf)>,
    counts_sockets: bool,
}

impl Hierarchies {
    pub(super) fn open(root: &Path, parent: &str) -> Result<Self, CgroupError> {
        let there = |name: &&str| root.join(name).join("cgroup.procs").exists();
        let missing: Vec<_> = NEEDED.iter().filter(|name| !there(name)).copied().collect();
        if !missing.is_empty() {
            return Err(CgroupError::Missing {
                missing: missing.join(", "),
            });
        }
        let used = NEEDED.iter().chain(&WELCOME).filter(|name| there(name));
        let mut controllers = Vec::new();
        for name in used {
            let directory = root.join(name).join(parent);
            make_directory(&directory)?;
            controllers.push((*name, directory));
        }
        let hierarchies = Self {
            controllers,
            counts_sockets: true,
        };
        hierarchies.account_for_children()?;
        Ok(hierarchies)
    }

    pub(super) fn without_counted_sockets(self) -> Self {
        Self {
            counts_sockets: false,
            ..self
        }
    }

    /// Makes the memory limit of a group hold for its children too. Newer kernels always do
    /// that and no longer let anybody choose.
    fn account_for_children(&self) -> Result<(), CgroupError> {
        let parent = self.parent("memory");
        let chosen = parent.join("memory.use_hierarchy");
        if chosen.exists() && read_number(parent, "memory.use_hierarchy")? == 0 {
            write(parent, "memory.use_hierarchy", 1)?;
        }
        Ok(())
    }

    fn parent(&self, controller: &str) -> &Path {
        let (_, directory) = self
            .controllers
            .iter()
            .find(|(name, _)| *name == controller)
            .expect("needed controllers were found when the hierarchies were opened");
        directory
    }

    /// The parent directory in the hierarchy that lets processes stand, where there is one.
    pub(super) fn freezer(&self) -> Option<&Path> {
        let found = self.controllers.iter().find(|(name, _)| *name == "freezer");
        found.map(|(_, directory)| directory.as_path())
    }

    /// The group in the hierarchy that counts memory.
    pub(super) fn memory(&self, group: &Group) -> PathBuf {
        self.parent("memory").join(&group.name)
    }

    pub(super) fn kill_count(&self, group: &Group) -> PathBuf {
        self.memory(group)
            .join(Child::Work.name())
            .join("memory.oom_control")
    }

    /// The group itself in each hierarchy.
    pub(super) fn own_directories(&self, group: &Group) -> Vec<PathBuf> {
        let parents = self.controllers.iter();
        parents
            .map(|(_, parent)| parent.join(&group.name))
            .collect()
    }

    pub(super) fn directories(&self, group: &Group, child: Child) -> Vec<PathBuf> {
        self.controllers
            .iter()
            .map(|(_, parent)| parent.join(&group.name).join(child.name()))
            .collect()
    }

    pub(super) fn delegate(
        &self,
        group: &Group,
        owner: Option<u32>,
    ) -> Result<Vec<(&'static str, OwnedFd)>, CgroupError> {
        let used = self.controllers.iter();
        used.filter(|(name, _)| DELEGATED.contains(name))
            .map(|(name, parent)| {
                let work = parent.join(&group.name).join(Child::Work.name());
                give_to(owner, &work)?;
                Ok((*name, open_directory(&work)?))
            })
            .collect()
    }

    pub(super) fn create(
        &self,
        group: &Group,
        resources: &Resources,
        io: Option<IoLimit>,
    ) -> Result<(), CgroupError> {
        for (_, parent) in &self.controllers {
            let directory = parent.join(&group.name);
            make_directory(&directory)?;
            for child in Child::ALL {
                make_directory(&directory.join(child.name()))?;
            }
        }
        self.limit_memory(group, memory(resources))?;
        let pids = self.parent("pids").join(&group.name);
        write(&pids, "pids.max", resources.pids + RESERVED_PIDS)?;
        write(&pids.join(Child::Work.name()), "pids.max", resources.pids)?;
        let cpu = self.parent("cpu").join(&group.name);
        let work = cpu.join(Child::Work.name());
        for (directory, (quota, period)) in
            [(&cpu, whole_quota(resources)), (&work, quota(resources))]
        {
            write(directory, "cpu.cfs_period_us", period)?;
            write(directory, "cpu.cfs_quota_us", quota)?;
        }
        // The agent comes first when both want the processor.
        write(&cpu.join(Child::Agent.name()), "cpu.shares", 10 * 1024)?;
        self.limit_io(group, io)
    }

    fn limit_memory(&self, group: &Group, limit: u64) -> Result<(), CgroupError> {
        let whole = self.parent("memory").join(&group.name);
        let agent = whole.join(Child::Agent.name());
        let work = whole.join(Child::Work.name());
        for (directory, limit) in [(&whole, limit + RESERVED_MEMORY), (&work, limit)] {
            write(directory, "memory.limit_in_bytes", limit)?;
            // Swap would let a sandbox use the host's disk instead of its memory. Without swap
            // accounting there is no such file, and nothing to limit it by.
            if directory.join("memory.memsw.limit_in_bytes").exists() {
                write(directory, "memory.memsw.limit_in_bytes", limit)?;
            }
        }
        // Kernels are built without that file, too.
        if self.counts_sockets && whole.join(SOCKETS).exists() {
            for (directory, limit) in [
                (&whole, limit + RESERVED_MEMORY),
                (&agent, RESERVED_MEMORY),
                (&work, limit),
            ] {
                write(directory, SOCKETS, limit / SOCKETS_PART)?;
            }
        }
        Ok(())
    }

    /// Renames the group in every hierarchy. Files opened below it stay valid.
    pub(super) fn rename(&self, group: &Group, to: &Group) -> Result<(), CgroupError> {
        for (_, parent) in &self.controllers {
            let directory = parent.join(&group.name);
            let renamed = std::fs::rename(&directory, parent.join(&to.name));
            renamed.map_err(file("rename", &directory))?;
        }
        Ok(())
    }

    /// Slows down what goes to the disk at once. What is written through the cache reaches the
    /// disk in nobody's name: v1 cannot limit that.
    fn limit_io(&self, group: &Group, io: Option<IoLimit>) -> Result<(), CgroupError> {
        let blkio = self.controllers.iter().find(|(name, _)| *name == "blkio");
        let (Some((_, parent)), Some(io)) = (blkio, io) else {
            return Ok(());
        };
        let work = parent.join(&group.name).join(Child::Work.name());
        let (major, minor) = io.disk;
        for file in [
            "blkio.throttle.read_bps_device",
            "blkio.throttle.write_bps_device",
        ] {
            if work.join(file).exists() {
                write(
                    &work,
                    file,
                    format!("{major}:{minor} {}", io.bytes_per_second),
                )?;
            }
        }
        Ok(())
    }

    pub(super) fn usage(&self, group: &Group) -> Result<Usage, CgroupError> {
        let memory = self.parent("memory").join(&group.name);
        let pids = self.parent("pids").join(&group.name);
        // v1 counts kills for each group alone, not for the tree below it.
        let mut kills = 0;
        let counted = walk::visit(open_directory(&memory)?, MOST_COUNTED, |group| {
            let text = walk::read(group, c"memory.oom_control")?.unwrap_or_default();
            let count: u64 = field(&text, "oom_kill").parse().map_err(io::Error::other)?;
            kills += count;
            Ok(())
        });
        counted.map_err(file("count kills in", &memory))?;
        Ok(Usage {
            cpu_time: self.processor_time(group)?,
            memory_bytes: read_number(&memory, "memory.usage_in_bytes")?,
            cache_bytes: read_field(&memory, "memory.stat", "total_cache")?,
            memory_peak_bytes: read_number(&memory, "memory.max_usage_in_bytes")?,
            pids: u32::try_from(read_number(&pids, "pids.current")?).unwrap_or(u32::MAX),
            out_of_memory_kills: kills,
            // The rest is counted elsewhere.
            ..Usage::default()
        })
    }

    pub(super) fn processor_time(&self, group: &Group) -> Result<Duration, CgroupError> {
        let directory = self.parent("cpuacct").join(&group.name);
        read_number(&directory, "cpuacct.usage").map(Duration::from_nanos)
    }

    pub(super) fn processor_time_of_all(&self) -> Result<Duration, CgroupError> {
        let used = read_number(self.parent("cpuacct"), "cpuacct.usage");
        used.map(Duration::from_nanos)
    }

    pub(super) fn memory_directory(&self, group: &Group) -> PathBuf {
        self.parent("memory").join(&group.name)
    }

    pub(super) fn in_use(&self, group: &Group) -> Result<(u64, u64), CgroupError> {
        let memory = self.parent("memory").join(&group.name);
        let pids = self.parent("pids").join(&group.name);
        Ok((
            read_number(&memory, "memory.usage_in_bytes")?,
            read_number(&pids, "pids.current")?,
        ))
    }

    /// Every process is in every hierarchy, but one that was stopped on its way in may be in
    /// some only.
    pub(super) fn destroy(&self, group: &Group, deadline: Instant) -> Result<(), CgroupError> {
        let parents = self.controllers.iter().map(|(_, parent)| parent.as_path());
        destroy::destroy(&parents.collect::<Vec<_>>(), &group.name, deadline)
    }

    pub(super) fn list(&self) -> Result<Vec<String>, CgroupError> {
        let mut names = Vec::new();
        for (_, parent) in &self.controllers {
            names.extend(directories_in(parent)?);
        }
        names.sort();
        names.dedup();
        Ok(names)
    }

    pub(super) fn remove_parent(&self) -> Result<(), CgroupError> {
        self.controllers
            .iter()
            .try_for_each(|(_, directory)| remove_directory(directory))
    }
}
