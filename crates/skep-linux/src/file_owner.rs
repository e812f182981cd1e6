//! Making files as somebody else.

use std::io;

/// Runs `work` with files being made as this user and group, with the same capabilities.
///
/// Moves only this thread. Used where a file has to belong to an id that root itself cannot
/// write, because the filesystem is mapped to a range without it.
///
/// # Errors
///
/// The error of `work`, or `EPERM` if this process may not become that user.
pub fn as_file_owner<T>(
    user: u32,
    group: u32,
    work: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let capabilities = rustix::thread::capabilities(None)?;
    let previous_group = set_group(group);
    let previous_user = set_user(user);
    // Asking for an id that cannot exist changes nothing and answers with the present one.
    let became = set_user(u32::MAX) == user && set_group(u32::MAX) == group;
    let result = if became {
        // The kernel takes some capabilities from whoever stops being root for files.
        rustix::thread::set_capabilities(None, capabilities)
            .map_err(io::Error::from)
            .and_then(|()| work())
    } else {
        Err(rustix::io::Errno::PERM.into())
    };
    set_user(previous_user);
    set_group(previous_group);
    result
}

fn set_user(user: u32) -> u32 {
    // SAFETY: `setfsuid` takes no pointer.
    let previous = unsafe { libc::setfsuid(user) };
    previous.cast_unsigned()
}

fn set_group(group: u32) -> u32 {
    // SAFETY: `setfsgid` takes no pointer.
    let previous = unsafe { libc::setfsgid(group) };
    previous.cast_unsigned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_file_made_inside_belongs_to_the_owner_and_the_next_to_us_again() {
        // A directory that only root may write to: its capabilities stay.
        let directory = tempfile::tempdir().unwrap();
        let theirs = directory.path().join("theirs");
        as_file_owner(1234, 4321, || std::fs::write(&theirs, "")).unwrap();
        let metadata = std::fs::metadata(&theirs).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (1234, 4321));

        let ours = directory.path().join("ours");
        std::fs::write(&ours, "").unwrap();
        assert_eq!(std::fs::metadata(&ours).unwrap().uid(), 0);
    }
}
