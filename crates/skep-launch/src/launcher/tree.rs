//! Mounts, and places in a root that nobody has checked.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags};

use crate::step_error::{About, StepError};
use crate::{Bind, Users};

/// One option of a filesystem.
#[derive(Debug, Clone)]
pub(super) enum FsOption<'a> {
    Flag(&'a str),
    Value(&'a str, String),
    File(&'a str, BorrowedFd<'a>),
}

/// Makes a filesystem that is mounted nowhere yet.
pub(super) fn new_mount(
    filesystem: &str,
    options: &[FsOption<'_>],
    attributes: MountAttrFlags,
) -> Result<OwnedFd, StepError> {
    let context = rustix::mount::fsopen(filesystem, FsOpenFlags::FSOPEN_CLOEXEC)
        .about(|| filesystem.into())?;
    for option in options {
        match option {
            FsOption::Flag(name) => rustix::mount::fsconfig_set_flag(context.as_fd(), *name)
                .about(|| format!("{filesystem} {name}"))?,
            FsOption::Value(name, value) => {
                rustix::mount::fsconfig_set_string(context.as_fd(), *name, value.as_str())
                    .about(|| format!("{filesystem} {name}={value}"))?;
            }
            FsOption::File(name, file) => {
                rustix::mount::fsconfig_set_fd(context.as_fd(), *name, *file)
                    .about(|| format!("{filesystem} {name}"))?;
            }
        }
    }
    rustix::mount::fsconfig_create(context.as_fd()).about(|| filesystem.into())?;
    rustix::mount::fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
        .about(|| filesystem.into())
}

/// A copy of what is mounted at `path`, mounted nowhere yet.
pub(super) fn copy_mount(
    directory: BorrowedFd<'_>,
    path: impl AsRef<Path>,
) -> Result<OwnedFd, StepError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    rustix::mount::open_tree(directory, path.as_ref(), flags)
        .about(|| path.as_ref().display().to_string())
}

/// A copy of what is mounted at a path of a root in which somebody else may change links.
pub(super) fn copy_mount_itself(root: BorrowedFd<'_>, path: &str) -> Result<OwnedFd, StepError> {
    let place = open_itself(root, path).about(|| path.into())?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    rustix::mount::open_tree(&place, c"", flags).about(|| path.into())
}

/// Mounts at a path below a directory of a filesystem that the kernel itself has filled. False
/// if there is nothing at that path.
pub(super) fn attach_if_there(
    mount: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    path: &str,
) -> Result<bool, StepError> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    match rustix::mount::move_mount(mount, c"", directory, path, flags) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error).about(|| path.into()),
    }
}

/// Mounts at an open place.
pub(super) fn attach(mount: BorrowedFd<'_>, place: BorrowedFd<'_>) -> Result<(), StepError> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    rustix::mount::move_mount(mount, c"", place, c"", flags)?;
    Ok(())
}

/// Mounts at a path that the launcher itself has made.
pub(super) fn attach_at(mount: BorrowedFd<'_>, path: &str) -> Result<(), StepError> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(mount, c"", CWD, path, flags).about(|| path.into())?;
    Ok(())
}

/// Opens a place in a root that nobody has checked: symlinks stay inside, and none of those in
/// `/proc` that lead to somebody's descriptors are followed.
pub(super) fn open_inside(
    root: BorrowedFd<'_>,
    path: &str,
    flags: OFlags,
) -> rustix::io::Result<OwnedFd> {
    skep_linux::retry_openat2(
        root,
        path,
        flags | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Opens a place of a root in which somebody else may change links: none is followed.
pub(super) fn open_itself(root: BorrowedFd<'_>, path: &str) -> rustix::io::Result<OwnedFd> {
    skep_linux::retry_openat2(
        root,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS,
    )
}

/// Opens a file of this process's own root in the same way.
pub(super) fn open_file_itself(path: &str, flags: OFlags) -> Result<OwnedFd, StepError> {
    let resolve = ResolveFlags::NO_SYMLINKS;
    skep_linux::retry_openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
        .about(|| path.into())
}

/// Opens a directory inside a root, and makes it and those above if they are missing.
pub(super) fn ensure_directory(
    root: BorrowedFd<'_>,
    path: &str,
    users: Users,
) -> Result<OwnedFd, StepError> {
    let flags = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    ensure(root, path, users, flags)
}

/// The same, but fails with `ELOOP` where a link is on the way, which could lead to a place that the
/// path does not name.
pub(super) fn ensure_directory_itself(
    root: BorrowedFd<'_>,
    path: &str,
    users: Users,
) -> Result<OwnedFd, StepError> {
    let flags = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    // Whatever directory fails, it is this path that was asked for.
    ensure(root, path, users, flags).about(|| path.into())
}

fn ensure(
    root: BorrowedFd<'_>,
    path: &str,
    users: Users,
    resolve: ResolveFlags,
) -> Result<OwnedFd, StepError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = |path: &str| skep_linux::retry_openat2(root, path, flags, Mode::empty(), resolve);
    match open(path) {
        Ok(directory) => return Ok(directory),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error).about(|| path.into()),
    }
    let (parent, name) = split(path)?;
    let parent = ensure(root, parent, users, resolve)?;
    as_owner(users, || {
        let mode = Mode::from_raw_mode(0o755);
        Ok(rustix::fs::mkdirat(&parent, name, mode)?)
    })
    .about(|| path.into())?;
    open(path).about(|| path.into())
}

/// Runs `work` as root of the new users, to whom what it makes will belong.
pub(super) fn as_owner<T>(users: Users, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    match users {
        Users::Host => work(),
        Users::Range { first, .. } => skep_linux::as_file_owner(first, first, work),
    }
}

/// Splits an absolute path into the directory and the last name.
pub(super) fn split(path: &str) -> Result<(&str, &str), StepError> {
    let (parent, name) = path
        .trim_end_matches('/')
        .rsplit_once('/')
        .filter(|(_, name)| !name.is_empty() && *name != "." && *name != "..")
        .ok_or(Errno::INVAL)
        .about(|| path.into())?;
    Ok((if parent.is_empty() { "/" } else { parent }, name))
}

/// Makes a file or directory of the host appear in the root.
pub(super) fn bind(root: &OwnedFd, bind: &Bind, users: Users) -> Result<(), StepError> {
    let mount = copy_mount(CWD, &bind.source)?;
    let mut attributes = libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    if !bind.writable {
        attributes |= libc::MOUNT_ATTR_RDONLY;
    }
    skep_linux::add_mount_attributes(mount.as_fd(), attributes)?;
    let metadata = rustix::fs::fstat(&mount)?;
    let place = if FileType::from_raw_mode(metadata.st_mode) == FileType::Directory {
        ensure_directory(root.as_fd(), &bind.target, users)?
    } else {
        ensure_file(root.as_fd(), &bind.target, users)?
    };
    attach(mount.as_fd(), place.as_fd()).about(|| bind.target.clone())
}

fn ensure_file(root: BorrowedFd<'_>, path: &str, users: Users) -> Result<OwnedFd, StepError> {
    match open_inside(root, path, OFlags::PATH) {
        Ok(file) => return Ok(file),
        Err(Errno::NOENT) => {}
        Err(error) => return Err(error).about(|| path.into()),
    }
    let (parent, name) = split(path)?;
    let parent = ensure_directory(root, parent, users)?;
    as_owner(users, || {
        // What is there leads nowhere, or the file would have been found.
        match rustix::fs::unlinkat(&parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644))?;
        Ok(())
    })
    .about(|| path.into())?;
    open_inside(root, path, OFlags::PATH).about(|| path.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_into_a_directory_and_a_name() {
        assert_eq!(split("/etc/hosts").unwrap(), ("/etc", "hosts"));
        assert_eq!(split("/etc").unwrap(), ("/", "etc"));
        assert_eq!(split("/a/b/").unwrap(), ("/a", "b"));
        for path in ["", "/", "name", "/..", "/a/..", "/."] {
            assert!(split(path).is_err(), "{path}");
        }
    }
}
