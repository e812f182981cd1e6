//! The objects that an installation has on the host outside its data directory.
//!
//! [`Kind`] is all of it: a server that puts something else on the host adds a kind, and with
//! it how that is found and how it is undone. Everything is found by the installation's number,
//! which decides all names, or by the path of its data.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::instance::{self, CLAIMS, INSTANCES, Naming, REMEMBERED, sandboxes_live};
use crate::kernel_settings::{ChangedSetting, KeptSetting, KernelSettings};
use crate::{firewall, gateway};

/// A kind of thing, in the order in which they are taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A sandbox with its processes: somebody's, one that is kept ready, or a zygote.
    Sandbox,
    /// A cgroup below which all sandboxes have theirs.
    Cgroup,
    /// A network interface.
    Interface,
    /// A setting of the kernel that is the host's.
    KernelSetting,
    /// A table of the packet filter.
    FilterTable,
    /// The claim of the number.
    InstanceNumber,
    /// A mount below the data directory.
    Mount,
    /// A loop device whose file is a disk of a sandbox.
    LoopDevice,
}

impl Kind {
    /// Name of the kind, for display.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Cgroup => "cgroup",
            Self::Interface => "interface",
            Self::KernelSetting => "kernel setting",
            Self::FilterTable => "nftables table",
            Self::InstanceNumber => "instance number",
            Self::Mount => "mount",
            Self::LoopDevice => "loop device",
        }
    }

    /// Description of the way in which things of this kind are removed.
    pub fn undone_by(self) -> &'static str {
        match self {
            Self::Sandbox => "its processes are killed, its disk is removed",
            Self::Cgroup | Self::InstanceNumber => "removed",
            Self::Interface | Self::FilterTable => "deleted",
            Self::KernelSetting => "set to what it was",
            Self::Mount => "unmounted",
            Self::LoopDevice => "detached by the kernel, when its mount goes",
        }
    }
}

/// One object on the host that belongs to an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The kind of object.
    pub kind: Kind,
    /// Name or path of the object.
    pub name: String,
    /// Details for the operator, such as the values of a kernel setting.
    pub detail: String,
    /// Reason for which it would stay, if it would.
    pub stays: Option<String>,
}

/// A server that uses the data directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningServer {
    /// Pid of its server, if it can be found.
    pub pid: Option<i32>,
}

/// Another installation on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherInstallation {
    /// Data directory of the installation, as far as it is known.
    pub data_dir: PathBuf,
    /// True if its server or one of its sandboxes runs.
    pub is_active: bool,
}

/// Everything that an installation has on the host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Footprint {
    /// The server that uses it now.
    pub server: Option<RunningServer>,
    /// All of it.
    pub items: Vec<Item>,
    /// Number of processes that run in its sandboxes.
    pub processes: usize,
    /// Other installations on this host.
    pub others: Vec<OtherInstallation>,
}

/// Finds everything that the installation in `data_dir` has on the host. Changes nothing. Blocks.
///
/// A directory that never was an installation, or whose installation was taken down, has nothing.
///
/// # Errors
///
/// If something that should tell cannot be read.
pub fn footprint(data_dir: &Path, cgroup_root: &Path) -> io::Result<Footprint> {
    let data_dir = match data_dir.canonicalize() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Nothing of it can be found, but others can.
            return Ok(Footprint {
                others: others(None, cgroup_root)?,
                ..Footprint::default()
            });
        }
        found => found?,
    };
    let remembered = data_dir.join(REMEMBERED);
    let mut footprint = Footprint {
        server: running_server(&remembered)?,
        ..Footprint::default()
    };
    let own = own_number(&remembered, &data_dir)?;
    footprint.others = others(own, cgroup_root)?;
    let mut items = Vec::new();
    if let Some(number) = own {
        let naming = Naming::of(number);
        footprint.processes = groups(naming, cgroup_root, &mut items)?;
        interfaces(naming, &mut items)?;
        settings(&footprint.others, &mut items)?;
        if firewall::is_installed(naming)? {
            items.push(item(Kind::FilterTable, format!("inet {}", naming.table())));
        }
        if firewall::is_in_shared_filter(naming).map_err(io::Error::other)? {
            let rules = format!("ip filter, rules for {}*", naming.interface_prefix());
            items.push(item(Kind::FilterTable, rules));
        }
        let claim = instance::claim_of(Path::new(CLAIMS), number);
        items.push(item(Kind::InstanceNumber, claim.display().to_string()));
    }
    mounts(&data_dir, &mut items)?;
    loop_devices(&data_dir, &mut items)?;
    items.sort_by(|one, other| (one.kind, &one.name).cmp(&(other.kind, &other.name)));
    footprint.items = items;
    Ok(footprint)
}

fn item(kind: Kind, name: String) -> Item {
    Item {
        kind,
        name,
        detail: String::new(),
        stays: None,
    }
}

/// The text of a file, if it is there.
fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The number that this data directory has now, and nobody else.
fn own_number(remembered: &Path, data_dir: &Path) -> io::Result<Option<u8>> {
    let number = read(remembered)?.and_then(|text| text.trim().parse::<u8>().ok());
    let Some(number) = number.filter(|number| *number < INSTANCES) else {
        return Ok(None);
    };
    let owner = read(&instance::claim_of(Path::new(CLAIMS), number))?;
    // After a restart of the host nobody has claimed it, and nothing is left.
    Ok(owner
        .is_some_and(|owner| Path::new(&owner) == data_dir)
        .then_some(number))
}

fn running_server(remembered: &Path) -> io::Result<Option<RunningServer>> {
    let file = match File::open(remembered) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if instance::lock(&file)? {
        return Ok(None);
    }
    let pid = lock_owners(&fs::read_to_string("/proc/locks")?)
        .into_iter()
        .find(|pid| has_open(*pid, remembered));
    Ok(Some(RunningServer { pid }))
}

/// The processes that hold a lock of this kind on any file.
fn lock_owners(locks: &str) -> BTreeSet<i32> {
    let owner = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let pid = words.get(4)?.parse().ok()?;
        (words.get(1) == Some(&"FLOCK")).then_some(pid)
    };
    locks.lines().filter_map(owner).collect()
}

fn has_open(pid: i32, path: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd"));
    let open = descriptors.into_iter().flatten().flatten();
    open.filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| target == path)
}

fn others(own: Option<u8>, cgroup_root: &Path) -> io::Result<Vec<OtherInstallation>> {
    let mut others = Vec::new();
    for number in (0..INSTANCES).filter(|number| Some(*number) != own) {
        let path = instance::claim_of(Path::new(CLAIMS), number);
        let owner = PathBuf::from(read(&path)?.unwrap_or_default());
        let has_server = match File::open(&path) {
            Ok(claim) => !instance::lock(&claim)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(error) => return Err(error),
        };
        let is_active = has_server || sandboxes_live(cgroup_root, number);
        if is_active || owner.is_absolute() && owner.join(REMEMBERED).exists() {
            others.push(OtherInstallation {
                data_dir: owner,
                is_active,
            });
        }
    }
    Ok(others)
}

/// Sandboxes and the cgroups they are in, on whatever version; returns how many processes run.
fn groups(naming: Naming, root: &Path, items: &mut Vec<Item>) -> io::Result<usize> {
    let controllers = directories(root)?.into_iter().map(|name| root.join(name));
    let parents: Vec<PathBuf> = std::iter::once(root.to_owned())
        .chain(controllers)
        .map(|directory| directory.join(naming.cgroup()))
        .filter(|parent| parent.is_dir())
        .collect();
    let mut sandboxes = BTreeSet::new();
    let mut processes = BTreeSet::new();
    for parent in &parents {
        items.push(item(Kind::Cgroup, parent.display().to_string()));
        for name in directories(parent)? {
            collect_processes(&parent.join(&name), &mut processes)?;
            if !name.starts_with(crate::pool::PREFIX) {
                sandboxes.insert(name);
            }
        }
    }
    items.extend(sandboxes.into_iter().map(|name| item(Kind::Sandbox, name)));
    Ok(processes.len())
}

/// The names of directories in one; none if it is gone.
fn directories(path: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            names.extend(entry.file_name().into_string());
        }
    }
    Ok(names)
}

fn collect_processes(group: &Path, processes: &mut BTreeSet<String>) -> io::Result<()> {
    match fs::read_to_string(group.join("cgroup.procs")) {
        Ok(text) => processes.extend(text.lines().map(str::to_owned)),
        // A group of threads, or one that is gone.
        Err(error) if is_no_list(&error) => {}
        Err(error) => return Err(error),
    }
    for name in directories(group)? {
        collect_processes(&group.join(name), processes)?;
    }
    Ok(())
}

fn is_no_list(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    error.kind() == io::ErrorKind::NotFound
        || code == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error())
        || code == Some(rustix::io::Errno::NODEV.raw_os_error())
}

fn interfaces(naming: Naming, items: &mut Vec<Item>) -> io::Result<()> {
    let gateway = naming.gateway_interface();
    if Path::new("/sys/class/net").join(&gateway).exists() {
        items.push(item(Kind::Interface, gateway));
    }
    let links = gateway::links(naming)?;
    items.extend(
        links
            .iter()
            .map(|slot| item(Kind::Interface, slot.interface())),
    );
    Ok(())
}

fn settings(others: &[OtherInstallation], items: &mut Vec<Item>) -> io::Result<()> {
    let is_needed = others.iter().any(|other| other.is_active);
    for setting in KernelSettings::open()?.changed(is_needed)? {
        items.push(setting_item(&setting));
    }
    Ok(())
}

fn setting_item(setting: &ChangedSetting) -> Item {
    let stays = setting.kept.as_ref().map(|kept| match kept {
        KeptSetting::Needed => "another installation needs it".to_owned(),
        KeptSetting::Changed => "somebody has changed it since".to_owned(),
        KeptSetting::ReliedOn(names) => format!("{} may rely on it", names.join(", ")),
    });
    Item {
        kind: Kind::KernelSetting,
        name: setting.path.replace('/', "."),
        detail: format!("{} → {}", setting.ours, setting.before),
        stays,
    }
}

/// Mounts below the data directory that this process sees.
fn mounts(data_dir: &Path, items: &mut Vec<Item>) -> io::Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let points = table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(unescaped);
    let below = points.filter(|point| Path::new(point).starts_with(data_dir));
    items.extend(below.map(|point| item(Kind::Mount, point)));
    Ok(())
}

/// A path as the kernel writes it there: four characters have an octal number instead.
fn unescaped(text: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(text.to_owned(), |text, (code, character)| {
        text.replace(code, character)
    })
}

fn loop_devices(data_dir: &Path, items: &mut Vec<Item>) -> io::Result<()> {
    for entry in fs::read_dir("/sys/block")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let backing = Path::new("/sys/block")
            .join(&name)
            .join("loop/backing_file");
        let Some(file) = read(&backing).unwrap_or_default() else {
            continue;
        };
        if Path::new(file.trim_end()).starts_with(data_dir) {
            items.push(Item {
                detail: file.trim_end().to_owned(),
                ..item(Kind::LoopDevice, format!("/dev/{name}"))
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_no_installation_has_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let root = Path::new("/sys/fs/cgroup");
        let missing = footprint(&directory.path().join("none"), root).unwrap();
        assert!(missing.items.is_empty() && missing.server.is_none());
        // Other installations are seen from anywhere.
        let here = footprint(directory.path(), root).unwrap();
        assert_eq!(missing.others.len(), here.others.len());
        let empty = footprint(directory.path(), root).unwrap();
        assert!(empty.items.is_empty() && empty.server.is_none());
        // A number that another installation has now is not its own.
        fs::write(directory.path().join(REMEMBERED), "31").unwrap();
        assert!(footprint(directory.path(), root).unwrap().items.is_empty());
    }

    #[test]
    fn owners_of_locks_are_read() {
        let text = "1: FLOCK  ADVISORY  WRITE 42 fd:00:131 0 EOF\n\
                    2: POSIX  ADVISORY  READ 43 fd:00:132 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 44 fd:00:131 0 EOF\n";
        assert_eq!(lock_owners(text), BTreeSet::from([42]));
    }

    #[test]
    fn mounted_paths_are_read_as_they_are() {
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
    }
}
