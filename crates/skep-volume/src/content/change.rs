//! Directories, owners and modes, and removal.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Uid, chmod, chownat, mkdirat, openat,
    renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::sweep::empty;
use super::{Attributes, Content, Entry, Ownership, own_path};
use crate::{ContentError, VolumePath};

/// Permissions of directories that are made on the way.
const PARENT_MODE: u32 = 0o777;

impl Content {
    /// Makes a directory; with `force` those above it, too, and one that is there is fine.
    ///
    /// # Errors
    ///
    /// [`ContentError`]; directories above it may have been made.
    pub fn make_directory(
        &self,
        path: &VolumePath,
        owner: Ownership,
        force: bool,
    ) -> Result<Entry, ContentError> {
        let failed = || ContentError::of("make", path);
        let Some((above, name)) = path.split() else {
            return if force {
                self.stat(path)
            } else {
                Err(ContentError::Exists(path.clone()))
            };
        };
        let parent = self.parent(path, &above, owner, force)?;
        match self.place_directory(&parent, name, owner) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && force => {
                if self.directory(path).is_err() {
                    return Err(ContentError::Exists(path.clone()));
                }
            }
            Err(error) => return Err(failed()(error)),
        }
        self.stat(path)
    }

    /// Changes the mode, then the owner of what a path leads to.
    ///
    /// # Errors
    ///
    /// [`ContentError`].
    pub fn set_attributes(
        &self,
        path: &VolumePath,
        attributes: Attributes,
    ) -> Result<Entry, ContentError> {
        let found = self
            .resolve(path, OFlags::PATH)
            .map_err(ContentError::of("change", path))?;
        let change = || -> Result<(), Errno> {
            if let Some(mode) = attributes.mode {
                chmod(own_path(&found), Mode::from_raw_mode(mode & 0o777))?;
            }
            let (uid, gid) = (attributes.uid, attributes.gid);
            if uid.is_some() || gid.is_some() {
                let (uid, gid) = (uid.map(Uid::from_raw), gid.map(Gid::from_raw));
                chownat(&found, "", uid, gid, AtFlags::EMPTY_PATH)?;
            }
            Ok(())
        };
        change().map_err(|errno| ContentError::of("change", path)(errno.into()))?;
        self.stat(path)
    }

    /// Removes what is at a path, and everything below it. A link goes, and not what it leads to.
    ///
    /// # Errors
    ///
    /// [`ContentError`].
    pub fn remove(&self, path: &VolumePath) -> Result<(), ContentError> {
        let failed = || ContentError::of("delete", path);
        let (above, name) = path.split().ok_or(ContentError::Root)?;
        let parent = self.directory(&above).map_err(failed())?;
        let unlinked = match unlinkat(&parent, name, AtFlags::empty()) {
            Err(Errno::ISDIR | Errno::PERM) => self.remove_directory(&parent, name),
            unlinked => unlinked.map_err(io::Error::from),
        };
        unlinked.map_err(failed())
    }

    /// Takes a directory out of sight, and then apart.
    fn remove_directory(&self, parent: &OwnedFd, name: &str) -> io::Result<()> {
        let staged = self.staged_name();
        renameat(parent, name, &self.staging, staged.as_str())?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = match openat(&self.staging, staged.as_str(), flags, Mode::empty()) {
            Ok(directory) => directory,
            // It was a file when it was moved.
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return Ok(unlinkat(&self.staging, staged.as_str(), AtFlags::empty())?);
            }
            Err(errno) => return Err(errno.into()),
        };
        if empty(directory, &staged, self.bound()?)? {
            self.remove_emptied(&staged)?;
        }
        Ok(())
    }

    /// The directory above a path. With `force` it is made if it is missing.
    pub(super) fn parent(
        &self,
        path: &VolumePath,
        above: &VolumePath,
        owner: Ownership,
        force: bool,
    ) -> Result<OwnedFd, ContentError> {
        let failed = || ContentError::of("find the directory of", path);
        match self.directory(above) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && force => {}
            found => return found.map_err(failed()),
        }
        let owner = Ownership {
            mode: PARENT_MODE,
            ..owner
        };
        for directory in path.above() {
            let Some((above, name)) = directory.split() else {
                continue;
            };
            let parent = self.directory(&above).map_err(failed())?;
            match self.place_directory(&parent, name, owner) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(failed()(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        self.directory(above).map_err(failed())
    }

    /// Makes a directory where nobody can get at it before it has its owner, and moves it in place.
    fn place_directory(&self, parent: &OwnedFd, name: &str, owner: Ownership) -> io::Result<()> {
        // Most calls with `force` are about directories that are there.
        match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => return Err(Errno::EXIST.into()),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let staged = self.staged_name();
        mkdirat(&self.staging, staged.as_str(), Mode::RWXU)?;
        let placed = self.give(&staged, owner).and_then(|()| {
            let flags = RenameFlags::NOREPLACE;
            renameat_with(&self.staging, staged.as_str(), parent, name, flags)
        });
        placed.map_err(|errno| {
            // What is left is swept when the volume is next opened.
            unlinkat(&self.staging, staged.as_str(), AtFlags::REMOVEDIR).ok();
            errno.into()
        })
    }

    fn give(&self, staged: &str, owner: Ownership) -> Result<(), Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(&self.staging, staged, flags, Mode::empty())?;
        give(&made, owner)
    }
}

/// Gives what is in the staging directory its owner and its mode, whatever the umask is.
pub(super) fn give(made: &OwnedFd, owner: Ownership) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(owner.uid), Gid::from_raw(owner.gid));
    chownat(made, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    chmod(own_path(made), Mode::from_raw_mode(owner.mode & 0o777))
}

/// Returns true if there is a directory of this name, which is not followed.
pub(super) fn is_directory(parent: &OwnedFd, name: &str) -> bool {
    statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
}

/// Brings what is in a directory to the disk.
pub(super) fn sync(directory: &OwnedFd) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = openat(directory, ".", flags, Mode::empty())?;
    Ok(rustix::fs::fsync(open)?)
}
