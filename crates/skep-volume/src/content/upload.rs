//! Files that are written.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Mode, OFlags, RenameFlags, openat, renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::change::{give, is_directory, sync};
use super::{Content, Entry, Ownership};
use crate::{ContentError, VolumePath};

/// Treatment of a file that is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteMode {
    /// It stays, and the new one is refused.
    New,
    /// It is replaced, and missing directories are made.
    Replace,
}

/// A file that is being written. Nobody sees it before [`Upload::finish`], and dropped before that it
/// leaves nothing.
#[derive(Debug)]
pub struct Upload {
    content: Arc<Content>,
    path: VolumePath,
    name: String,
    parent: OwnedFd,
    owner: Ownership,
    mode: WriteMode,
    /// Name in the staging directory, until it has left it.
    staged: Option<String>,
    file: File,
}

impl Content {
    /// Begins to write a file.
    ///
    /// # Errors
    ///
    /// [`ContentError`]; directories above it may have been made.
    pub fn write(
        self: &Arc<Self>,
        path: &VolumePath,
        owner: Ownership,
        mode: WriteMode,
    ) -> Result<Upload, ContentError> {
        let Some((above, name)) = path.split() else {
            return Err(ContentError::Exists(path.clone()));
        };
        let parent = self.parent(path, &above, owner, mode == WriteMode::Replace)?;
        // Said before the body is sent, and once more by the kernel at the end.
        let is_there = || statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if is_directory(&parent, name) || (mode == WriteMode::New && is_there()) {
            return Err(ContentError::Exists(path.clone()));
        }
        let staged = self.staged_name();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(
            &self.staging,
            staged.as_str(),
            flags,
            Mode::RUSR | Mode::WUSR,
        )
        .map_err(|errno| ContentError::of("write", path)(errno.into()))?;
        Ok(Upload {
            content: Arc::clone(self),
            path: path.clone(),
            name: name.to_owned(),
            parent,
            owner,
            mode,
            staged: Some(staged),
            file: file.into(),
        })
    }
}

impl Upload {
    /// Writes the next bytes.
    ///
    /// # Errors
    ///
    /// [`ContentError`].
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), ContentError> {
        let written = self.file.write_all(bytes);
        written.map_err(ContentError::of("write", &self.path))
    }

    /// Puts the file in its place, in one step, and returns when it would survive the host.
    ///
    /// # Errors
    ///
    /// [`ContentError`]; what was there is there.
    pub fn finish(mut self) -> Result<Entry, ContentError> {
        let failed = || ContentError::of("write", &self.path);
        // Before it has its name: a crash never shows a name with half of what was written.
        self.file.sync_all().map_err(failed())?;
        let file = self.file.try_clone().map_err(failed())?;
        give(&file.into(), self.owner).map_err(|errno| failed()(errno.into()))?;
        let staged = self.staged.as_deref().unwrap_or_default();
        let staging = &self.content.staging;
        let placed = match self.mode {
            WriteMode::New => {
                let flags = RenameFlags::NOREPLACE;
                renameat_with(staging, staged, &self.parent, self.name.as_str(), flags)
            }
            WriteMode::Replace => renameat(staging, staged, &self.parent, self.name.as_str()),
        };
        placed.map_err(|errno| match errno {
            // A directory has taken its place meanwhile.
            Errno::ISDIR => ContentError::Exists(self.path.clone()),
            errno => failed()(errno.into()),
        })?;
        self.staged = None;
        sync(&self.parent).map_err(ContentError::of("write", &self.path))?;
        self.content.stat(&self.path)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let Some(staged) = &self.staged else {
            return;
        };
        match unlinkat(&self.content.staging, staged.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => {
                // It is removed when the volume is next opened.
                let error = io::Error::from(errno);
                tracing::warn!(%error, "cannot remove incomplete upload");
            }
        }
    }
}
