//! Archives that clients upload for builds to copy files of.
//!
//! They are kept by team and by the name that their client gave them. Two uploads of a name are never
//! the same to the byte, so they are not compared with it. An archive is in its place only when it is
//! complete and on the disk, and one that is replaced stays readable for whoever has opened it.

mod archive_end;
mod share;

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use skep_control::{Upload, UploadError};
use skep_types::{FilesHash, Reserve, TeamId};
use tempfile::NamedTempFile;

use crate::Archives;
use crate::room::Careful;

use share::Shares;

/// Largest archive, if the operator says nothing else.
const USUAL_LIMIT: u64 = 10 << 30;

/// Directory of archives on their way, which the next server empties.
const INCOMING: &str = "incoming";

/// The archives in a directory. Clones are the same.
#[derive(Debug, Clone)]
pub struct Uploads {
    directory: Arc<Path>,
    limit: u64,
    reserve: Option<Reserve>,
    shares: Shares,
}

impl Uploads {
    /// The archives in `directory`, which is made when the first of them comes.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into().into(),
            limit: USUAL_LIMIT,
            reserve: None,
            shares: Shares::default(),
        }
    }

    /// Sets the part of the disk that archives leave free.
    #[must_use]
    pub fn with_reserve(mut self, reserve: Option<Reserve>) -> Self {
        self.reserve = reserve;
        self
    }

    /// Sets the size of the largest archive. Those of a team together may have twice as much.
    #[must_use]
    pub fn with_limit(mut self, limit: u64) -> Self {
        self.limit = limit;
        self
    }

    /// Removes what an earlier server was receiving when it died.
    ///
    /// # Errors
    ///
    /// Whatever the file system says.
    pub fn clear_incoming(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(self.directory.join(INCOMING)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// Returns true if a team has uploaded these files completely. They are in use from then on:
    /// their client will not upload them again.
    ///
    /// # Errors
    ///
    /// Whatever the file system says.
    pub fn is_present(&self, team: &TeamId, files: &FilesHash) -> io::Result<bool> {
        self.open(team, files).map(|found| found.is_some())
    }

    /// Opens an archive; `None` if there is none. It stays what it is, whatever is uploaded later.
    ///
    /// # Errors
    ///
    /// Whatever the file system says.
    pub fn open(&self, team: &TeamId, files: &FilesHash) -> io::Result<Option<File>> {
        match File::open(self.path(team, files)) {
            Ok(file) => {
                file.set_modified(SystemTime::now())?;
                Ok(Some(file))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes archives that were not asked for since `before`, and returns their bytes.
    ///
    /// # Errors
    ///
    /// Whatever the file system says.
    pub fn forget_unused(&self, before: SystemTime) -> io::Result<u64> {
        let mut bytes = 0;
        for team in entries(&self.directory)? {
            let is_of_a_team = team.is_dir() && !team.ends_with(INCOMING);
            let archives = if is_of_a_team {
                entries(&team)?
            } else {
                Vec::new()
            };
            for archive in archives {
                let found = archive.metadata()?;
                if found.is_file() && found.modified()? < before {
                    std::fs::remove_file(&archive)?;
                    bytes += found.len();
                }
            }
        }
        Ok(bytes)
    }

    fn path(&self, team: &TeamId, files: &FilesHash) -> PathBuf {
        let name = format!("{}.tar", files.as_str());
        self.of_team(team).join(name)
    }

    fn of_team(&self, team: &TeamId) -> PathBuf {
        self.directory.join(team.as_str())
    }

    async fn receive_now(
        &self,
        team: &TeamId,
        files: &FilesHash,
        upload: Upload,
    ) -> Result<(), UploadError> {
        let limit = self.limit;
        if upload.announced.is_some_and(|size| size > limit) {
            return Err(UploadError::TooLarge { limit });
        }
        let incoming = self.directory.join(INCOMING);
        let (reserve, announced) = (self.reserve, upload.announced.unwrap_or(0));
        let mut share = self.shares.begin(team, self.of_team(team), limit);
        let (mut file, mut share) = blocking(move || {
            share.hold(announced)?;
            let make = || {
                std::fs::create_dir_all(&incoming)?;
                let file = Careful::new(NamedTempFile::new_in(&incoming)?, reserve);
                file.check(announced)?;
                Ok(file)
            };
            Ok((make().map_err(failed)?, share))
        })
        .await?;
        let mut body = upload.body;
        let mut size: u64 = 0;
        while let Some(chunk) = body.next().await {
            let chunk = chunk.map_err(|_| UploadError::Broken("the upload broke off"))?;
            size = size.saturating_add(chunk.len().try_into().unwrap_or(u64::MAX));
            if size > limit {
                return Err(UploadError::TooLarge { limit });
            }
            (file, share) = blocking(move || {
                share.hold_more(size)?;
                file.write_all(&chunk).map_err(failed)?;
                Ok((file, share))
            })
            .await?;
        }
        if upload.announced.is_some_and(|announced| announced != size) {
            return Err(UploadError::Broken("it is shorter than was announced"));
        }
        let place = self.path(team, files);
        blocking(move || {
            let kept = keep(file.into_file(), &place);
            // From now on it counts for what it is.
            drop(share);
            kept
        })
        .await
    }
}

impl Archives for Uploads {
    fn open(&self, team: &TeamId, files: &FilesHash) -> io::Result<Option<File>> {
        self.open(team, files)
    }
}

impl skep_control::Uploads for Uploads {
    fn is_present<'a>(
        &'a self,
        team: &'a TeamId,
        files: &'a FilesHash,
    ) -> BoxFuture<'a, io::Result<bool>> {
        let (uploads, team, files) = (self.clone(), team.clone(), files.clone());
        looking(move || uploads.is_present(&team, &files)).boxed()
    }

    fn forget_unused(&self, before: SystemTime) -> BoxFuture<'_, io::Result<u64>> {
        let uploads = self.clone();
        looking(move || uploads.forget_unused(before)).boxed()
    }

    fn receive<'a>(
        &'a self,
        team: &'a TeamId,
        files: &'a FilesHash,
        upload: Upload,
    ) -> BoxFuture<'a, Result<(), UploadError>> {
        self.receive_now(team, files, upload).boxed()
    }
}

/// The entries of a directory; none if there is no such directory.
fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let found = match std::fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?,
    };
    found.map(|entry| Ok(entry?.path())).collect()
}

/// Puts an archive in its place if it is complete.
fn keep(file: NamedTempFile, place: &Path) -> Result<(), UploadError> {
    archive_end::check(file.path()).map_err(|error| match error {
        archive_end::EndError::Broken(reason) => UploadError::Broken(reason),
        archive_end::EndError::Unreadable(error) => UploadError::Failed(error),
    })?;
    let directory = place.parent().unwrap_or(Path::new("."));
    let keep = || {
        std::fs::create_dir_all(directory)?;
        file.as_file().sync_all()?;
        file.persist(place).map_err(|error| error.error)?;
        // Without this a loss of power could leave a name without a file, or none.
        File::open(directory)?.sync_all()
    };
    keep().map_err(failed)
}

fn failed(error: io::Error) -> UploadError {
    if error.kind() == ErrorKind::StorageFull {
        UploadError::NoRoom
    } else {
        UploadError::Failed(error)
    }
}

async fn looking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|panic| Err(io::Error::other(panic)))
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, UploadError> + Send + 'static,
) -> Result<T, UploadError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|panic| Err(UploadError::Failed(io::Error::other(panic))))
}

#[cfg(test)]
mod tests;
