//! Groups that a sandbox has made for itself, so that they can be made again for a restored one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{
    CgroupError, Cgroups, Child, Group, Settings, directories_in, file, give_to, make_directory,
};

/// Limit on the groups of one sandbox in one hierarchy, beyond what any agent of ours makes.
const MOST: usize = 1024;

/// Limits that an agent sets in its groups, of either version.
const LIMITS: [&str; 3] = [
    "memory.limit_in_bytes",
    "memory.kmem.tcp.limit_in_bytes",
    "memory.max",
];

/// A group that a sandbox's agent has made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subgroup {
    /// Number of the hierarchy, as in [`crate::Lease::group_directories`].
    hierarchy: usize,
    /// Path below the sandbox's own group.
    path: PathBuf,
    /// Files and what is written in them.
    limits: Vec<(String, String)>,
}

impl Cgroups {
    /// The group itself in every hierarchy, by the paths under which its files are open.
    pub(crate) fn own_directories(&self, group: &Group) -> Result<Vec<PathBuf>, CgroupError> {
        let own = match self {
            Self::V1(hierarchies) => hierarchies.own_directories(group),
            Self::V2(tree) => vec![tree.directory(group)],
        };
        let all = own.into_iter();
        // Hierarchies that are mounted together go by a link.
        all.map(|path| fs::canonicalize(&path).map_err(file("find", &path)))
            .collect()
    }

    /// The groups that the agent of a sandbox has made.
    pub(crate) fn subgroups(&self, group: &Group) -> Result<Vec<Subgroup>, CgroupError> {
        let mut all = Vec::new();
        for (hierarchy, own) in self.own_directories(group)?.iter().enumerate() {
            let paths = match self {
                Self::V1(_) => {
                    let work = Path::new(Child::Work.name());
                    let names = directories_in(&own.join(work))?.into_iter();
                    names.map(|name| work.join(name)).collect()
                }
                Self::V2(tree) => tree.made_by_agent(group)?,
            };
            for path in paths {
                let limits = LIMITS
                    .iter()
                    .filter_map(|limit| {
                        let text = fs::read_to_string(own.join(&path).join(limit)).ok()?;
                        Some(((*limit).to_owned(), text.trim().to_owned()))
                    })
                    .collect();
                all.push(Subgroup {
                    hierarchy,
                    path,
                    limits,
                });
            }
            if all.len() > MOST {
                let path = own.join(Child::Work.name());
                return Err(CgroupError::Many { path });
            }
        }
        Ok(all)
    }

    /// Makes groups as they were, for an agent that has made them. Where limits can be written only
    /// later, they are added to `settings`.
    pub(crate) fn make_subgroups(
        &self,
        group: &Group,
        subgroups: &[Subgroup],
        owner: u32,
        mut settings: Option<&mut Settings>,
    ) -> Result<(), CgroupError> {
        let own = self.own_directories(group)?;
        if let (Self::V2(tree), Some(settings)) = (self, &mut settings)
            && !subgroups.is_empty()
        {
            tree.enable_for_kernels(group, settings)?;
        }
        for subgroup in subgroups {
            let hierarchy = own
                .get(subgroup.hierarchy)
                .ok_or_else(|| CgroupError::Missing {
                    missing: "a hierarchy that was there".to_owned(),
                })?;
            let directory = hierarchy.join(&subgroup.path);
            make_directory(&directory)?;
            if let Some(settings) = &mut settings {
                subgroup.set_later(settings);
                continue;
            }
            for (limit, text) in &subgroup.limits {
                let path = directory.join(limit);
                fs::write(&path, text).map_err(file("write", &path))?;
            }
            give_to(Some(owner), &directory)?;
            let list = || -> io::Result<Vec<PathBuf>> {
                let entries = fs::read_dir(&directory)?;
                entries.map(|entry| Ok(entry?.path())).collect()
            };
            for path in list().map_err(file("list", &directory))? {
                give_to(Some(owner), &path)?;
            }
        }
        Ok(())
    }
}

impl Subgroup {
    fn set_later(&self, settings: &mut Settings) {
        let path = self.path.display();
        let limits = self.limits.iter();
        let files = limits.map(|(limit, text)| (format!("{path}/{limit}"), text.clone()));
        settings.files.extend(files);
        settings.given.push(path.to_string());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::time::{Duration, Instant};

    use skep_types::{Resources, SandboxId};

    use super::*;

    const OWNER: u32 = 700_000;
    const LIMIT: u64 = 32 << 20;

    /// Makes a group as a kernel's, as the agent does, and limits it.
    fn make_as_agent(cgroups: &Cgroups, group: &Group) {
        for own in cgroups.own_directories(group).unwrap() {
            let (parent, limit) = match cgroups {
                Cgroups::V1(_) => (own.join("work"), "memory.limit_in_bytes"),
                Cgroups::V2(_) => (own.join("work/kernels"), "memory.max"),
            };
            if let Cgroups::V2(_) = cgroups {
                fs::write(parent.join("cgroup.subtree_control"), "+memory").unwrap();
            }
            let kernel = parent.join("kernel-1");
            fs::create_dir(&kernel).unwrap();
            let limit = kernel.join(limit);
            // One hierarchy of several has it on v1.
            if matches!(cgroups, Cgroups::V2(_)) || limit.exists() {
                fs::write(limit, LIMIT.to_string()).unwrap();
            }
        }
    }

    #[test]
    fn groups_of_kernels_are_made_again_with_their_limits() {
        let parent = format!("skep-test-{}", SandboxId::random());
        let cgroups = Cgroups::open(Path::new("/sys/fs/cgroup"), &parent).unwrap();
        let groups = [(); 2].map(|()| Group::new(&SandboxId::random()));
        let mut settings = groups
            .each_ref()
            .map(|group| cgroups.create(group, &Resources::default(), None).unwrap());
        if let Some(settings) = &settings[0] {
            settings.write().unwrap();
        }
        make_as_agent(&cgroups, &groups[0]);
        let made = cgroups.subgroups(&groups[0]).unwrap();
        assert!(!made.is_empty());
        let texts = made.iter().flat_map(|group| &group.limits);
        let limit = LIMIT.to_string();
        assert!(texts.clone().any(|(_, text)| *text == limit), "{made:?}");

        let later = settings[1].as_mut();
        let again = cgroups.make_subgroups(&groups[1], &made, OWNER, later);
        again.unwrap();
        match &settings[1] {
            Some(settings) => {
                settings.write().unwrap();
                let paths = made.iter().map(|group| group.path.display().to_string());
                assert_eq!(settings.given, paths.collect::<Vec<_>>());
            }
            None => {
                let own = cgroups.own_directories(&groups[1]).unwrap();
                for group in &made {
                    let directory = own[group.hierarchy].join(&group.path);
                    assert_eq!(fs::metadata(directory).unwrap().uid(), OWNER);
                }
            }
        }
        assert_eq!(cgroups.subgroups(&groups[1]).unwrap(), made);
        for group in &groups {
            let deadline = Instant::now() + Duration::from_secs(60);
            cgroups.destroy(group, deadline).unwrap();
        }
        cgroups.remove_parent().unwrap();
    }
}
