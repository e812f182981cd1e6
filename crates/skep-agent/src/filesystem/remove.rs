//! Removing what a path names.

use std::io;

use rustix::io::Errno;

use super::FileError;
use crate::rootfs::Location;
use crate::sandbox::path;

/// Removes `path` and everything below it. What does not exist is removed already.
pub(crate) fn remove(path: &str) -> Result<(), FileError> {
    let failed = |source: io::Error| FileError::io("remove", path, source);
    // The kernel would refuse these too, but only after everything in them is gone.
    if path::clean(path) == "/" || matches!(path::base_name(path), "." | "..") {
        return Err(failed(Errno::INVAL.into()));
    }
    match Location::find(path.trim_end_matches('/')) {
        Ok(found) => found.remove().map_err(failed),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            _ => Err(failed(error)),
        },
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, Mode, OFlags};

    use super::*;

    /// Makes a tree as code in a sandbox does: step by step, deeper than any path is long.
    fn plant(top: &std::path::Path, levels: usize, sides: &[&str]) {
        std::fs::create_dir(top).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let mut here = rustix::fs::openat(CWD, top, flags, Mode::empty()).unwrap();
        for _ in 0..levels {
            for name in sides.iter().chain(&["level"]) {
                rustix::fs::mkdirat(&here, *name, Mode::RWXU).unwrap();
            }
            here = rustix::fs::openat(&here, "level", flags, Mode::empty()).unwrap();
        }
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().join("top");
        plant(&top, 5000, &["side"]);
        remove(top.to_str().unwrap()).unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn a_deep_tree_needs_few_descriptors_and_little_stack() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().join("top");
        plant(&top, 5000, &[]);
        let most = std::sync::atomic::AtomicUsize::new(0);
        let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        std::thread::scope(|scope| {
            let removal = std::thread::Builder::new()
                .stack_size(64 << 10)
                .spawn_scoped(scope, || remove(top.to_str().unwrap()))
                .unwrap();
            while !removal.is_finished() {
                most.fetch_max(count(), std::sync::atomic::Ordering::Relaxed);
            }
            removal.join().unwrap().unwrap();
        });
        // Other tests run beside this one, and have some open as well.
        assert!(most.into_inner() < 500);
        assert!(!top.exists());
    }

    #[test]
    fn what_a_removal_that_broke_off_has_left_is_no_obstacle() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().join("top");
        plant(&top, 100, &[".removing-1", ".removing-2"]);
        remove(top.to_str().unwrap()).unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn a_link_is_removed_and_not_what_it_leads_to() {
        let directory = tempfile::tempdir().unwrap();
        let kept = directory.path().join("kept");
        std::fs::create_dir(&kept).unwrap();
        std::fs::write(kept.join("file"), "x").unwrap();
        let tree = directory.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        for place in [directory.path().join("link"), tree.join("link")] {
            std::os::unix::fs::symlink(&kept, place).unwrap();
        }
        remove(directory.path().join("link").to_str().unwrap()).unwrap();
        remove(tree.to_str().unwrap()).unwrap();
        assert!(!tree.exists() && kept.join("file").exists());
    }

    #[test]
    fn a_directory_that_cannot_be_removed_keeps_what_is_in_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        std::fs::write(&file, "x").unwrap();
        let here = directory.path().to_str().unwrap();
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
