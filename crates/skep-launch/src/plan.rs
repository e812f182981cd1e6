//! The launch plan: everything the launcher needs to start one process.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Defence, Descriptor, Descriptors, Step};

/// Everything the launcher needs to know to start one process in namespaces of its own.
///
/// The process always gets its own mount, pid, ipc, uts and cgroup namespaces, a root made of
/// read-only layers and a writable top, a minimal `/dev`, its own `/proc` with the dangerous
/// parts masked, and a `/sys` that holds only what programs look for. It never gets more
/// capabilities than [`Privileges`] says, and always runs under the filter.
#[derive(Debug, Serialize, Deserialize)]
pub struct LaunchPlan {
    /// Open `cgroup.procs` files, one per hierarchy, that the launcher joins before it does
    /// anything else, so that everything it does is already counted and limited.
    pub cgroups: Vec<Descriptor>,
    /// More of them, to which the process is moved when it has its cgroup namespace, if that is to
    /// be made in another cgroup than the process lives in.
    pub home_cgroups: Vec<Descriptor>,
    /// Files of cgroups that are written after that.
    pub cgroup_settings: Option<CgroupSettings>,
    /// User and group ids of the process.
    pub users: Users,
    /// User namespace below which its own is made; the host's if there is none.
    pub parent: Option<Parent>,
    /// Network of the process.
    pub network: Network,
    /// Root filesystem of the process.
    pub root: Root,
    /// Host files and directories that appear in the root.
    pub binds: Vec<Bind>,
    /// Volumes that appear in the root, those above before those below them.
    pub volumes: Vec<VolumeBind>,
    /// Size limit of `/dev/shm`, in bytes. It counts as memory of whoever writes there.
    pub shared_memory_bytes: u64,
    /// Size limit of `/run`, in bytes. `None` leaves `/run` on the root, where what is
    /// written stays.
    pub run_bytes: Option<u64>,
    /// Files written into the root before the program starts.
    pub files: Vec<PlannedFile>,
    /// Text of `/proc/meminfo`. `None` leaves the host's own there.
    pub memory_info: Option<String>,
    /// The host name the process sees.
    pub hostname: String,
    /// Program to run, and its user, environment, descriptors and limits.
    pub process: Process,
    /// Capabilities and rights of the process.
    pub privileges: Privileges,
    /// Relation of its lifetime to the launcher's.
    pub lifetime: Lifetime,
    /// Fails at this step, as if the system had refused. For tests of the clean-up.
    pub fail_at: Option<Step>,
    /// Image that the process and all others with it are restored from. Without one, the process
    /// begins with its program.
    pub restoration: Option<Restoration>,
    /// Defences that are left out, so that the attack suite can show what each of them holds.
    #[doc(hidden)]
    pub without: Vec<Defence>,
    /// Descriptors that the plan refers to. They travel beside its text.
    #[serde(skip)]
    pub(crate) descriptors: Descriptors,
}

impl LaunchPlan {
    /// A plan for a process with a sandbox's rights that dies with its launcher and has a
    /// loopback and no other network. `descriptors` hold what `root` and `process` refer to.
    ///
    /// The other fields are set afterwards, where the defaults do not do.
    pub fn new(descriptors: Descriptors, users: Users, root: Root, process: Process) -> Self {
        Self {
            cgroups: Vec::new(),
            home_cgroups: Vec::new(),
            cgroup_settings: None,
            users,
            parent: None,
            network: Network::Loopback,
            root,
            binds: Vec::new(),
            volumes: Vec::new(),
            shared_memory_bytes: 64 << 20,
            run_bytes: Some(16 << 20),
            files: Vec::new(),
            memory_info: None,
            hostname: "localhost".into(),
            process,
            privileges: Privileges::Sandbox,
            lifetime: Lifetime::Tied,
            fail_at: None,
            restoration: None,
            without: Vec::new(),
            descriptors,
        }
    }

    /// Adds `cgroup.procs` files to those that the launcher joins before it does anything else.
    pub fn join<F: Into<OwnedFd>>(&mut self, cgroups: impl IntoIterator<Item = F>) {
        self.cgroups.extend(self.descriptors.add_all(cgroups));
    }

    /// Adds `cgroup.procs` files to those by which the process is moved when it has its cgroup
    /// namespace.
    pub fn join_home<F: Into<OwnedFd>>(&mut self, cgroups: impl IntoIterator<Item = F>) {
        self.home_cgroups.extend(self.descriptors.add_all(cgroups));
    }

    /// Writes to files below a cgroup's directory, in this order, when nobody is left in the
    /// cgroups of [`LaunchPlan::join`].
    pub fn set_cgroups(&mut self, directory: impl Into<OwnedFd>, files: Vec<(String, String)>) {
        let directory = self.descriptors.add(directory);
        self.cgroup_settings = Some(CgroupSettings {
            directory,
            files,
            given: Vec::new(),
        });
    }

    /// Gives directories below that of [`LaunchPlan::set_cgroups`], with all that is in them then,
    /// to root of the process's users.
    pub fn give_cgroups(&mut self, directories: Vec<String>) {
        if let Some(settings) = &mut self.cgroup_settings {
            settings.given = directories;
        }
    }

    /// Makes the user namespace of the process below this one, in which its first id is `first`.
    pub fn below(&mut self, namespace: impl Into<OwnedFd>, first: u32) {
        let namespace = self.descriptors.add(namespace);
        self.parent = Some(Parent { namespace, first });
    }

    /// Sets the standard input of the process.
    pub fn stdin(&mut self, descriptor: impl Into<OwnedFd>) {
        self.process.stdin = Some(self.descriptors.add(descriptor));
    }

    /// Sets the standard output and the standard error of the process.
    pub fn output(&mut self, descriptor: impl Into<OwnedFd>) {
        let descriptor = self.descriptors.add(descriptor);
        self.process.stdout = Some(descriptor);
        self.process.stderr = Some(descriptor);
    }

    /// Passes a descriptor to the process under a name, and returns the number it has there.
    ///
    /// The process is to look it up by its name, in [`Process::fd_table`]: a number is an accident
    /// of one launch, and a process that is restored from a checkpoint is given its descriptors
    /// once more, by their names. Several may have the same name.
    pub fn pass(&mut self, name: impl Into<String>, descriptor: impl Into<OwnedFd>) -> i32 {
        let descriptor = Some(self.descriptors.add(descriptor));
        let name = name.into();
        self.process.pass.push(Passed { name, descriptor });
        number_of(self.process.pass.len() - 1)
    }

    /// Shows `text` in `/proc/meminfo`, and passes the process the file under a name, so that it
    /// can write it anew. Everybody else there can only read it.
    pub fn show_memory(&mut self, name: impl Into<String>, text: String) {
        self.memory_info = Some(text);
        self.process.pass.push(Passed {
            name: name.into(),
            descriptor: None,
        });
    }

    /// Shows a directory of a mount that is attached nowhere yet, with the ids of the process's users.
    pub fn show_volume(
        &mut self,
        mount: impl Into<OwnedFd>,
        directory: impl Into<String>,
        target: impl Into<String>,
        writable: bool,
    ) {
        let mount = self.descriptors.add(mount);
        self.volumes.push(VolumeBind {
            mount,
            directory: directory.into(),
            target: target.into(),
            writable,
        });
    }

    /// Adds a descriptor to which [`Restoration`] can refer.
    pub fn attach(&mut self, descriptor: impl Into<OwnedFd>) -> Descriptor {
        self.descriptors.add(descriptor)
    }

    /// Returns true unless this defence is left out, as controls of the attack suite do.
    pub(crate) fn has(&self, defence: Defence) -> bool {
        !self.without.contains(&defence)
    }
}

/// A tree of processes that is restored from an image by CRIU, in a root and a network that are made
/// as for a launch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restoration {
    /// CRIU and the directory of the image, which is this restore's own.
    pub tool: CheckpointTool,
    /// Mounts of the image by their names in it, and their places in the root.
    pub mounts: Vec<(String, String)>,
    /// Files of the image that are not in its root, by their names in it.
    pub files: Vec<(String, RestoredFile)>,
    /// Archive of what is on memory file systems, and the places of those in the root.
    pub archive: (Descriptor, Vec<String>),
    /// The boot id that the processes have seen.
    pub boot_id: String,
}

/// A file that a restored process has open or mapped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RestoredFile {
    /// A descriptor that it gets as it is.
    Open(Descriptor),
    /// A file that is opened once more for it.
    Program(Descriptor),
    /// A file of the bare layers, whatever the process's own root has in its place.
    Template(String),
    /// The file over `/proc/meminfo`, which the launcher makes.
    MemoryInfo,
    /// A file below the directory of [`CgroupSettings`], some of which are there only when those
    /// are written. It gets the descriptor as it is.
    Cgroup {
        /// Path below the directory.
        path: String,
        /// Flags that it is opened with.
        flags: u32,
    },
}

/// CRIU, as it is called, and the directory it works in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointTool {
    /// Program and first arguments.
    pub command: Vec<String>,
    /// Program that it calls at every stage.
    pub hook: String,
    /// Directory with the files of the image.
    pub images: PathBuf,
    /// File in which it keeps what it has found out about this kernel.
    pub cache: PathBuf,
    /// Time after which the launcher kills it, without that in which the server is asked. The server
    /// waits for less, so this is for one that is gone.
    pub timeout: Duration,
    /// Directory of the tree's own group where cgroups are unified, which is all that CRIU sees of
    /// them; it is in the tree's cgroup namespace then. `None` where controllers have hierarchies of
    /// their own.
    pub cgroup: Option<PathBuf>,
}

/// A tree of processes that is written to an image.
#[derive(Debug, Serialize, Deserialize)]
pub struct DumpPlan {
    /// CRIU and the directory of the image.
    pub tool: CheckpointTool,
    /// Arguments of the dump.
    pub arguments: Vec<String>,
    /// Network namespace of the tree.
    pub(crate) network: Descriptor,
    /// Its cgroup namespace, if CRIU is to be in that, too.
    pub(crate) cgroups: Option<Descriptor>,
    #[serde(skip)]
    pub(crate) descriptors: Descriptors,
}

impl DumpPlan {
    /// A dump of a tree in this network namespace.
    pub fn new(tool: CheckpointTool, arguments: Vec<String>, network: impl Into<OwnedFd>) -> Self {
        let mut descriptors = Descriptors::default();
        let network = descriptors.add(network);
        Self {
            tool,
            arguments,
            network,
            cgroups: None,
            descriptors,
        }
    }

    /// Has CRIU see cgroups as the tree does.
    pub fn enter_cgroups(&mut self, namespace: impl Into<OwnedFd>) {
        self.cgroups = Some(self.descriptors.add(namespace));
    }
}

/// Files of cgroups that can be written only when nobody is in the cgroup in which the namespace
/// was made: on v2 no controller is enabled below a cgroup that has processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CgroupSettings {
    /// Directory of the cgroup.
    pub directory: Descriptor,
    /// Paths below it, and what is written there.
    pub files: Vec<(String, String)>,
    /// Directories below it that are given to root of the process's users afterwards.
    pub given: Vec<String>,
}

/// User and group ids of a process, as seen from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Users {
    /// The host's own; root is root. Only for code that the operator trusts.
    Host,
    /// A user namespace in which id 0 is `first` of the host, and so on. Layers and the
    /// writable top are id-mapped, so ids on disk are the natural ones.
    Range {
        /// The host's id for the namespace's 0.
        first: u32,
        /// Number of ids in the range.
        count: u32,
    },
}

/// Most sandboxes below one parent: what they share is divided by this.
pub const MAX_PER_PARENT: u16 = 128;

/// A user namespace below which another one is made.
///
/// Its network namespace belongs to the parent then: root of the new users has no right over
/// it, and whoever may administer the parent can enter both, the network first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The namespace, open.
    pub namespace: Descriptor,
    /// Id in the parent of the first id of [`Users::Range`].
    pub first: u32,
}

/// Network that a process can use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Network {
    /// The host's own network.
    Host,
    /// A namespace with nothing but a loopback.
    Loopback,
    /// A namespace with a loopback and one link to the host.
    Link(Link),
}

/// A pair of connected interfaces: one on the host, one in the namespace, called `eth0`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Name of the interface on the host.
    pub host_name: String,
    /// Group of the interface on the host; packet filter rules refer to it.
    pub host_group: u32,
    /// Address in the namespace. The host gets a route to it over the link.
    pub address: Ipv4Addr,
    /// Default gateway, not necessarily in the same network.
    pub gateway: Ipv4Addr,
    /// Address from which the host speaks to the namespace, one of its own. Without it the kernel
    /// takes any that it finds, and connections end when that one goes.
    pub host_address: Option<Ipv4Addr>,
}

/// Layers and mounts that make up the root filesystem of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// An existing, empty directory of the host. Mounts are put together on it, in a
    /// namespace of the launcher's own: the host never sees them.
    pub staging: PathBuf,
    /// Read-only layers, the lowest first. At least one.
    pub layers: Vec<PathBuf>,
    /// Disks that [`skep_linux::mount_lower_disk`] has mounted, the lowest first: layers above the
    /// others.
    pub below: Vec<Descriptor>,
    /// Writable layer, which takes all changes.
    pub top: Top,
}

/// Writable layer of a root filesystem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Top {
    /// Two existing directories in the same directory.
    Directories {
        /// Receives the changes.
        upper: PathBuf,
        /// Empty; the overlay's own.
        work: PathBuf,
    },
    /// A file that holds an ext4 filesystem. It is attached to a loop device and mounted for
    /// the process only, and let go when the last process is gone.
    Image(PathBuf),
    /// A disk that [`skep_linux::mount_overlay_disk`] has mounted already.
    Mounted(Descriptor),
    /// Such a disk whose changes will be a layer themselves.
    MountedForLayer(Descriptor),
}

/// A volume that appears in the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VolumeBind {
    /// A mount that is attached nowhere yet.
    pub mount: Descriptor,
    /// Directory of it that is the volume.
    pub directory: String,
    /// Absolute, inside the root. Made if it is missing; a symlink on the way fails the launch.
    pub target: String,
    /// True if it can be written to.
    pub writable: bool,
}

/// A file or directory of the host that appears in the root.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bind {
    /// On the host.
    pub source: PathBuf,
    /// Absolute, inside the root. Made (empty) if it is missing; symlinks on the way are
    /// followed inside the root only.
    pub target: String,
    /// True if it can be written to.
    pub writable: bool,
}

/// A file that is written into the root before the program starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFile {
    /// Absolute, inside the root. What is there is replaced, also if it is a symlink.
    pub path: String,
    /// Content of the file.
    pub content: String,
    /// Permission bits, as `chmod` takes them.
    pub mode: u32,
}

/// A program to run, with its user, environment, descriptors and limits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Process {
    /// The file to execute.
    pub program: Program,
    /// Its arguments, the zeroth included.
    pub arguments: Vec<String>,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// Absolute, inside the root.
    pub working_directory: String,
    /// User and group, as seen inside.
    pub user: u32,
    /// Primary group id, as seen inside.
    pub group: u32,
    /// Supplementary group ids, as seen inside.
    pub groups: Vec<u32>,
    /// Descriptor 0; `None` is `/dev/null`.
    pub stdin: Option<Descriptor>,
    /// Descriptor 1; `None` is `/dev/null`.
    pub stdout: Option<Descriptor>,
    /// Descriptor 2; `None` is `/dev/null`.
    pub stderr: Option<Descriptor>,
    /// Descriptors 3, 4 and so on, in this order. Nothing else stays open.
    pub pass: Vec<Passed>,
    /// Most descriptors it may open: what it starts with, and what it may raise that to.
    pub open_files: (u64, u64),
    /// Adjustment of the OOM killer's score, from -1000 (never killed) to 1000 (killed first).
    pub oom_score_adjust: i16,
}

/// A descriptor that a process is passed, and the name by which it knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Name in [`Process::fd_table`].
    pub name: String,
    /// The descriptor, as the plan refers to it; `None` for the file over `/proc/meminfo`, which the
    /// launcher makes.
    pub descriptor: Option<Descriptor>,
}

/// Number of the first descriptor after the standard ones.
const FIRST_PASSED: usize = 3;

/// Number that the process knows the passed descriptor at this index by.
fn number_of(index: usize) -> i32 {
    i32::try_from(FIRST_PASSED + index).expect("a message carries fewer descriptors")
}

impl Process {
    /// A process of root, with an empty environment, in `/`.
    pub fn new(program: Program, arguments: impl IntoIterator<Item = String>) -> Self {
        Self {
            program,
            arguments: arguments.into_iter().collect(),
            environment: Vec::new(),
            working_directory: "/".into(),
            user: 0,
            group: 0,
            groups: Vec::new(),
            stdin: None,
            stdout: None,
            stderr: None,
            pass: Vec::new(),
            open_files: (1024, 1 << 20),
            oom_score_adjust: 0,
        }
    }

    /// The table of the descriptors that it is passed, as `name=number,…`.
    pub fn fd_table(&self) -> String {
        let named = self.pass.iter().enumerate();
        let rows: Vec<_> = named
            .map(|(index, passed)| format!("{}={}", passed.name, number_of(index)))
            .collect();
        rows.join(",")
    }
}

/// The file to execute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Program {
    /// An open file of the host, which need not be visible in the root.
    Descriptor(Descriptor),
    /// Absolute, inside the root.
    Path(String),
}

/// Capabilities and rights of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Privileges {
    /// The capabilities that root needs to install packages.
    Build,
    /// The same. The first process has one more capability than anything it starts can ever
    /// have, so nothing inside can trace it.
    Sandbox,
    /// Only to enter namespaces below its own user namespace. The process has no pid namespace
    /// of its own, because one can enter only pid namespaces below one's own; it sees none but
    /// its own processes all the same.
    Enter,
}

/// Relation of a process's lifetime to its launcher's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lifetime {
    /// Until it ends: it outlives the launcher and the server. Whoever started the launcher
    /// becomes its parent if it is a child subreaper.
    Detached,
    /// The launcher stays, reports how the process ended, and takes the process with it if it
    /// dies; it dies with the thread that started it.
    Tied,
}
