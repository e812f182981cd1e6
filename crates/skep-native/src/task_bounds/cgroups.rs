//! Place of a task in the hierarchies of cgroups.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use super::{Difference, require};

/// Requires that a task is below the sandbox's group in every hierarchy in which that has one, and
/// in no other sandbox's anywhere. `groups` are the directories of the group.
pub(super) fn in_own(task: &str, cgroups: &str, groups: &[PathBuf]) -> Result<(), Difference> {
    // Hierarchies that are mounted together are one line and one directory.
    let groups: BTreeSet<&Path> = groups.iter().map(PathBuf::as_path).collect();
    let owns = |place: &str| groups.iter().any(|group| is_below(place, group));
    let places = cgroups
        .lines()
        .filter_map(|line| line.splitn(3, ':').nth(2));
    let (own, others): (Vec<&str>, Vec<&str>) = places.partition(|place| owns(place));
    require(
        !own.is_empty() && own.len() == groups.len(),
        task,
        "cgroup",
        cgroups,
    )?;
    for place in others {
        // Where a sandbox has no group everything is in the root, or where the server is.
        let is_of_another = (place.split('/')).any(|component| component.starts_with("skep-"));
        require(!is_of_another, task, "cgroup", place)?;
    }
    Ok(())
}

/// Returns true if a place is that of a group or below it: by the names of the group and of what all
/// groups of the server are in, because a place may be told from another root than the directory.
fn is_below(place: &str, group: &Path) -> bool {
    let mut names = group.iter().rev().filter_map(|name| name.to_str());
    let (Some(own), Some(parent)) = (names.next(), names.next()) else {
        return false;
    };
    let components: Vec<&str> = place.split('/').collect();
    components.windows(2).any(|pair| pair == [parent, own])
}

/// Requires that a process is below the sandbox's `work` wherever the sandbox has a group; elsewhere
/// where its agent is.
pub(crate) fn in_work_of_agent(
    pid: i32,
    found: &str,
    agents: &str,
    sandbox: &str,
) -> Result<(), Difference> {
    let place = |line: &str| -> Option<(String, String)> {
        let mut fields = line.splitn(3, ':');
        let (number, _controllers) = (fields.next()?, fields.next()?);
        Some((number.to_owned(), fields.next()?.to_owned()))
    };
    let found_places: HashMap<_, _> = found.lines().filter_map(place).collect();
    let wanted: HashMap<_, _> = agents.lines().filter_map(place).collect();
    require(found_places.len() == wanted.len(), pid, "cgroup", found)?;
    for (hierarchy, agents_place) in &wanted {
        let place = found_places.get(hierarchy).map_or("", String::as_str);
        let own = agents_place.split_once(&format!("/{sandbox}/"));
        let is_right = match own {
            Some((parent, _)) => {
                let work = format!("{parent}/{sandbox}/work");
                place
                    .strip_prefix(&work)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            None => place == agents_place,
        };
        require(is_right, pid, "cgroup", place)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_is_in_the_sandboxs_group_wherever_there_is_one() {
        let groups = ["memory", "cpu", "cpu"]
            .map(|name| PathBuf::from(format!("/sys/fs/cgroup/{name}/skep-0/ibox")));
        let check = |cgroups: &str| in_own("1", cgroups, &groups).is_ok();
        assert!(check(
            "4:memory:/skep-0/ibox/work\n2:cpu,cpuacct:/skep-0/ibox/agent\n1:name=systemd:/\n"
        ));
        assert!(check(
            "4:memory:/docker/1/skep-0/ibox\n2:cpu:/docker/1/skep-0/ibox\n0::/docker/1\n"
        ));
        for wrong in [
            "4:memory:/skep-0/iother/work\n2:cpu:/skep-0/ibox\n",
            // Without a limit in one of them.
            "4:memory:/\n2:cpu:/skep-0/ibox/work\n",
            "4:memory:/skep-0\n2:cpu:/skep-0/ibox/work\n",
            "4:memory:/ibox\n2:cpu:/skep-0/ibox/work\n",
            "2:cpu:/skep-0/ibox/work\n",
            "4:memory:/skep-0/ibox\n2:cpu:/skep-0/ibox\n1:devices:/skep-0/iother\n",
            "",
        ] {
            assert!(!check(wrong), "{wrong}");
        }
        let unified = [PathBuf::from("/sys/fs/cgroup/skep-0/ibox")];
        in_own("1", "0::/skep-0/ibox/work/3\n", &unified).unwrap();
        in_own("1", "0::/\n", &unified).unwrap_err();
    }

    #[test]
    fn a_process_is_below_work_in_every_hierarchy_of_the_sandbox() {
        let agents = "4:memory:/skep-0/box/agent\n2:cpu:/skep-0/box/agent\n1:name=systemd:/\n";
        let check = |found: &str| in_work_of_agent(7, found, agents, "box").is_ok();
        assert!(check(
            "4:memory:/skep-0/box/work/3\n2:cpu:/skep-0/box/work\n1:name=systemd:/\n"
        ));
        for wrong in [
            "4:memory:/skep-0/box/work\n2:cpu:/skep-0/zygote/work\n1:name=systemd:/\n",
            "4:memory:/skep-0/box/workshop\n2:cpu:/skep-0/box/work\n1:name=systemd:/\n",
            "4:memory:/skep-0/box/work\n2:cpu:/skep-0/box/agent\n1:name=systemd:/\n",
            "4:memory:/skep-0/box/work\n2:cpu:/skep-0/box/work\n1:name=systemd:/elsewhere\n",
            "4:memory:/skep-0/box/work\n2:cpu:/skep-0/box/work\n",
        ] {
            assert!(!check(wrong), "{wrong}");
        }
        let unified = "0::/skep-0/box/work/kernels/1\n";
        in_work_of_agent(7, unified, "0::/skep-0/box/agent\n", "box").unwrap();
    }
}
