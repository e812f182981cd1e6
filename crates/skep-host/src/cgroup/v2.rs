//! The unified tree.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use skep_types::{Resources, Usage};

use super::{
    CgroupError, Child, Group, IoLimit, RESERVED_MEMORY, RESERVED_PIDS, Settings, destroy,
    directories_in, file, give_to, make_directory, memory, open_directory, open_procs, quota, read,
    read_field, read_number, whole_quota, write,
};

/// Controllers without which a limit would not be there.
const NEEDED: [&str; 3] = ["cpu", "memory", "pids"];
/// Controllers that are used where they are.
const WELCOME: [&str; 1] = ["io"];
/// Those that only a sandbox as a whole has.
const WELCOME_ABOVE: [&str; 1] = ["hugetlb"];

/// The child of `work` for processes that are not kernels.
const REST: &str = "rest";
/// The child in which the agent makes a group for each kernel.
const KERNELS: &str = "kernels";
/// Controllers that the agent enables there.
const USED_BY_KERNELS: [&str; 2] = ["memory", "io"];
/// The child that a kernel passes through on its way from the agent's group to its own: the agent
/// may not move it out of a group that is not below [`KERNELS`].
const ENTRY: &str = "entry";

/// The directory below which every sandbox has its group.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    parent: PathBuf,
    /// The files that limit huge pages, one for each size.
    huge_pages: Vec<String>,
}

impl Tree {
    /// The unified tree below `root`, if it is one and holds the controllers.
    ///
    /// A tree without controllers is a hybrid system, where the limits are on v1.
    pub(super) fn open(root: &Path, parent: &str) -> Result<Option<Self>, CgroupError> {
        if !root.join("cgroup.controllers").exists() {
            return Ok(None);
        }
        let offered = read(root, "cgroup.controllers")?;
        let has = |name: &&str| offered.split_whitespace().any(|offered| offered == *name);
        let missing: Vec<_> = NEEDED.iter().filter(|name| !has(name)).copied().collect();
        if !missing.is_empty() {
            return Err(CgroupError::Missing {
                missing: missing.join(", "),
            });
        }
        let used: Vec<_> = NEEDED
            .iter()
            .chain(&WELCOME)
            .chain(&WELCOME_ABOVE)
            .filter(|name| has(name))
            .collect();
        let parent = root.join(parent);
        enable(root, &used)?;
        make_directory(&parent)?;
        enable(&parent, &used)?;
        let huge_pages = huge_page_limits(&parent)?;
        Ok(Some(Self { parent, huge_pages }))
    }

    pub(super) fn parent(&self) -> &Path {
        &self.parent
    }

    pub(super) fn directory(&self, group: &Group) -> PathBuf {
        self.parent.join(&group.name)
    }

    /// The directory in which processes of a child of the group live. Only leaves hold processes.
    pub(super) fn leaf(&self, group: &Group, child: Child) -> PathBuf {
        let directory = self.directory(group).join(child.name());
        match child {
            Child::Agent => directory,
            Child::Work => directory.join(REST),
        }
    }

    /// The directory in which the agent makes groups.
    pub(super) fn kernels(&self, group: &Group) -> PathBuf {
        self.directory(group).join(Child::Work.name()).join(KERNELS)
    }

    /// Paths, below the sandbox's own group, of the groups that its agent has made.
    pub(super) fn made_by_agent(&self, group: &Group) -> Result<Vec<PathBuf>, CgroupError> {
        let parent = Path::new(Child::Work.name()).join(KERNELS);
        let names = directories_in(&self.kernels(group))?.into_iter();
        Ok(names
            .filter(|name| name != ENTRY)
            .map(|name| parent.join(name))
            .collect())
    }

    /// Enables in `settings` what an agent does before it makes the first group.
    pub(super) fn enable_for_kernels(
        &self,
        group: &Group,
        settings: &mut Settings,
    ) -> Result<(), CgroupError> {
        let offered = read(&self.directory(group), "cgroup.controllers")?;
        let there = |name: &&&str| offered.split_whitespace().any(|offered| offered == **name);
        let used: Vec<_> = USED_BY_KERNELS
            .iter()
            .filter(there)
            .map(|name| format!("+{name}"))
            .collect();
        let file = format!("{}/{KERNELS}/cgroup.subtree_control", Child::Work.name());
        settings.files.push((file, used.join(" ")));
        Ok(())
    }

    pub(super) fn delegate(
        &self,
        group: &Group,
        owner: Option<u32>,
    ) -> Result<Vec<(&'static str, OwnedFd)>, CgroupError> {
        let kernels = self.kernels(group);
        give_to(owner, &kernels)?;
        for name in ["cgroup.procs", "cgroup.subtree_control"] {
            give_to(owner, &kernels.join(name))?;
        }
        let entry = open_procs(&kernels.join(ENTRY))?;
        Ok(vec![
            ("unified", open_directory(&kernels)?),
            ("entry", entry.into()),
        ])
    }

    /// Makes the groups and limits the sandbox as a whole. Nothing is enabled below it yet, so that
    /// the launcher can be in it when it makes the namespace.
    pub(super) fn create(
        &self,
        group: &Group,
        resources: &Resources,
        io: Option<IoLimit>,
    ) -> Result<Settings, CgroupError> {
        let directory = self.directory(group);
        make_directory(&directory)?;
        let work = directory.join(Child::Work.name());
        let kernels = work.join(KERNELS);
        for child in [
            directory.join(Child::Agent.name()),
            work.join(REST),
            kernels.join(ENTRY),
        ] {
            fs::create_dir_all(&child).map_err(file("make", &child))?;
        }
        write(
            &directory,
            "memory.max",
            memory(resources) + RESERVED_MEMORY,
        )?;
        write(&directory, "pids.max", resources.pids + RESERVED_PIDS)?;
        let (quota, period) = whole_quota(resources);
        write(&directory, "cpu.max", format!("{quota} {period}"))?;
        self.forbid_huge_pages(&directory)?;
        // Swap would let a sandbox use the host's disk instead of its memory.
        if directory.join("memory.swap.max").exists() {
            write(&directory, "memory.swap.max", 0)?;
        }
        self.settings(&directory, resources, io)
    }

    /// The limits of what is below the sandbox's group.
    fn settings(
        &self,
        directory: &Path,
        resources: &Resources,
        io: Option<IoLimit>,
    ) -> Result<Settings, CgroupError> {
        let offered = read(directory, "cgroup.controllers")?;
        let there = |name: &&&str| offered.split_whitespace().any(|offered| offered == **name);
        let used: Vec<_> = NEEDED
            .iter()
            .chain(WELCOME.iter().filter(there))
            .map(|name| format!("+{name}"))
            .collect();
        let (quota, period) = quota(resources);
        let mut files = vec![
            ("cgroup.subtree_control", used.join(" ")),
            ("work/memory.max", memory(resources).to_string()),
            ("work/pids.max", resources.pids.to_string()),
            ("work/cpu.max", format!("{quota} {period}")),
            // The agent comes first when both want the processor.
            ("agent/cpu.weight", "1000".to_owned()),
        ];
        if directory.join("memory.swap.max").exists() {
            files.push(("work/memory.swap.max", "0".to_owned()));
        }
        if let Some(io) = io.filter(|_| there(&&"io")) {
            let (major, minor) = io.disk;
            let speed = io.bytes_per_second;
            let limit = format!("{major}:{minor} rbps={speed} wbps={speed}");
            files.push(("work/io.max", limit));
        }
        files.push(("work/cgroup.subtree_control", used.join(" ")));
        let files = files.into_iter();
        Ok(Settings {
            directory: open_directory(directory)?.into(),
            files: files.map(|(path, text)| (path.to_owned(), text)).collect(),
            given: Vec::new(),
        })
    }

    /// They are the operator's, and no other limit counts them. The filter refuses them, too.
    fn forbid_huge_pages(&self, directory: &Path) -> Result<(), CgroupError> {
        self.huge_pages
            .iter()
            .try_for_each(|file| write(directory, file, 0))
    }

    pub(super) fn usage(&self, group: &Group) -> Result<Usage, CgroupError> {
        let directory = self.directory(group);
        // `memory.peak` is there since Linux 5.19.
        let memory_bytes = read_number(&directory, "memory.current")?;
        let peak = if directory.join("memory.peak").exists() {
            read_number(&directory, "memory.peak")?
        } else {
            memory_bytes
        };
        Ok(Usage {
            cpu_time: self.processor_time(group)?,
            memory_bytes,
            cache_bytes: read_field(&directory, "memory.stat", "file")?,
            memory_peak_bytes: peak,
            pids: u32::try_from(read_number(&directory, "pids.current")?).unwrap_or(u32::MAX),
            out_of_memory_kills: read_field(&directory, "memory.events", "oom_kill")?,
            // The rest is counted elsewhere.
            ..Usage::default()
        })
    }

    pub(super) fn processor_time(&self, group: &Group) -> Result<Duration, CgroupError> {
        let used = read_field(&self.directory(group), "cpu.stat", "usage_usec")?;
        Ok(Duration::from_micros(used))
    }

    pub(super) fn processor_time_of_all(&self) -> Result<Duration, CgroupError> {
        let used = read_field(&self.parent, "cpu.stat", "usage_usec")?;
        Ok(Duration::from_micros(used))
    }

    pub(super) fn in_use(&self, group: &Group) -> Result<(u64, u64), CgroupError> {
        let directory = self.directory(group);
        Ok((
            read_number(&directory, "memory.current")?,
            read_number(&directory, "pids.current")?,
        ))
    }

    pub(super) fn destroy(&self, group: &Group, deadline: Instant) -> Result<(), CgroupError> {
        destroy::kill_tree(&self.parent, &group.name);
        destroy::destroy(&[&self.parent], &group.name, deadline)
    }
}

/// The files by which the huge pages of a group are limited: `hugetlb.2MB.max` and the like.
fn huge_page_limits(directory: &Path) -> Result<Vec<String>, CgroupError> {
    let is_limit = |name: &String| name.starts_with("hugetlb.") && name.ends_with(".max");
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(file("list", directory))? {
        let entry = entry.map_err(file("list", directory))?;
        names.extend(entry.file_name().into_string().ok().filter(is_limit));
    }
    Ok(names)
}

/// Lets the children of `directory` use `controllers`.
fn enable(directory: &Path, controllers: &[&&str]) -> Result<(), CgroupError> {
    let path = directory.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&path).map_err(file("read", &path))?;
    let missing: Vec<_> = controllers
        .iter()
        .filter(|wanted| !enabled.split_whitespace().any(|name| name == ***wanted))
        .map(|wanted| format!("+{wanted}"))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    fs::write(&path, missing.join(" ")).map_err(file("write", &path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_of_every_size_are_forbidden() {
        let directory = tempfile::tempdir().unwrap();
        for name in [
            "hugetlb.1GB.max",
            "hugetlb.2MB.max",
            "hugetlb.2MB.rsvd.max",
            "hugetlb.2MB.current",
            "memory.max",
        ] {
            fs::write(directory.path().join(name), "max").unwrap();
        }
        let tree = Tree {
            parent: directory.path().to_owned(),
            huge_pages: huge_page_limits(directory.path()).unwrap(),
        };
        tree.forbid_huge_pages(directory.path()).unwrap();
        let text = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        for name in ["hugetlb.1GB.max", "hugetlb.2MB.max", "hugetlb.2MB.rsvd.max"] {
            assert_eq!(text(name), "0", "{name}");
        }
        assert_eq!(text("hugetlb.2MB.current"), "max");
        assert_eq!(text("memory.max"), "max");
    }
}
