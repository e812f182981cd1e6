//! The last look at a layer before it is put in place.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
use rustix::io::Errno;

use super::StoreError;

/// Makes the layer readable for any overlay mount and gives its size on disk.
///
/// An overlay that is mounted in a user namespace reads `user.overlay.*` attributes and not the
/// `trusted.overlay.*` ones that a build by root leaves. A directory that was removed and made
/// again carries such a mark; without it the files of the removed one would come back. A layer that
/// was made without root's rights carries the other one, and gets both, too.
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
    let marks = ["trusted.overlay.opaque", "user.overlay.opaque"];
    for (from, to) in [(marks[0], marks[1]), (marks[1], marks[0])] {
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
    use super::*;

    #[test]
    fn an_opaque_folder_is_opaque_for_a_mount_in_a_user_namespace_and_for_one_of_root() {
        let marks = ["trusted.overlay.opaque", "user.overlay.opaque"];
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
