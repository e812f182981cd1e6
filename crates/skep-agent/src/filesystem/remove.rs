//! Removing whole trees.
//!
//! The tree may be as deep as somebody liked to make it, and somebody may move its parts while
//! it is being removed. So the walk holds descriptors and never climbs by `..`; and below a
//! certain depth it moves what it finds up to the top instead of going on, so that neither the
//! stack nor the descriptors run out.

use std::ffi::CString;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::FileError;
use crate::path;

/// How many directories are held open.
const MAX_DEPTH: usize = 32;

/// How often a directory may turn out not to be empty, because somebody writes into it.
const PATIENCE: usize = 100;

/// Removes `path` and everything below it. What does not exist is removed already.
pub(crate) fn remove(path: &str) -> Result<(), FileError> {
    let failed = |errno: Errno| FileError::io("remove", path, errno.into());
    // The kernel would refuse these too, but only after everything in them is gone.
    if path::clean(path) == "/" || matches!(path::base_name(path), "." | "..") {
        return Err(failed(Errno::INVAL));
    }
    let trimmed = if path.len() > 1 {
        path.trim_end_matches('/')
    } else {
        path
    };
    match unlinkat(CWD, trimmed, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        // Linux says EISDIR, POSIX allows EPERM.
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(failed(errno)),
    }
    let root = match open_directory(CWD, trimmed) {
        Ok(root) => root,
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    };
    empty(root).map_err(failed)?;
    match unlinkat(CWD, trimmed, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed(errno)),
    }
}

fn open_directory<F: std::os::fd::AsFd, P: rustix::path::Arg>(
    parent: F,
    name: P,
) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat2(
        parent,
        name,
        flags,
        Mode::empty(),
        ResolveFlags::NO_MAGICLINKS,
    )
}

/// One directory on the way down, and its name in the one above.
struct Level {
    directory: Dir,
    name: CString,
}

/// Removes what is in `root`, and leaves it empty for its caller.
fn empty(root: OwnedFd) -> Result<(), Errno> {
    let root = Dir::new(root)?;
    let mut way = vec![Level {
        directory: root,
        name: CString::default(),
    }];
    let mut lifted: u64 = 0;
    let mut patience = PATIENCE;
    while let Some(mut level) = way.pop() {
        match next_directory(&mut level.directory)? {
            Some(name) if way.len() < MAX_DEPTH => {
                let entered = open_directory(level.directory.fd()?, &name);
                way.push(level);
                match entered {
                    Ok(directory) => way.push(Level {
                        directory: Dir::new(directory)?,
                        name,
                    }),
                    // Replaced by a file or gone; the end of this directory sees it.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                    Err(errno) => return Err(errno),
                }
            }
            Some(name) => {
                let top = &mut way.first_mut().ok_or(Errno::NOTEMPTY)?.directory;
                lifted += 1;
                match renameat(
                    level.directory.fd()?,
                    &name,
                    top.fd()?,
                    format!(".removing-{lifted}"),
                ) {
                    // The top will be read again from its beginning.
                    Ok(()) => top.rewind(),
                    Err(Errno::NOENT) => {}
                    Err(errno) => return Err(errno),
                }
                way.push(level);
            }
            None => {
                let Some(above) = way.last() else {
                    return Ok(());
                };
                match unlinkat(above.directory.fd()?, &level.name, AtFlags::REMOVEDIR) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(Errno::NOTEMPTY) if patience > 0 => {
                        patience -= 1;
                        level.directory.rewind();
                        way.push(level);
                    }
                    Err(errno) => return Err(errno),
                }
            }
        }
    }
    Ok(())
}

/// Removes files until there is a directory, which is answered.
fn next_directory(directory: &mut Dir) -> Result<Option<CString>, Errno> {
    while let Some(found) = directory.read() {
        let found = found?;
        let name = found.file_name();
        if name.to_bytes() == b"." || name.to_bytes() == b".." {
            continue;
        }
        let mut kind = found.file_type();
        if kind == FileType::Unknown {
            // Some filesystems do not say.
            kind = statat(directory.fd()?, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(kind, |stat| FileType::from_raw_mode(stat.st_mode));
        }
        if kind.is_dir() {
            return Ok(Some(name.to_owned()));
        }
        match unlinkat(directory.fd()?, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_deeper_than_any_path_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().join("top");
        std::fs::create_dir(&top).unwrap();
        let mut here = open_directory(CWD, &top).unwrap();
        for _ in 0..2000 {
            rustix::fs::mkdirat(&here, "level", Mode::RWXU).unwrap();
            rustix::fs::mkdirat(&here, "side", Mode::RWXU).unwrap();
            here = open_directory(&here, "level").unwrap();
        }
        remove(top.to_str().unwrap()).unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn a_link_is_removed_and_not_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let kept = folder.path().join("kept");
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("file"), "x").unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        for place in [folder.path().join("link"), tree.join("link")] {
            std::os::unix::fs::symlink(&kept, place).unwrap();
        }
        remove(folder.path().join("link").to_str().unwrap()).unwrap();
        remove(tree.to_str().unwrap()).unwrap();
        assert!(!tree.exists() && kept.join("file").exists());
    }

    #[test]
    fn a_directory_that_cannot_be_removed_keeps_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let here = folder.path().to_str().unwrap();
        for path in [
            format!("{here}/."),
            format!("{here}/x/.."),
            format!("{here}/./"),
        ] {
            let error = remove(&path).expect_err(&path);
            assert!(matches!(error, FileError::Unfit { .. }), "{error:?}");
            assert!(file.exists(), "{path}");
        }
        for root in ["/", "//", "/.", "/tmp/.."] {
            remove(root).expect_err(root);
        }
    }

    #[test]
    fn removing_what_is_not_there_succeeds() {
        remove("/nonexistent/a/b").unwrap();
        remove("/etc/passwd/below-a-file").unwrap();
    }
}
