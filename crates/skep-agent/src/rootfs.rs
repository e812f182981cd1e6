//! The sandbox's files: the only module of the agent that hands a path to the kernel.
//!
//! The agent works on these files with root's rights, while code in the sandbox may change any
//! of them at any moment. Three rules keep it from being led astray:
//!
//! * **A path is resolved once, by `openat2`, beneath the sandbox's root and never through a
//!   magic link.** Links of procfs lead into descriptors and namespaces instead of to a name,
//!   and the agent has descriptors that lead out: those of its cgroups. Ordinary links work;
//!   they decide only where inside the sandbox a path ends up.
//! * **What follows is done to the descriptor, or to a single name in a directory that is held
//!   open** ([`Directory`], [`Location`]). A [`Name`] has no slash, and no call here follows a
//!   link in its last step, so nobody can swap a directory between a look and a deed.
//! * **Some files are refused whatever the way to them**: those of cgroup file systems, and the
//!   agent's own entries in procfs, which hold its memory and its descriptors.
//!
//! Some calls of the kernel take a path and nothing else: reading a descriptor's name, watching,
//! reading the attributes of a file that is not open, opening a device anew. They are given
//! `/proc/self/fd/<number>`, here and nowhere else, with the number of a descriptor that was
//! checked. `cargo xtask tidy` finds calls with a path in the rest of the crate.

mod directory;
mod entries;
mod kernel_file;
mod location;
mod name;
mod refuse;
mod remove;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use rustix::fs::inotify::{WatchFlags, add_watch};
use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, Stat, StatVfs, fstat, fstatvfs, major, minor,
    readlink,
};
use rustix::io::Errno;
use skep_linux::open_resolved;

pub(crate) use directory::Directory;
pub(crate) use entries::Entry;
pub(crate) use kernel_file::kernel_file;
pub(crate) use location::Location;
pub(crate) use name::Name;
pub(crate) use refuse::{filesystem_magic, is_virtual};

use refuse::{FileSystem, refuse};

/// Descriptors opened before untrusted code runs and held from then on.
#[derive(Debug)]
struct Held {
    root: OwnedFd,
    /// The agent's own threads, in procfs.
    threads: OwnedFd,
    null: OwnedFd,
}

/// Opens what this module works with. To be called before untrusted code runs.
pub(crate) fn hold() -> io::Result<()> {
    held().map(drop)
}

fn held() -> io::Result<&'static Held> {
    static HELD: OnceLock<Held> = OnceLock::new();
    if let Some(held) = HELD.get() {
        return Ok(held);
    }
    let open = |path, flags| {
        let flags = OFlags::PATH | OFlags::CLOEXEC | flags;
        rustix::fs::openat(CWD, path, flags, Mode::empty())
    };
    let opened = Held {
        root: open("/", OFlags::DIRECTORY)?,
        threads: open("/proc/self/task", OFlags::DIRECTORY)?,
        null: open("/dev/null", OFlags::empty())?,
    };
    Ok(HELD.get_or_init(|| opened))
}

fn root() -> io::Result<BorrowedFd<'static>> {
    Ok(held()?.root.as_fd())
}

/// Opens what a path of a caller means, never waiting for a pipe's other end.
pub(crate) fn open(
    path: impl rustix::path::Arg + Copy,
    flags: OFlags,
    mode: Mode,
) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    admit(open_resolved(root()?, path, flags, mode, resolve)?, flags)
}

/// Refuses an open file that must not be had, whatever the way to it.
///
/// Files of procfs are opened a second time. An entry of one of the agent's threads is known by
/// the thread, and that may end between the first opening, which has hold of the agent's memory
/// then, and the look. After the look it is too late: entries of dead threads cannot be opened.
fn admit(file: OwnedFd, flags: OFlags) -> io::Result<OwnedFd> {
    match refuse(file.as_fd())? {
        FileSystem::Proc if !flags.contains(OFlags::PATH) => reopen(&file, flags),
        FileSystem::Proc | FileSystem::Ordinary => Ok(file),
    }
}

fn reopen(file: &OwnedFd, flags: OFlags) -> io::Result<OwnedFd> {
    // These are about names, and there is none to be followed or made any more.
    let named = OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::TRUNC;
    let flags = flags.difference(named) | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let path = descriptor_path(file.as_fd());
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

/// Opens a file for reading, and nothing but a file.
pub(crate) fn regular_for_reading(path: impl rustix::path::Arg + Copy) -> io::Result<File> {
    let file = open(path, OFlags::RDONLY, Mode::empty())?;
    expect_regular(&file)?;
    Ok(File::from(file))
}

/// Opens the device that swallows everything and holds nothing: the one that was there before
/// untrusted code ran, whatever has its name now.
pub(crate) fn null_device(flags: OFlags) -> io::Result<OwnedFd> {
    let path = descriptor_path(held()?.null.as_fd());
    Ok(rustix::fs::openat(
        CWD,
        path,
        flags | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

/// Opens the terminal multiplexer, of which every sandbox has its own.
pub(crate) fn terminal_multiplexer() -> io::Result<OwnedFd> {
    const NUMBER: (u32, u32) = (5, 2);
    let file = open("/dev/ptmx", OFlags::RDWR, Mode::empty())?;
    let stat = fstat(&file)?;
    let number = (major(stat.st_rdev), minor(stat.st_rdev));
    if FileType::from_raw_mode(stat.st_mode).is_char_device() && number == NUMBER {
        Ok(file)
    } else {
        Err(Errno::NODEV.into())
    }
}

/// Returns the type of the file that a path leads to.
pub(crate) fn kind_of(path: &str) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(stat(path)?.st_mode))
}

/// Returns the kernel's `stat` of the file that a path leads to.
pub(crate) fn stat(path: impl rustix::path::Arg + Copy) -> io::Result<Stat> {
    Ok(fstat(open(path, OFlags::PATH, Mode::empty())?)?)
}

/// Refuses what is not a plain file, as the kernel would: `EISDIR` for a directory, `ENXIO` for
/// what a pipe without a reader answers too.
pub(crate) fn expect_regular(file: &OwnedFd) -> io::Result<()> {
    match FileType::from_raw_mode(fstat(file)?.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => Err(Errno::NXIO.into()),
    }
}

/// The absolute path by which the kernel knows an open file.
pub(crate) fn name_of(file: impl AsFd) -> io::Result<String> {
    let name = readlink(descriptor_path(file.as_fd()), Vec::new())?;
    Ok(name.to_string_lossy().into_owned())
}

/// Returns the usage of the sandbox's disk.
pub(crate) fn disk_usage() -> io::Result<StatVfs> {
    Ok(fstatvfs(root()?)?)
}

/// Has the kernel note who opens a file that is open here.
pub(crate) fn watch_openings(queue: &OwnedFd, file: BorrowedFd<'_>) -> io::Result<()> {
    add_watch(queue, descriptor_path(file), WatchFlags::OPEN)?;
    Ok(())
}

/// The path that leads to an open descriptor of this process, for calls that take only paths.
fn descriptor_path(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

#[cfg(test)]
mod tests;
