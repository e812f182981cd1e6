//! Comparison of a sandbox's tasks with what they may be, as the host's `/proc` tells it.
//!
//! Two kinds of tasks come into being where the launcher does not decide about them: those that
//! are restored, whose users, capabilities and filters come from an image, and those that a zygote
//! has forked. Both are looked at from outside before any code of the sandbox runs in them. A fork is
//! compared with the one process that it should be ([`crate::zygote`]). What is restored may be any
//! tree that code in a sandbox can make, so there are bounds ([`TaskBounds`]).

mod cgroups;
mod mounts;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use skep_checkpoint::{Origin, Surroundings};

pub(crate) use cgroups::in_work_of_agent;

/// Namespaces that all tasks of a sandbox share.
const NAMESPACES: [&str; 9] = [
    "cgroup",
    "ipc",
    "mnt",
    "net",
    "pid",
    "pid_for_children",
    "time",
    "user",
    "uts",
];

/// Bounds of the tasks of a restored sandbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskBounds<'a> {
    /// First process of the tree.
    pub(crate) first: i32,
    /// First and number of the host's ids.
    pub(crate) ids: (u32, u32),
    /// Bounding set; nobody has another capability.
    pub(crate) capabilities: u64,
    /// Capability that the first process has beside these, and nobody else.
    pub(crate) marker: u64,
    /// Least number of filters that a task is under.
    pub(crate) filters: usize,
    /// The sandbox's group in every hierarchy.
    pub(crate) groups: &'a [PathBuf],
    /// Directories of the host with programs that may be mapped.
    pub(crate) programs: &'a [PathBuf],
    /// Places of mounts that the launcher has made, beside those in `/proc`.
    pub(crate) mounts: &'a [&'a str],
    /// Volumes among them.
    pub(crate) volumes: &'a [skep_types::Mount],
}

/// A property in which a task is not as it should be.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("task {task}: its {what} is `{found}`")]
pub(crate) struct Difference {
    /// The task, by its number on the host or its directory in `/proc`.
    pub(crate) task: String,
    pub(crate) what: &'static str,
    pub(crate) found: String,
}

impl Difference {
    pub(crate) fn new(task: impl ToString, what: &'static str, found: impl ToString) -> Self {
        Self {
            task: task.to_string(),
            what,
            found: found.to_string(),
        }
    }
}

/// Returns a [`Difference`] unless a property holds.
pub(crate) fn require(
    holds: bool,
    task: impl ToString,
    what: &'static str,
    found: &str,
) -> Result<(), Difference> {
    if holds {
        Ok(())
    } else {
        Err(Difference::new(task, what, found))
    }
}

/// Reads a file of a task's directory in `/proc`.
pub(crate) fn read(directory: &str, file: &'static str) -> Result<String, Difference> {
    let text = fs::read_to_string(format!("{directory}/{file}"));
    text.map_err(|error| Difference::new(directory, file, error))
}

/// The fields of a task's `status`.
pub(crate) struct Status<'a>(HashMap<&'a str, &'a str>);

impl<'a> Status<'a> {
    pub(crate) fn parse(text: &'a str) -> Self {
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        Self(fields.map(|(name, value)| (name, value.trim())).collect())
    }

    /// A field, or nothing if there is none.
    pub(crate) fn get(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or_default()
    }
}

/// Requires that a task is in all namespaces that the first process is in.
pub(crate) fn same_namespaces(directory: &str, first: i32) -> Result<(), Difference> {
    for name in NAMESPACES {
        let found = namespace(directory, name)?;
        let wanted = namespace(&format!("/proc/{first}"), name)?;
        require(found == wanted, directory, name, &found)?;
    }
    Ok(())
}

fn namespace(directory: &str, name: &'static str) -> Result<String, Difference> {
    let link = fs::read_link(format!("{directory}/ns/{name}"))
        .map_err(|error| Difference::new(directory, name, error))?;
    Ok(link.display().to_string())
}

/// Looks at every thread of every process in the pid namespace of the first, all of which stand.
/// Returns the processes.
///
/// # Errors
///
/// The first [`Difference`].
pub(crate) fn inspect_tree(bounds: &TaskBounds<'_>) -> Result<Vec<i32>, Difference> {
    let first = bounds.first;
    let directory = format!("/proc/{first}");
    // None of its namespaces is that of whoever looks, which is the host's.
    for name in NAMESPACES {
        let found = namespace(&directory, name)?;
        require(found != namespace("/proc/self", name)?, first, name, &found)?;
    }
    for map in ["uid_map", "gid_map"] {
        one_range(first, map, &read(&directory, map)?, bounds.ids)?;
    }
    mounts::inspect(
        first,
        &read(&directory, "mountinfo")?,
        bounds.mounts,
        bounds.volumes,
    )?;
    let unreadable = |error: io::Error| Difference::new(first, "state", error);
    let tree = skep_checkpoint::tree_of(first).map_err(unreadable)?;
    for pid in &tree {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).map_err(unreadable)?;
        for task in tasks {
            let task = task.map_err(unreadable)?.path().display().to_string();
            inspect_task(&task, *pid == first, bounds)?;
        }
    }
    inspect_files(&tree, bounds)?;
    Ok(tree)
}

fn inspect_task(task: &str, is_first: bool, bounds: &TaskBounds<'_>) -> Result<(), Difference> {
    let status = read(task, "status")?;
    let status = Status::parse(&status);
    within_bounds(task, is_first, bounds, &|name| status.get(name))?;
    if is_zombie(status.get("State")) {
        return Ok(());
    }
    same_namespaces(task, bounds.first)?;
    cgroups::in_own(task, &read(task, "cgroup")?, bounds.groups)
}

fn is_zombie(state: &str) -> bool {
    state.starts_with('Z')
}

/// Compares what `status` says of one task.
fn within_bounds<'a>(
    task: &str,
    is_first: bool,
    bounds: &TaskBounds<'_>,
    status: &dyn Fn(&str) -> &'a str,
) -> Result<(), Difference> {
    let (first, count) = bounds.ids;
    let in_range = |text: &str| {
        let mut ids = text.split_whitespace();
        ids.all(|id| {
            id.parse::<u32>()
                .is_ok_and(|id| id >= first && id - first < count)
        })
    };
    for name in ["Uid", "Gid", "Groups"] {
        let found = status(name);
        let is_there = name == "Groups" || !found.is_empty();
        require(is_there && in_range(found), task, name, found)?;
    }
    // One that has ended has none of the rest.
    if is_zombie(status("State")) {
        return Ok(());
    }
    // The mark is what keeps everybody inside out of the first process: it has it, and nobody else.
    let own = if is_first { bounds.marker } else { 0 };
    let most = bounds.capabilities | own;
    for (name, least, most) in [
        ("CapBnd", 0, bounds.capabilities),
        ("CapPrm", own, most),
        ("CapEff", own, most),
        ("CapInh", 0, bounds.capabilities),
        ("CapAmb", 0, bounds.capabilities),
    ] {
        let found = status(name);
        let set = u64::from_str_radix(found, 16);
        let is_within = set.is_ok_and(|set| set & !most == 0 && set & least == least);
        require(is_within, task, name, found)?;
    }
    require(status("Seccomp") == "2", task, "Seccomp", status("Seccomp"))?;
    let filters = status("Seccomp_filters");
    let is_enough = filters
        .parse()
        .is_ok_and(|count: usize| count >= bounds.filters);
    require(is_enough, task, "Seccomp_filters", filters)?;
    // Others may have given up what set-user-id programs would give them. The agent starts everything,
    // so nobody could become root any more.
    let gave_up = status("NoNewPrivs");
    require(!is_first || gave_up == "0", task, "NoNewPrivs", gave_up)
}

/// Requires that a map of ids is the sandbox's own range and nothing else.
fn one_range(
    first: i32,
    what: &'static str,
    map: &str,
    (lower, count): (u32, u32),
) -> Result<(), Difference> {
    let found: Vec<&str> = map.split_whitespace().collect();
    let wanted = ["0".to_owned(), lower.to_string(), count.to_string()];
    require(found == wanted, first, what, map.trim())
}

/// Requires that files which are not the sandbox's own are those that a sandbox has, and that those
/// of its cgroups and its memory are open in the agent alone.
fn inspect_files(tree: &[i32], bounds: &TaskBounds<'_>) -> Result<(), Difference> {
    let first = bounds.first;
    let around = Surroundings {
        cgroups: bounds.groups,
        programs: bounds.programs,
        first_id: bounds.ids.0,
    };
    let files_of = |processes: &[i32]| {
        let files = skep_checkpoint::foreign_files(first, processes, around);
        files.map_err(|error| {
            Difference::new(error.pid, "descriptors", skep_telemetry::Chain(&error))
        })
    };
    files_of(&[first])?;
    let others: Vec<i32> = tree.iter().copied().filter(|pid| *pid != first).collect();
    for file in files_of(&others)? {
        let of_agent = match &file.origin {
            Origin::Cgroup { path, .. } => Some(path.as_path()),
            Origin::MemoryInfo => Some(Path::new("/proc/meminfo")),
            Origin::Host(_) | Origin::Template(_) => None,
        };
        if let Some(path) = of_agent {
            let found = path.display();
            return Err(Difference::new("not the agent", "descriptors", found));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: TaskBounds<'static> = TaskBounds {
        first: 7,
        ids: (100_000, 65_536),
        capabilities: 0xff,
        marker: 0x1000,
        filters: 1,
        groups: &[],
        programs: &[],
        mounts: &[],
        volumes: &[],
    };

    fn check(is_first: bool, changes: &[(&str, &'static str)]) -> Result<(), &'static str> {
        let status = |name: &str| -> &'static str {
            if let Some((_, value)) = changes.iter().find(|(changed, _)| *changed == name) {
                return value;
            }
            match name {
                "Uid" | "Gid" => "101000\t101000\t101000\t101000",
                "Groups" => "101000 100027",
                "State" => "t (tracing stop)",
                "Seccomp" => "2",
                "Seccomp_filters" => "1",
                "NoNewPrivs" => "0",
                "CapBnd" => "00000000000000ff",
                "CapPrm" | "CapEff" if is_first => "00000000000010ff",
                _ => "0000000000000000",
            }
        };
        within_bounds("task", is_first, &BOUNDS, &status).map_err(|difference| difference.what)
    }

    #[test]
    fn a_task_as_a_launch_makes_it_passes() {
        assert_eq!(check(true, &[]), Ok(()));
        assert_eq!(check(false, &[]), Ok(()));
        // A fork of a zygote's, and a process that has given something up.
        assert_eq!(check(false, &[("Seccomp_filters", "2")]), Ok(()));
        assert_eq!(check(false, &[("NoNewPrivs", "1")]), Ok(()));
        assert_eq!(
            check(false, &[("State", "Z (zombie)"), ("Seccomp", "0")]),
            Ok(())
        );
    }

    #[test]
    fn whoever_may_more_or_is_somebody_else_is_found_out() {
        for (what, value) in [
            ("Uid", "0\t0\t0\t0"),
            ("Uid", "100000\t100000\t0\t100000"),
            ("Gid", "165536\t165536\t165536\t165536"),
            ("Groups", "0"),
            ("CapBnd", "000001ffffffffff"),
            ("CapEff", "00000000000010ff"),
            ("CapPrm", "0000000000200000"),
            ("CapAmb", "0000000000001000"),
            ("Seccomp", "0"),
            ("Seccomp", "1"),
            ("Seccomp_filters", "0"),
            ("Seccomp_filters", ""),
            ("Uid", ""),
        ] {
            assert_eq!(check(false, &[(what, value)]), Err(what), "{value}");
        }
    }

    #[test]
    fn a_first_process_that_can_be_looked_into_or_start_no_sudo_is_found_out() {
        for (what, value) in [
            ("CapPrm", "00000000000000ff"),
            ("CapEff", "0000000000000000"),
            ("NoNewPrivs", "1"),
        ] {
            assert_eq!(check(true, &[(what, value)]), Err(what), "{value}");
        }
    }

    #[test]
    fn a_map_is_one_range_of_the_right_size() {
        let ids = BOUNDS.ids;
        let check = |map: &str| one_range(7, "uid_map", map, ids).is_ok();
        assert!(check("         0     100000      65536\n"));
        for wrong in [
            "0 100000 131072\n",
            "0 0 65536\n",
            "0 100000 65536\n65536 0 1\n",
            "",
        ] {
            assert!(!check(wrong), "{wrong}");
        }
    }

    #[test]
    fn this_process_is_none_of_a_sandbox() {
        let own = std::process::id().cast_signed();
        let bounds = TaskBounds {
            first: own,
            ..BOUNDS
        };
        let found = inspect_tree(&bounds).unwrap_err();
        assert_eq!(found.what, "cgroup", "the first namespace: {found}");
    }
}
