//! The file that an upload is written to.
//!
//! Two promises pull in different directions. Watchers must see a new small file as exactly
//! `CREATE, CHMOD, WRITE`, and an overwritten one as written, not as replaced: the file is
//! opened in place. And an upload that is cut off must not leave half a file where a whole one
//! was. So:
//!
//! * what fits into one buffer is complete before the file is touched, and is written in place
//!   with one call;
//! * a larger new file is written in place as it arrives, and removed again if it stays
//!   incomplete;
//! * a larger body for an existing file first goes to a nameless file in the same directory,
//!   and is copied over by the kernel when all of it is there. The file keeps its inode, mode
//!   and links, and the room for it is reserved before the first old byte is overwritten.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};

use rustix::fs::{
    FallocateFlags, Gid, Mode, OFlags, Uid, copy_file_range, fallocate, fchown, fstat,
};
use rustix::io::Errno;

use super::metadata;
use crate::filesystem::{FileError, NewDirectories, make_parents};
use crate::rootfs;
use crate::rootfs::{Location, Name};
use crate::sandbox::path;
use crate::sandbox::users::User;

/// A file that is being received.
#[derive(Debug)]
pub(super) struct Target {
    path: String,
    /// Directory and name of the file.
    location: Location,
    file: File,
    owner: (Uid, Gid),
    fate: Fate,
    /// Made on the way here; they go again if the upload comes to nothing.
    parents: NewDirectories,
}

#[derive(Debug)]
enum Fate {
    /// Made for this upload and not complete: removed when dropped.
    New,
    /// Was there before. What arrives in pieces waits here.
    Existing { spool: Option<File> },
    /// Complete, so that nothing is removed when this is dropped.
    Kept,
}

impl Target {
    /// Opens the file for `user`, who will own it, and makes the directories to it.
    pub(super) fn open(path: &str, user: &User) -> Result<Self, FileError> {
        let (parents, location, (file, fate)) = open_below_parents(path, user)?;
        let failed = |error: io::Error| FileError::io("open", path, error);
        rootfs::expect_regular(&file).map_err(failed)?;
        let target = Self {
            path: path.to_owned(),
            location,
            file: File::from(file),
            owner: (Uid::from_raw(user.uid), Gid::from_raw(user.gid)),
            fate,
            parents,
        };
        if matches!(target.fate, Fate::New) {
            target.hand_over()?;
        }
        Ok(target)
    }

    /// Takes a body that is complete.
    pub(super) fn store(
        mut self,
        body: &[u8],
        metadata: &BTreeMap<String, String>,
    ) -> Result<(), FileError> {
        let stored = match self.fate {
            Fate::New | Fate::Kept => self.file.write_all(body),
            Fate::Existing { .. } => {
                self.hand_over()?;
                self.overwrite(body)
            }
        };
        stored.map_err(|source| FileError::io("write", &self.path, source))?;
        self.keep(metadata)
    }

    /// Takes the next piece of a body that is not complete.
    pub(super) fn append(&mut self, piece: &[u8]) -> Result<(), FileError> {
        let appended = match &mut self.fate {
            Fate::New | Fate::Kept => self.file.write_all(piece),
            Fate::Existing { spool: Some(spool) } => spool.write_all(piece),
            Fate::Existing { spool } => match self.location.directory.nameless() {
                Ok(fresh) => {
                    let mut fresh = File::from(fresh);
                    let written = fresh.write_all(piece);
                    *spool = Some(fresh);
                    written
                }
                Err(error) => Err(error),
            },
        };
        appended.map_err(|source| FileError::io("write", &self.path, source))
    }

    /// The body is complete: what was there before is replaced now.
    pub(super) fn finish(mut self, metadata: &BTreeMap<String, String>) -> Result<(), FileError> {
        if let Fate::Existing { spool: Some(spool) } = &self.fate {
            self.hand_over()?;
            copy_over(spool, &self.file)
                .map_err(|source| FileError::io("write", &self.path, source))?;
        }
        self.keep(metadata)
    }

    fn overwrite(&self, body: &[u8]) -> io::Result<()> {
        let length = body.len() as u64;
        let before = self.file.metadata()?.size();
        reserve(&self.file, before, length)?;
        self.file.write_all_at(body, 0)?;
        if before > length {
            self.file.set_len(length)
        } else {
            Ok(())
        }
    }

    fn keep(&mut self, metadata: &BTreeMap<String, String>) -> Result<(), FileError> {
        metadata::replace(&self.file, metadata)
            .map_err(|source| FileError::io("set the metadata of", &self.path, source))?;
        self.fate = Fate::Kept;
        std::mem::take(&mut self.parents).keep();
        Ok(())
    }

    /// Gives the file to the user: a new one at once, another with its new content.
    fn hand_over(&self) -> Result<(), FileError> {
        let (uid, gid) = self.owner;
        fchown(&self.file, Some(uid), Some(gid))
            .map_err(|errno| FileError::io("chown", &self.path, errno.into()))
    }

    fn discard(&self) -> io::Result<()> {
        let (ours, named) = (fstat(&self.file)?, self.location.stat()?);
        // Somebody may have put another file in its place meanwhile.
        if (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino) {
            self.location.unlink()?;
        }
        Ok(())
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if matches!(self.fate, Fate::New)
            && let Err(error) = self.discard()
        {
            tracing::debug!(%error, "an incomplete upload was gone before it could be removed");
        }
    }
}

/// Number of attempts to make directories that others remove again.
const ATTEMPTS: usize = 8;

/// Another upload that failed may just take back the directories that both wanted.
fn open_below_parents(
    path: &str,
    user: &User,
) -> Result<(NewDirectories, Location, (OwnedFd, Fate)), FileError> {
    let failed = |error| FileError::io("open", path, error);
    let name = Name::new(path::base_name(path)).map_err(failed)?;
    if path.ends_with('/') || name.is_dots() {
        return Err(failed(Errno::ISDIR.into()));
    }
    let mut attempts = 1;
    loop {
        let (directory, parents) = make_parents(path::parent(path), user)?;
        let location = Location {
            directory,
            name: name.clone(),
        };
        match open_or_make(&location) {
            Ok(opened) => return Ok((parents, location, opened)),
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < ATTEMPTS => {
                attempts += 1;
                parents.keep();
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

fn open_or_make(location: &Location) -> io::Result<(OwnedFd, Fate)> {
    let mode = Mode::from_raw_mode(0o644);
    // First as a new file: only one that this upload has made is removed if it stays incomplete.
    match location.open(OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode) {
        Ok(file) => return Ok((file, Fate::New)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let existing = Fate::Existing { spool: None };
    match location.open(OFlags::WRONLY, Mode::empty()) {
        Ok(file) => Ok((file, existing)),
        // A link to a file that does not exist yet, or a file that has just gone.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = location.open(OFlags::WRONLY | OFlags::CREATE, mode)?;
            Ok((file, existing))
        }
        Err(error) => Err(error),
    }
}

/// Makes sure that the disk has room, while the old content is still whole.
fn reserve(file: &File, before: u64, length: u64) -> io::Result<()> {
    if length <= before {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::KEEP_SIZE, 0, length) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

fn copy_over(spool: &File, file: &File) -> io::Result<()> {
    let length = spool.metadata()?.size();
    let before = file.metadata()?.size();
    reserve(file, before, length)?;
    let (mut from, mut to) = (0, 0);
    while from < length {
        let left = usize::try_from(length - from).unwrap_or(usize::MAX);
        if copy_file_range(spool, Some(&mut from), file, Some(&mut to), left)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    if before > length {
        file.set_len(length)
    } else {
        Ok(())
    }
}
