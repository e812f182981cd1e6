//! The unified tree.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use skep_types::{Resources, Usage};

use super::{
    CgroupError, Child, Group, IoLimit, RESERVED_MEMORY, RESERVED_PIDS, destroy, file, give_to,
    make_directory, memory, open_directory, open_procs, quota, read, read_field, read_number,
    whole_quota, write,
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

    pub(super) fn create(
        &self,
        group: &Group,
        resources: &Resources,
        io: Option<IoLimit>,
    ) -> Result<(), CgroupError> {
        let directory = self.directory(group);
        make_directory(&directory)?;
        let offered = read(&directory, "cgroup.controllers")?;
        let there = |name: &&&str| offered.split_whitespace().any(|offered| offered == **name);
        let used: Vec<_> = NEEDED.iter().chain(WELCOME.iter().filter(there)).collect();
        enable(&directory, &used)?;
        for child in Child::ALL {
            make_directory(&directory.join(child.name()))?;
        }
        let work = directory.join(Child::Work.name());
        enable(&work, &used)?;
        make_directory(&work.join(REST))?;
        // Nothing is enabled below this one yet, so that the launcher can pass through it.
        make_directory(&work.join(KERNELS))?;
        make_directory(&work.join(KERNELS).join(ENTRY))?;
        write(
            &directory,
            "memory.max",
            memory(resources) + RESERVED_MEMORY,
        )?;
        write(&directory, "pids.max", resources.pids + RESERVED_PIDS)?;
        write(&work, "memory.max", memory(resources))?;
        write(&work, "pids.max", resources.pids)?;
        for (directory, (quota, period)) in [
            (&directory, whole_quota(resources)),
            (&work, quota(resources)),
        ] {
            write(directory, "cpu.max", format!("{quota} {period}"))?;
        }
        self.forbid_huge_pages(&directory)?;
        // The agent comes first when both want the processor.
        write(&directory.join(Child::Agent.name()), "cpu.weight", 1000)?;
        if let Some(IoLimit {
            disk: (major, minor),
            bytes_per_second,
        }) = io
            && work.join("io.max").exists()
        {
            let speed = format!("rbps={bytes_per_second} wbps={bytes_per_second}");
            write(&work, "io.max", format!("{major}:{minor} {speed}"))?;
        }
        // Swap would let a sandbox use the host's disk instead of its memory.
        for directory in [&directory, &work] {
            if directory.join("memory.swap.max").exists() {
                write(directory, "memory.swap.max", 0)?;
            }
        }
        Ok(())
    }

    /// They are the operator's, and no other limit counts them. The filter refuses them, too.
    fn forbid_huge_pages(&self, directory: &Path) -> Result<(), CgroupError> {
        self.huge_pages
            .iter()
            .try_for_each(|file| write(directory, file, 0))
    }

    pub(super) fn usage(&self, group: &Group) -> Result<Usage, CgroupError> {
        let directory = self.directory(group);
        let micros = read_field(&directory, "cpu.stat", "usage_usec")?;
        // `memory.peak` is there since Linux 5.19.
        let memory_bytes = read_number(&directory, "memory.current")?;
        let peak = if directory.join("memory.peak").exists() {
            read_number(&directory, "memory.peak")?
        } else {
            memory_bytes
        };
        Ok(Usage {
            cpu_time: Duration::from_micros(micros),
            memory_bytes,
            cache_bytes: read_field(&directory, "memory.stat", "file")?,
            memory_peak_bytes: peak,
            pids: u32::try_from(read_number(&directory, "pids.current")?).unwrap_or(u32::MAX),
            out_of_memory_kills: read_field(&directory, "memory.events", "oom_kill")?,
            // The rest is counted elsewhere.
            ..Usage::default()
        })
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
