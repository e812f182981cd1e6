//! Trees of files, without following any link.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Size of a tree.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Size {
    pub(super) bytes: u64,
    pub(super) files: u64,
}

impl Size {
    pub(super) fn plus(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            files: self.files + other.files,
        }
    }
}

pub(super) fn size_of(root: &Path) -> io::Result<Size> {
    let mut size = Size { bytes: 0, files: 0 };
    walk(root, |_, found| {
        size.bytes += found.blocks() * 512;
        size.files += 1;
        Ok(())
    })?;
    Ok(size)
}

pub(super) fn has_file(root: &Path) -> io::Result<bool> {
    let mut has_file = false;
    walk(root, |_, found| {
        has_file |= found.is_file();
        Ok(())
    })?;
    Ok(has_file)
}

/// Shows everything below a directory, each directory before what is in it. No link is followed.
fn walk(root: &Path, mut see: impl FnMut(&Path, &Metadata) -> io::Result<()>) -> io::Result<()> {
    let mut waiting = vec![root.to_owned()];
    while let Some(directory) = waiting.pop() {
        for path in entries(&directory)? {
            let found = path.symlink_metadata()?;
            see(&path, &found)?;
            if found.is_dir() {
                waiting.push(path);
            }
        }
    }
    Ok(())
}

/// Makes a tree with the same files: the content is shared.
pub(super) fn link_tree(from: &Path, to: &Path) -> io::Result<()> {
    same_as(&from.symlink_metadata()?, to)?;
    walk(from, |path, found| {
        let target = to.join(path.strip_prefix(from).unwrap_or(path));
        if found.is_dir() {
            fs::create_dir(&target)?;
            same_as(found, &target)
        } else {
            // A link to a link is one of its own, and leads nowhere here.
            fs::hard_link(path, &target)
        }
    })
}

/// Gives a directory the owner and mode of another.
fn same_as(found: &Metadata, directory: &Path) -> io::Result<()> {
    std::os::unix::fs::chown(directory, Some(found.uid()), Some(found.gid()))?;
    fs::set_permissions(directory, fs::Permissions::from_mode(found.mode() & 0o7777))
}

/// Moves everything in one directory into another, over what is there.
pub(super) fn move_over(from: &Path, to: &Path) -> io::Result<()> {
    for path in entries(from)? {
        let Some(name) = path.file_name() else {
            continue;
        };
        let target = to.join(name);
        let is_directory = path.symlink_metadata()?.is_dir();
        match target.symlink_metadata() {
            Ok(there) if there.is_dir() && is_directory => {
                move_over(&path, &target)?;
                continue;
            }
            Ok(there) if there.is_dir() => fs::remove_dir_all(&target)?,
            Ok(_) => fs::remove_file(&target)?,
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        fs::rename(&path, &target)?;
    }
    Ok(())
}

/// The entries of a directory; none if there is no such directory.
pub(super) fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let found = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?,
    };
    found.map(|entry| Ok(entry?.path())).collect()
}
