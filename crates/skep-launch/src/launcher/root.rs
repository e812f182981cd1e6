//! The new root: layers, a writable top, and the system's own directories.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, MountFlags, UnmountFlags};

use super::tree::{self, FsOption};
use crate::step_error::{About, StepError};
use crate::step_runner::{Failure, StepRunner};
use crate::{Defence, Descriptors, LaunchPlan, Root, Step, Top, Users};

/// Parts of `/sys` that programs look for. Everything else there is about the host: its devices,
/// its disks with their files' names, its firmware.
const SYSTEM_PARTS: [&str; 6] = [
    "devices/system/cpu",
    "devices/system/node",
    "devices/virtual/net",
    "class/net",
    "kernel/mm/transparent_hugepage",
    "kernel/mm/hugepages",
];

/// A directory of the new root in which nothing is, nor ever will be.
pub(super) const EMPTY_DIRECTORY: &str = "/sys/fs/cgroup";

/// Puts the root together and returns it. The current directory is the staging directory
/// afterwards, until [`pivot`].
pub(super) fn build(
    root: &Root,
    owner: Users,
    users: Option<&OwnedFd>,
    descriptors: &Descriptors,
    steps: &mut StepRunner,
) -> Result<OwnedFd, Failure> {
    let users = users.map(AsFd::as_fd);
    steps.run(Step::MountImage, || {
        stage(root)?;
        mount_top(root, users, descriptors)
    })?;
    steps.run(Step::MapLayers, || {
        map_layers(root, users)?;
        map_lower_disks(root, users, descriptors)
    })?;
    steps.run(Step::MountOverlay, || mount_overlay(root, owner))
}

/// A small filesystem of the launcher's own, so that everything has a short name.
fn stage(root: &Root) -> Result<(), StepError> {
    let staging = tree::new_mount(
        "tmpfs",
        &[
            FsOption::Value("size", "64k".into()),
            FsOption::Value("nr_inodes", "1024".into()),
            FsOption::Value("mode", "755".into()),
        ],
        MountAttrFlags::empty(),
    )?;
    let place = rustix::fs::open(
        &root.staging,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )
    .about(|| root.staging.display().to_string())?;
    tree::attach(staging.as_fd(), place.as_fd()).about(|| root.staging.display().to_string())?;
    rustix::process::fchdir(&staging)?;
    for name in ["top", "root", "sys"] {
        make_directory(CWD, name)?;
    }
    Ok(())
}

/// Mounts what holds the changes at `top`.
fn mount_top(
    root: &Root,
    users: Option<BorrowedFd<'_>>,
    descriptors: &Descriptors,
) -> Result<(), StepError> {
    let mount = match &root.top {
        Top::Directories { upper, work } => {
            // Both have to be on one mount to be an overlay's top, so it is their parent's.
            let parent = upper
                .parent()
                .filter(|parent| work.parent() == Some(parent))
                .ok_or(Errno::XDEV)
                .about(|| upper.display().to_string())?;
            tree::copy_mount(CWD, parent)?
        }
        Top::Image(path) => {
            skep_linux::mount_overlay_disk(path).about(|| path.display().to_string())?
        }
        Top::Mounted(mount) | Top::MountedForLayer(mount) => {
            descriptors.get(*mount)?.try_clone_to_owned()?
        }
    };
    if let Some(users) = users {
        skep_linux::map_ids(mount.as_fd(), users).about(|| "top".into())?;
    }
    tree::attach_at(mount.as_fd(), "top")
}

/// Attaches every layer under its number.
fn map_layers(root: &Root, users: Option<BorrowedFd<'_>>) -> Result<(), StepError> {
    for (number, layer) in root.layers.iter().enumerate() {
        let mount = tree::copy_mount(CWD, layer)?;
        if let Some(users) = users {
            // The kernel maps the ids only of a mount that is attached nowhere yet.
            skep_linux::map_ids(mount.as_fd(), users).about(|| layer.display().to_string())?;
        }
        skep_linux::add_mount_attributes(mount.as_fd(), libc::MOUNT_ATTR_RDONLY)?;
        let name = number.to_string();
        make_directory(CWD, &name)?;
        tree::attach_at(mount.as_fd(), &name)?;
    }
    Ok(())
}

/// Attaches every disk below the top under a name of its own.
fn map_lower_disks(
    root: &Root,
    users: Option<BorrowedFd<'_>>,
    descriptors: &Descriptors,
) -> Result<(), StepError> {
    for (number, disk) in root.below.iter().enumerate() {
        let mount = descriptors.get(*disk)?;
        let name = lower_disk(number);
        if let Some(users) = users {
            skep_linux::map_ids(mount, users).about(|| name.clone())?;
        }
        make_directory(CWD, &name)?;
        tree::attach_at(mount, &name)?;
    }
    Ok(())
}

fn lower_disk(number: usize) -> String {
    format!("below-{number}")
}

fn mount_overlay(root: &Root, owner: Users) -> Result<OwnedFd, StepError> {
    // An overlay names the highest layer first, a plan the lowest.
    let disks = (0..root.below.len())
        .rev()
        .map(|number| format!("{}/{}", lower_disk(number), skep_linux::UPPER));
    let layers = (0..root.layers.len())
        .rev()
        .map(|number| number.to_string());
    let layers: Vec<_> = disks.chain(layers).collect();
    let top = |path: &std::path::Path| -> Result<String, StepError> {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or(Errno::INVAL)
            .about(|| path.display().to_string())?;
        Ok(format!("top/{name}"))
    };
    let disk = |name: &str| format!("top/{name}");
    let (upper, work, redirects) = match &root.top {
        Top::Image(_) | Top::Mounted(_) => (disk(skep_linux::UPPER), disk(skep_linux::WORK), "on"),
        // The changes will be a layer themselves, and a layer must be readable by its own.
        Top::MountedForLayer(_) => (disk(skep_linux::UPPER), disk(skep_linux::WORK), "off"),
        Top::Directories { upper, work } => (top(upper)?, top(work)?, "off"),
    };
    // Nothing of a sandbox is expected to survive a crash of the host, so nothing waits
    // for the disk.
    let options = format!(
        "lowerdir={},upperdir={upper},workdir={work},redirect_dir={redirects},index=off,metacopy=off,volatile",
        layers.join(":"),
    );
    let options = std::ffi::CString::new(options)?;
    // The older call, because a value of the newer one is too short for many layers.
    // What mounts it is who writes to the top ever after, and on a mapped one root of the
    // host is nobody.
    tree::as_owner(owner, || {
        rustix::mount::mount(
            c"overlay",
            c"root",
            c"overlay",
            MountFlags::NODEV,
            options.as_c_str(),
        )?;
        Ok(())
    })?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open("root", flags, Mode::empty())?)
}

/// Mounts `/run` and `/sys`.
pub(super) fn mount_system(root: &OwnedFd, plan: &LaunchPlan) -> Result<(), StepError> {
    if let Some(bytes) = plan.run_bytes {
        let run = memory_mount(bytes, "755", plan.users)?;
        let lock = "lock";
        tree::as_owner(plan.users, || {
            let mode = Mode::from_raw_mode(0o1777);
            Ok(rustix::fs::mkdirat(&run, lock, mode)?)
        })?;
        let place = tree::ensure_directory_itself(root.as_fd(), "/run", plan.users)?;
        tree::attach(run.as_fd(), place.as_fd())?;
    }
    // It shows the interfaces of the network namespace in which it is mounted: the sandbox's, where
    // the launcher is by now.
    let system = tree::new_mount("sysfs", &[], locked_down())?;
    tree::attach_at(system.as_fd(), "sys")?;
    if !plan.has(Defence::MinimalSys) {
        let place = tree::ensure_directory_itself(root.as_fd(), "/sys", plan.users)?;
        let whole = tree::copy_mount(CWD, "sys")?;
        return tree::attach(whole.as_fd(), place.as_fd());
    }
    let view = memory_mount(64 << 10, "755", plan.users)?;
    let place = tree::ensure_directory_itself(root.as_fd(), "/sys", plan.users)?;
    tree::attach(view.as_fd(), place.as_fd())?;
    for part in SYSTEM_PARTS {
        let Ok(mount) = tree::copy_mount(system.as_fd(), part) else {
            // Kernels are built without one or the other.
            continue;
        };
        let place = tree::ensure_directory(view.as_fd(), &format!("/{part}"), plan.users)?;
        tree::attach(mount.as_fd(), place.as_fd()).about(|| part.into())?;
    }
    let (_, empty) = EMPTY_DIRECTORY.split_at("/sys".len());
    tree::ensure_directory(view.as_fd(), empty, plan.users)?;
    skep_linux::add_mount_attributes(
        view.as_fd(),
        libc::MOUNT_ATTR_RDONLY
            | libc::MOUNT_ATTR_NOSUID
            | libc::MOUNT_ATTR_NODEV
            | libc::MOUNT_ATTR_NOEXEC,
    )?;
    Ok(())
}

/// A filesystem in memory that belongs to root of the new users.
pub(super) fn memory_mount(bytes: u64, mode: &str, users: Users) -> Result<OwnedFd, StepError> {
    let owner = match users {
        Users::Host => 0,
        Users::Range { first, .. } => first,
    };
    tree::new_mount(
        "tmpfs",
        &[
            FsOption::Value("size", bytes.to_string()),
            FsOption::Value("mode", mode.into()),
            FsOption::Value("uid", owner.to_string()),
            FsOption::Value("gid", owner.to_string()),
        ],
        MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV,
    )
}

pub(super) fn locked_down() -> MountAttrFlags {
    MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC
}

/// Returns the path of the new root until it is the root.
pub(super) fn staged(root: &Root) -> std::path::PathBuf {
    root.staging.join("root")
}

/// Makes the new root the root, and lets go of the host's.
pub(super) fn pivot(root: &OwnedFd, plan: &LaunchPlan) -> Result<(), StepError> {
    rustix::process::fchdir(root)?;
    if !plan.has(Defence::OwnRoot) {
        rustix::process::chroot(".")?;
        return Ok(());
    }
    rustix::process::pivot_root(".", ".")?;
    // The old root lies on top of the new one now, and the current directory is in it.
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}

/// Makes a directory that everybody may enter, whatever the umask is: the server makes some, too,
/// and its umask is for its own files.
fn make_directory(directory: BorrowedFd<'_>, name: &str) -> Result<(), StepError> {
    let mode = Mode::from_raw_mode(0o755);
    let made = match rustix::fs::mkdirat(directory, name, mode) {
        Ok(()) => rustix::fs::chmodat(directory, name, mode, AtFlags::empty()),
        Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    };
    made.about(|| name.into())
}
