//! Opening files of the sandbox without being led astray by it.
//!
//! The agent works on the sandbox's files with root's rights, so a link decides only where
//! inside the sandbox it ends up. Three things are refused: links of procfs that lead into
//! descriptors and namespaces instead of to a name; the agent's own entries in procfs, which
//! hold its memory; and everything that is neither file nor directory, because a pipe or a
//! device can make a reader wait for ever.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, fstatfs, openat2, readlink};
use rustix::io::Errno;

const PROC_SUPER_MAGIC: u64 = 0x9fa0;
const SYSFS_MAGIC: u64 = 0x6265_6572;
const CGROUP_MAGICS: [u64; 2] = [0x0027_e0eb, 0x6367_7270];

/// The kernel asks for another try when the tree changes under a guarded walk.
const ATTEMPTS: usize = 64;

/// Opens whatever is there, never waiting for a pipe's other end.
pub(crate) fn open(path: impl AsRef<Path>, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    // With O_PATH the kernel refuses flags that mean nothing for it.
    let flags = if flags.contains(OFlags::PATH) {
        flags - OFlags::NOCTTY - OFlags::NONBLOCK
    } else {
        flags
    };
    let mut answer = Err(Errno::AGAIN);
    for _ in 0..ATTEMPTS {
        answer = openat2(CWD, path.as_ref(), flags, mode, ResolveFlags::NO_MAGICLINKS);
        if !matches!(answer, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    Ok(answer?)
}

/// Opens a file for reading, and nothing but a file.
pub(crate) fn regular_for_reading(path: impl AsRef<Path>) -> io::Result<File> {
    let file = open(path, OFlags::RDONLY, Mode::empty())?;
    expect_regular(&file)?;
    Ok(File::from(file))
}

/// Refuses what is not a plain file, as the kernel would: `EISDIR` for a directory, `ENXIO` for
/// what a pipe without a reader answers too, `EACCES` for the agent's own entries in procfs.
pub(crate) fn expect_regular(file: &OwnedFd) -> io::Result<()> {
    match FileType::from_raw_mode(fstat(file)?.st_mode) {
        FileType::RegularFile => refuse_own_process(file),
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
    let link = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(readlink(link, Vec::new())?.to_string_lossy().into_owned())
}

/// The number by which the kernel knows a kind of filesystem.
pub(crate) fn filesystem_magic(file: impl AsFd) -> io::Result<u64> {
    #[expect(clippy::cast_sign_loss, reason = "a magic number is a bit pattern")]
    let magic = fstatfs(file)?.f_type as u64;
    // Some architectures give the field a sign, which fills the upper half.
    Ok(magic & 0xffff_ffff)
}

/// Whether a file is made up by the kernel, like those of `/proc`.
pub(crate) fn is_virtual(file: impl AsFd) -> io::Result<bool> {
    let magic = filesystem_magic(file)?;
    Ok(magic == PROC_SUPER_MAGIC || magic == SYSFS_MAGIC || CGROUP_MAGICS.contains(&magic))
}

fn refuse_own_process(file: &OwnedFd) -> io::Result<()> {
    if filesystem_magic(file)? != PROC_SUPER_MAGIC {
        return Ok(());
    }
    // A thread has an entry of its own that is not listed but can be opened.
    let own = name_of(file)?.split('/').any(|part| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_digit())
            && Path::new("/proc/self/task").join(part).exists()
    });
    if own {
        Err(Errno::ACCESS.into())
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: Errno) {
        let error = regular_for_reading(path).expect_err(path);
        assert_eq!(Errno::from_io_error(&error), Some(expected), "{path}");
    }

    #[test]
    fn the_agents_own_process_entries_are_refused() {
        let pid = std::process::id();
        let thread = rustix::thread::gettid().as_raw_nonzero();
        for path in [
            "/proc/self/mem".to_owned(),
            "/proc/thread-self/mem".to_owned(),
            format!("/proc/{pid}/environ"),
            format!("/proc/{thread}/maps"),
            format!("/proc/1/../{pid}/maps"),
        ] {
            check(&path, Errno::ACCESS);
        }
        regular_for_reading("/proc/1/status").unwrap();
        regular_for_reading("/proc/meminfo").unwrap();
    }

    #[test]
    fn links_into_descriptors_are_not_followed() {
        for path in [
            "/proc/self/fd/0",
            "/proc/self/root/etc/passwd",
            "/dev/stdin",
        ] {
            check(path, Errno::LOOP);
        }
    }

    #[test]
    fn devices_and_directories_are_no_files() {
        check("/dev/null", Errno::NXIO);
        check("/", Errno::ISDIR);
    }
}
