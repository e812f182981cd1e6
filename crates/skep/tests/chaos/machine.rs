//! Objects of an installation on the host, whatever its database says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::installation::Installation;

/// Everything that a sandbox has on the host, by the id of the sandbox.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Traces {
    /// Sandboxes with a group in any hierarchy.
    pub(crate) cgroups: BTreeSet<String>,
    /// Sandboxes with a directory in the data directory.
    pub(crate) folders: BTreeSet<String>,
    /// Sandboxes with a disk that is in use.
    pub(crate) disks: BTreeSet<String>,
    /// Sandboxes with a first process.
    pub(crate) agents: BTreeSet<String>,
    /// Number of network links.
    pub(crate) links: usize,
    /// Processes of ours that are neither the server nor its one launcher nor in a sandbox, and
    /// mounts that the whole host sees.
    pub(crate) strays: Vec<String>,
}

impl Traces {
    /// The objects that must exist for these sandboxes, and nothing else.
    pub(crate) fn of(ids: &BTreeSet<String>) -> Self {
        Self {
            cgroups: ids.clone(),
            folders: ids.clone(),
            disks: ids.clone(),
            agents: ids.clone(),
            links: ids.len(),
            strays: Vec::new(),
        }
    }

    /// Looks at the host.
    pub(crate) fn find(installation: &Installation) -> Self {
        let data_dir = installation.data_dir();
        let number = fs::read_to_string(data_dir.join("instance")).unwrap();
        let group = format!("skep-{}", number.trim());
        let prefix = format!("skep{}-", number.trim());
        let (agents, mut strays) = processes(installation, &group);
        strays.extend(mounts(&data_dir));
        Self {
            cgroups: cgroups(&group),
            folders: names(&data_dir.join("sandboxes")).collect(),
            disks: disks(&data_dir),
            agents,
            links: names(Path::new("/sys/class/net"))
                .filter(|name| name.starts_with(&prefix))
                .count(),
            strays,
        }
    }
}

fn names(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap())
}

/// The groups below ours: in the one tree, or in each of the older hierarchies.
fn cgroups(group: &str) -> BTreeSet<String> {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = names(root).map(|name| root.join(name));
    let parents = hierarchies.chain([root.to_owned()]);
    let children = parents.flat_map(|parent| {
        let parent = parent.join(group);
        names(&parent).filter(move |name| parent.join(name).is_dir())
    });
    children.collect()
}

fn disks(data_dir: &Path) -> BTreeSet<String> {
    let sandboxes = format!("{}/sandboxes/", data_dir.display());
    let devices = names(Path::new("/sys/block"));
    let files = devices.filter_map(|device| {
        // A device that is not in use has no such file.
        fs::read_to_string(format!("/sys/block/{device}/loop/backing_file")).ok()
    });
    let ids = files.filter_map(|file| {
        let path = file.strip_prefix(&sandboxes)?;
        Some(path.split_once('/')?.0.to_owned())
    });
    ids.collect()
}

/// The sandboxes with a process that runs our executable, and such processes outside of any.
fn processes(installation: &Installation, group: &str) -> (BTreeSet<String>, Vec<String>) {
    let executables = installation.executables();
    let (mut agents, mut strays) = (BTreeSet::new(), Vec::new());
    let mut launcher = None;
    for pid in names(Path::new("/proc")).filter_map(|name| name.parse::<u32>().ok()) {
        // A process may end at any moment, and then it is none of ours.
        let Ok(executable) = fs::read_link(format!("/proc/{pid}/exe")) else {
            continue;
        };
        if !executable.starts_with(&executables) || Some(pid) == installation.server_pid() {
            continue;
        }
        let Ok(groups) = fs::read_to_string(format!("/proc/{pid}/cgroup")) else {
            continue;
        };
        let is_servers =
            installation.server_pid().is_some() && parent(pid) == installation.server_pid();
        match sandbox_of(&groups, group) {
            Some(id) => drop(agents.insert(id)),
            None if is_servers && launcher.is_none() => launcher = Some(pid),
            None => strays.push(format!("process {pid} {}", executable.display())),
        }
    }
    (agents, strays)
}

fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok()
}

fn sandbox_of(groups: &str, group: &str) -> Option<String> {
    let ours = format!("/{group}/");
    let inside = |line: &str| {
        let (_, below) = line.split_once(&ours)?;
        below.split('/').next().map(str::to_owned)
    };
    groups.lines().find_map(inside)
}

fn mounts(data_dir: &Path) -> Vec<String> {
    let all = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let data_dir = data_dir.to_str().unwrap();
    let ours = all.lines().filter(|line| line.contains(data_dir));
    ours.map(|line| format!("mount {line}")).collect()
}
