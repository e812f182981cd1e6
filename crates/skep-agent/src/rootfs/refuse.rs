//! Files that are refused whatever the way to them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, fstatfs, statat};
use rustix::io::Errno;

use super::{held, name_of};

const PROC_SUPER_MAGIC: u64 = 0x9fa0;
const SYSFS_MAGIC: u64 = 0x6265_6572;
/// Magic numbers of cgroup v1 and v2.
const CGROUP_MAGICS: [u64; 2] = [0x0027_e0eb, 0x6367_7270];

/// The file systems that are looked at twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileSystem {
    Ordinary,
    Proc,
}

/// Refuses, with `EACCES`, what is on a cgroup file system or belongs to the agent's process.
/// Answers what kind of file system it is else.
pub(super) fn refuse(file: BorrowedFd<'_>) -> io::Result<FileSystem> {
    let magic = filesystem_magic(file)?;
    if CGROUP_MAGICS.contains(&magic) {
        return Err(Errno::ACCESS.into());
    }
    if magic != PROC_SUPER_MAGIC {
        return Ok(FileSystem::Ordinary);
    }
    if is_own(&name_of(file)?)? {
        return Err(Errno::ACCESS.into());
    }
    Ok(FileSystem::Proc)
}

/// Returns true if a file of procfs belongs to the agent, by its path. A thread has an entry of its
/// own that is not listed but can be opened.
fn is_own(path: &str) -> io::Result<bool> {
    let process = match path.strip_prefix("/proc/") {
        Some(below) => below.split('/').next(),
        // Mounted elsewhere: which step is the process cannot be told.
        None => path.split('/').find(|step| is_number(step)),
    };
    match process.filter(|step| is_number(step)) {
        Some(number) => is_thread_of_ours(number),
        None => Ok(false),
    }
}

fn is_number(step: &str) -> bool {
    !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_thread_of_ours(number: &str) -> io::Result<bool> {
    match statat(&held()?.threads, number, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Returns true if a name in the root of procfs is a link to the agent's own entry there.
pub(super) fn is_link_to_self(name: &[u8]) -> bool {
    matches!(name, b"self" | b"thread-self")
}

/// The number by which the kernel knows a kind of file system.
pub(crate) fn filesystem_magic(file: impl AsFd) -> io::Result<u64> {
    #[expect(clippy::cast_sign_loss, reason = "a magic number is a bit pattern")]
    let magic = fstatfs(file)?.f_type as u64;
    // Some architectures give the field a sign, which fills the upper half.
    Ok(magic & 0xffff_ffff)
}

/// Returns true if a file is made up by the kernel, like those of `/proc`.
pub(crate) fn is_virtual(file: impl AsFd) -> io::Result<bool> {
    let magic = filesystem_magic(file)?;
    Ok(magic == PROC_SUPER_MAGIC || magic == SYSFS_MAGIC || CGROUP_MAGICS.contains(&magic))
}
