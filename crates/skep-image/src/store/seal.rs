//! The last look at a layer before it is put in place.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{XattrFlags, lgetxattr, lremovexattr, lsetxattr};
use rustix::io::Errno;

use super::StoreError;

/// Mark of an opaque directory, for overlays that root mounts.
const TRUSTED: &str = "trusted.overlay.opaque";
/// The same for overlays that are mounted in a user namespace.
const USER: &str = "user.overlay.opaque";

/// Makes the layer readable for any overlay mount and gives its size on disk.
///
/// An overlay that is mounted in a user namespace reads `user.overlay.*` attributes and not the
/// `trusted.overlay.*` ones that a build by root leaves. A directory that was removed and made
/// again carries such a mark; without it the files of the removed one would come back. A layer that
/// was made without root's rights carries the other one, and gets both, too.
///
/// A directory that was copied up from a layer below in a build by root has the marks of that layer
/// which the kernel does not know there. They say nothing about this one, and would hide what it is
/// merged with, so they go.
pub(super) fn seal(root: &Path) -> Result<u64, StoreError> {
    let mut bytes = 0;
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        seal_directory(&directory)?;
        for entry in fs::read_dir(&directory).map_err(StoreError::files("list", &directory))? {
            let entry = entry.map_err(StoreError::files("list", &directory))?;
            let metadata = entry
                .metadata()
                .map_err(StoreError::files("look at", entry.path()))?;
            bytes += metadata.blocks() * 512;
            if metadata.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    Ok(bytes)
}

fn seal_directory(directory: &PathBuf) -> Result<(), StoreError> {
    if attribute(directory, "trusted.overlay.redirect")?.is_some() {
        return Err(StoreError::Redirect {
            path: directory.clone(),
        });
    }
    let is_copied_up = attribute(directory, "trusted.overlay.origin")?.is_some();
    let is_opaque = attribute(directory, TRUSTED)?.is_some();
    if is_copied_up && !is_opaque && attribute(directory, USER)?.is_some() {
        lremovexattr(directory, USER)
            .map_err(|error| StoreError::files("unmark", directory)(error.into()))?;
    }
    for (from, to) in [(TRUSTED, USER), (USER, TRUSTED)] {
        if let Some(value) = attribute(directory, from)? {
            lsetxattr(directory, to, &value, XattrFlags::empty())
                .map_err(|error| StoreError::files("mark", directory)(error.into()))?;
        }
    }
    Ok(())
}

fn attribute(path: &Path, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
    let mut value = vec![0; 4096];
    match lgetxattr(path, name, &mut value) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(error) => Err(StoreError::files("read the attributes of", path)(
            error.into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn an_opaque_folder_is_opaque_for_a_mount_in_a_user_namespace_and_for_one_of_root() {
        let marks = [TRUSTED, USER];
        for made in marks {
            let layer = tempfile::tempdir().unwrap();
            let directory = layer.path().join("a/b");
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("file"), [1; 5000]).unwrap();
            lsetxattr(&directory, made, b"y", XattrFlags::empty()).unwrap();
            assert!(seal(layer.path()).unwrap() >= 5000);
            for mark in marks {
                let value = attribute(&directory, mark).unwrap();
                assert_eq!(value.as_deref(), Some(&b"y"[..]), "{mark}");
                let above = attribute(&layer.path().join("a"), mark).unwrap();
                assert_eq!(above, None, "{mark}");
            }
        }
    }

    /// Fonts of a template were gone, because a later step had added some more.
    #[test]
    fn a_directory_of_a_layer_that_a_later_one_adds_to_is_merged() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        for name in ["lower/fonts", "upper", "work", "merged"] {
            fs::create_dir_all(path(name)).unwrap();
        }
        lsetxattr(path("lower/fonts"), TRUSTED, b"y", XattrFlags::empty()).unwrap();
        seal(&path("lower")).unwrap();
        let script = "mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged && \
                      touch merged/fonts/added";
        let mut step = Command::new("unshare");
        step.args(["--mount", "sh", "-c", script])
            .current_dir(place.path());
        let done = step.output().unwrap();
        assert!(done.status.success(), "{done:?}");
        let added = path("upper/fonts");
        assert!(
            attribute(&added, USER).unwrap().is_some(),
            "the kernel copies it"
        );
        seal(&path("upper")).unwrap();
        for mark in [TRUSTED, USER] {
            assert_eq!(attribute(&added, mark).unwrap(), None, "{mark}");
        }
    }

    #[test]
    fn a_redirect_is_refused() {
        let layer = tempfile::tempdir().unwrap();
        lsetxattr(
            layer.path(),
            "trusted.overlay.redirect",
            b"/x",
            XattrFlags::empty(),
        )
        .unwrap();
        let refused = seal(layer.path());
        assert!(
            matches!(refused, Err(StoreError::Redirect { .. })),
            "{refused:?}"
        );
    }
}
