//! A restore: a launch in which CRIU makes the processes.
//!
//! Cgroups, limits, network, layers, overlay and mounts are made by the same steps as for a launch.
//! CRIU then gets the root, the other mounts each at a place of its own, and the files that are not
//! in them, as descriptors. What it does not put back is put back here, while every task still
//! stands: the limits of namespaces, ports that are not shared, and, by the server, the owners of
//! pipes.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{Pid, PidfdFlags, Signal};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use skep_linux::{Child, Cloned};

use super::criu::Answer;
use super::volumes;
use super::{
    ChildGuard, HostProc, Launch, criu, devices, in_child, inside, listeners, map_users, network,
    pending_signals, proc, root, settle, tree,
};
use crate::channel::Channel;
use crate::report::Stage;
use crate::step_error::{About, StepError};
use crate::step_runner::{Failure, StepRunner};
use crate::{LaunchPlan, Restoration, RestoredFile, Step, Users};

/// Directory in which the mounts are put together.
const STAGING: &str = "/run/skep";

/// Directory of the staging directory in which the bare layers are put together.
const TEMPLATE: &str = "template";

/// Restores the processes of a plan, and returns the first of them.
pub(super) fn carry_out(
    launch: Launch<'_>,
    restoration: &Restoration,
    steps: &mut StepRunner,
    channel: &Channel,
) -> Result<ChildGuard, Failure> {
    let plan = launch.plan;
    steps.run(Step::JoinCgroups, || launch.join(&plan.cgroups))?;
    let pending_signals = steps.run(Step::SetLimits, || {
        launch.set_limits()?;
        pending_signals::leave_half_to_root()
    })?;
    let (host, link) = steps.run(Step::LeaveNamespaces, || {
        let host = HostProc::open()?;
        let link = network::Outside::open(&plan.network)?;
        launch.leave_namespaces()?;
        Ok((host, link))
    })?;
    // Before CRIU, which makes the namespace only where processes can be moved to its root.
    steps.run(Step::SettleCgroups, || settle::settle_launcher(launch))?;
    // CRIU makes the user namespace of the tree. Layers are mapped by one with the same ids, which
    // nobody lives in.
    let users = steps.run(Step::MapUsers, || namespace_of_ids(plan, &host))?;
    steps.run(Step::MakeLink, || link.make_link(plan, &host))?;
    steps.run(Step::ConfigureNetwork, || network::configure(plan, &host))?;
    // CRIU opens the mounts by their paths as a user of the sandbox, whom nobody lets into the data
    // directory. A `/run` of this process's own is open to whoever is in it.
    let staged = crate::Root {
        staging: STAGING.into(),
        ..plan.root.clone()
    };
    steps.run(Step::MountImage, || {
        criu::mount_run(&restoration.tool)?;
        Ok(rustix::fs::mkdir(STAGING, Mode::from_raw_mode(0o755))?)
    })?;
    let root = root::build(
        &staged,
        plan.users,
        users.as_ref(),
        launch.descriptors,
        steps,
    )?;
    steps.run(Step::MakeDevices, || devices::make(&root, plan))?;
    let own_files = steps.run(Step::MountSystem, || {
        root::mount_system(&root, plan)?;
        proc::OwnFiles::make(&host, plan)
    })?;
    let volumes = steps.run(Step::BindFiles, || {
        volumes::take_all(plan, users.as_ref(), launch.descriptors)
    })?;
    steps.run(Step::ShowVolumes, || {
        volumes::show_all(&root, plan, volumes)
    })?;
    let apart = steps.run(Step::FillMemory, || {
        let apart = Apart::set(&root, restoration, &own_files)?;
        apart.fill(launch, restoration)?;
        Ok(apart)
    })?;
    steps.run(Step::RestoreProcesses, || {
        let tree = Tree {
            restoration,
            staged: &staged,
            apart: &apart,
            own_files: &own_files,
            pending_signals,
        };
        tree.restore(launch, &host, channel)
    })
}

/// A user namespace with the ids of the plan, held by nobody but the descriptor.
fn namespace_of_ids(plan: &LaunchPlan, host: &HostProc) -> Result<Option<OwnedFd>, StepError> {
    if plan.users == Users::Host {
        return Ok(None);
    }
    let (waiting, held) = std::io::pipe()?;
    let child = match skep_linux::clone_process(UnshareFlags::NEWUSER)? {
        Cloned::Child => {
            drop(held);
            // Until the launcher lets go of the other end.
            rustix::io::read(&waiting, &mut [0_u8; 1]).ok();
            skep_linux::exit_now(0)
        }
        Cloned::Parent(child) => ChildGuard { child, kept: false },
    };
    let users = map_users(plan, host, child.child.pid)?;
    drop((child, held));
    Ok(users)
}

/// Mounts of the image, each at a place of its own in the staging directory.
struct Apart {
    /// Names in the image, places in the root, and paths.
    mounts: Vec<(String, String, PathBuf)>,
}

impl Apart {
    /// Copies the mounts that lie in the new root to places of their own, and takes them off it.
    fn set(
        root: &OwnedFd,
        restoration: &Restoration,
        own_files: &proc::OwnFiles,
    ) -> Result<Self, StepError> {
        let mut mounts = Vec::new();
        for (number, (key, point)) in restoration.mounts.iter().enumerate() {
            let copy;
            let mount = match own_files.mount_at(point) {
                Some(mount) => mount,
                None => {
                    copy = tree::copy_mount_itself(root.as_fd(), point)?;
                    copy.as_fd()
                }
            };
            let name = format!("m{number}");
            let is_directory =
                FileType::from_raw_mode(rustix::fs::fstat(mount)?.st_mode) == FileType::Directory;
            if is_directory {
                rustix::fs::mkdirat(CWD, &name, Mode::from_raw_mode(0o700))?;
            } else {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                rustix::fs::open(&name, flags, Mode::from_raw_mode(0o600))?;
            }
            tree::attach_at(mount, &name)?;
            mounts.push((key.clone(), point.clone(), Path::new(STAGING).join(name)));
        }
        for (_, point, _) in &mounts {
            let unmounted = tree::open_itself(root.as_fd(), point).and_then(|place| {
                let path = format!("/proc/self/fd/{}", place.as_raw_fd());
                rustix::mount::unmount(path, UnmountFlags::DETACH)
            });
            match unmounted {
                // It went with what it lies on, or was made apart. Below may be anything.
                Ok(()) | Err(Errno::INVAL | Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(error) => return Err(error).about(|| point.clone()),
            }
        }
        Ok(Self { mounts })
    }

    /// Puts back what was on memory file systems.
    fn fill(&self, launch: Launch<'_>, restoration: &Restoration) -> Result<(), StepError> {
        let (archive, points) = &restoration.archive;
        let archive = File::from(launch.descriptors.get(*archive)?.try_clone_to_owned()?);
        let mut opened = Vec::new();
        for point in points {
            let found = self.mounts.iter().find(|(_, known, _)| known == point);
            let (_, _, path) = found.ok_or(Errno::NOENT).about(|| point.clone())?;
            opened.push(criu::open(path, OFlags::RDONLY | OFlags::DIRECTORY)?);
        }
        let first = match launch.plan.users {
            Users::Host => 0,
            Users::Range { first, .. } => first,
        };
        let filled = skep_checkpoint::unpack(archive, &opened, first);
        filled.map_err(|error| StepError {
            errno: Errno::IO.raw_os_error(),
            thing: Some(error.to_string()),
        })
    }
}

/// A tree of processes for which everything is in place.
struct Tree<'a> {
    restoration: &'a Restoration,
    staged: &'a crate::Root,
    apart: &'a Apart,
    own_files: &'a proc::OwnFiles,
    pending_signals: pending_signals::Part,
}

impl Tree<'_> {
    fn restore(
        &self,
        launch: Launch<'_>,
        host: &HostProc,
        channel: &Channel,
    ) -> Result<ChildGuard, StepError> {
        let Self {
            restoration,
            staged,
            apart,
            own_files,
            pending_signals,
        } = *self;
        let tool = &restoration.tool;
        let template = open_template_files(staged, restoration)?;
        let cgroups = open_cgroup_files(launch, restoration)?;
        leave_keyring()?;
        let root = root::staged(staged).display().to_string();
        let mut arguments = skep_checkpoint::restore_arguments(&root, &tool.hook);
        for (key, _, path) in &apart.mounts {
            let external = format!("mnt[{key}]:{}", path.display());
            arguments.extend(["--external".into(), external]);
        }
        let mut passed: Vec<BorrowedFd<'_>> = Vec::new();
        let (mut template, mut cgroups) = (template.iter(), cgroups.iter());
        for (key, file) in &restoration.files {
            let number = criu::FIRST_PASSED + passed.len();
            // By a name without its first letter CRIU takes the descriptor itself. By the whole name it
            // opens the file once more, as a user inside, who may not do that with a cgroup.
            let (name, descriptor) = match file {
                RestoredFile::Open(file) => ("ile", launch.descriptors.get(*file)?),
                RestoredFile::Program(file) => ("file", launch.descriptors.get(*file)?),
                RestoredFile::MemoryInfo => {
                    let file = own_files.memory_info.as_ref();
                    let (file, _) = file.ok_or(Errno::NOENT).about(|| key.clone())?;
                    ("ile", file.as_fd())
                }
                RestoredFile::Template(path) => {
                    let opened = template.next().ok_or(Errno::NOENT).about(|| path.clone())?;
                    ("file", opened.as_fd())
                }
                RestoredFile::Cgroup { path, .. } => {
                    let opened = cgroups.next().ok_or(Errno::NOENT).about(|| path.clone())?;
                    ("ile", opened.as_fd())
                }
            };
            arguments.extend(["--inherit-fd".into(), format!("fd[{number}]:{name}[{key}]")]);
            passed.push(descriptor);
        }
        let mut first = None;
        let ended = criu::run(tool, &arguments, &passed, |stage, pid| match stage {
            "post-restore" => {
                first = hold(pid).ok();
                end_unless(first.is_some() && limit_namespaces(host, pid).is_ok(), pid)
            }
            "pre-resume" => {
                // The server is asked first: it has everything stand, whatever becomes of CRIU.
                let goes_on = criu::is_allowed(channel, Stage::Restored, pid)
                    && listeners::forget_sharing(host).is_ok()
                    && pending_signals.limit_tree(pid).is_ok();
                end_unless(goes_on, pid)
            }
            _ => Answer::Go,
        });
        if let (Err(_), Some(first)) = (&ended, &first) {
            // If CRIU was killed at the last stage, what it has let go of runs. It is the end of all of them, and is
            // not waited for: those who stand do not die before they are thawed.
            rustix::process::pidfd_send_signal(&first.pidfd, Signal::KILL).ok();
        }
        ended?;
        let child = first.ok_or(Errno::PROTO).about(|| "criu".into())?;
        Ok(ChildGuard { child, kept: false })
    }
}

/// Holds a process by a descriptor, so that its number cannot become another's.
fn hold(pid: i32) -> Result<Child, StepError> {
    let number = Pid::from_raw(pid).ok_or(Errno::SRCH)?;
    let pidfd = rustix::process::pidfd_open(number, PidfdFlags::empty())?;
    Ok(Child { pid, pidfd })
}

/// Ends what was restored unless it may go on. CRIU would let it run all the same at the last
/// stage, and if it is killed, so do those that it has stopped: the kernel lets go of them, and with
/// the first process the others die only when that has come to its end. So each has the signal
/// before CRIU has it, and dies where it stands.
fn end_unless(goes_on: bool, pid: i32) -> Answer {
    if goes_on {
        return Answer::Go;
    }
    // All of them stand, so none can make another meanwhile. If they cannot be listed, the first
    // takes them along.
    let tree = skep_checkpoint::tree_of(pid).unwrap_or_default();
    for pid in tree.into_iter().chain([pid]).filter_map(Pid::from_raw) {
        // It fails only if the process is gone.
        rustix::process::kill_process(pid, Signal::KILL).ok();
    }
    Answer::Die
}

/// Opens files of the bare layers, whatever the sandbox has put in their place. The current
/// directory is the staging directory, in which each layer has its number.
fn open_template_files(
    root: &crate::Root,
    restoration: &Restoration,
) -> Result<Vec<OwnedFd>, StepError> {
    let wanted: Vec<_> = restoration
        .files
        .iter()
        .filter_map(|(_, file)| match file {
            RestoredFile::Template(path) => Some(path),
            RestoredFile::Open(_)
            | RestoredFile::Program(_)
            | RestoredFile::MemoryInfo
            | RestoredFile::Cgroup { .. } => None,
        })
        .collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let directory = match root.layers.len() {
        1 => "0".to_owned(),
        count => {
            rustix::fs::mkdirat(CWD, TEMPLATE, Mode::from_raw_mode(0o700))?;
            let layers: Vec<_> = (0..count).rev().map(|number| number.to_string()).collect();
            let options = std::ffi::CString::new(format!("lowerdir={}", layers.join(":")))?;
            let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::RDONLY;
            rustix::mount::mount(c"overlay", TEMPLATE, c"overlay", flags, options.as_c_str())
                .about(|| TEMPLATE.into())?;
            TEMPLATE.to_owned()
        }
    };
    let bare = criu::open(Path::new(&directory), OFlags::PATH | OFlags::DIRECTORY)?;
    wanted
        .into_iter()
        .map(|path| tree::open_inside(bare.as_fd(), path, OFlags::RDONLY).about(|| path.clone()))
        .collect()
}

/// Opens files of the sandbox's groups, all of which are there now.
fn open_cgroup_files(
    launch: Launch<'_>,
    restoration: &Restoration,
) -> Result<Vec<OwnedFd>, StepError> {
    let mut opened = Vec::new();
    for (_, file) in &restoration.files {
        if let RestoredFile::Cgroup { path, flags } = file {
            let settings = launch
                .plan
                .cgroup_settings
                .as_ref()
                .ok_or(Errno::NOENT)
                .about(|| path.clone())?;
            let flags = OFlags::from_bits_retain(*flags);
            opened.push(settle::open(launch, settings, path, flags).about(|| path.clone())?);
        }
    }
    Ok(opened)
}

fn leave_keyring() -> Result<(), StepError> {
    match skep_linux::leave_session_keyring() {
        Ok(()) => Ok(()),
        // A kernel without keys has no keyring to leave.
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => Ok(()),
        Err(error) => Err(error).about(|| "session keyring".into()),
    }
}

/// Writes the limits of namespaces in the user namespace of a process, which CRIU leaves as the
/// kernel makes them.
fn limit_namespaces(host: &HostProc, pid: i32) -> Result<(), StepError> {
    let users = host.open_file(&format!("{pid}/ns/user"))?;
    // From within, because such files are those of whoever opens them; by a process of its own,
    // because nobody comes back from there.
    in_child::run(|| {
        move_into_link_name_space(users.as_fd(), Some(LinkNameSpaceType::User))?;
        inside::write_namespace_limits(host, true)
    })
}
