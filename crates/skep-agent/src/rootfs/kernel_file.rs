//! Files that the kernel makes up and the agent reads for itself.

use std::fs::File;
use std::io;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use skep_linux::open_resolved;

use super::{expect_regular, is_virtual, root};

/// Longest file of the kernel that is read.
const LONGEST: u64 = 1 << 20;

/// Reads a file of procfs, sysfs or a cgroup, whose path no caller has chosen. What somebody
/// may have put in its place is not read: with a file of another kind this fails.
pub(crate) fn kernel_file(path: &str) -> io::Result<String> {
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let file = open_resolved(root()?, path, OFlags::RDONLY, Mode::empty(), resolve)?;
    expect_regular(&file)?;
    if !is_virtual(&file)? {
        return Err(Errno::NODEV.into());
    }
    skep_linux::kernel_text(File::from(file), LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_kernel_makes_up_is_read() {
        assert!(kernel_file("/proc/meminfo").unwrap().contains("MemTotal"));
        let file = tempfile::NamedTempFile::new().unwrap();
        kernel_file(file.path().to_str().unwrap()).expect_err("an ordinary file");
    }
}
