//! Files of volumes, for whoever has a volume's token.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::StreamExt as _;
use skep_store::{Standing, VolumeRecord};
use skep_types::VolumeId;
use skep_volume::{
    Attributes, Content, ContentError, Entry, Ownership, VolumeError, VolumePath, WriteMode,
};

use crate::{AuthError, Control, Upload};

/// Time limit for the next bytes of an upload.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes that are gathered before they are written.
const GATHERED: usize = 256 << 10;

/// The files of a volume, opened with its token.
#[derive(Debug, Clone)]
pub struct VolumeFiles {
    control: Control,
    volume: Arc<VolumeRecord>,
    /// Reason for which its team may not write, if it may not.
    blocked: Option<String>,
}

/// A file that is read.
#[derive(Debug)]
pub struct VolumeDownload {
    /// The file, at its beginning.
    pub file: tokio::fs::File,
    /// Number of bytes to read.
    pub size: u64,
}

/// Failure of work on the files of a volume.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The files say no.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The volume cannot be opened now.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// It is a snapshot.
    #[error("volume is read-only")]
    ReadOnly,
    /// The team may only look.
    #[error("team is blocked: {0}")]
    Blocked(String),
    /// The caller's body broke off, or took too long. There is no new file.
    #[error("upload broke off")]
    Torn(#[source] io::Error),
    /// The task that did it died. It has been logged.
    #[error("work on files broke off")]
    BrokeOff,
}

impl Control {
    /// Opens the files of a volume for whoever has its token. Whether a volume is there and whether a
    /// token is right is not told apart.
    ///
    /// # Errors
    ///
    /// [`AuthError`].
    pub async fn open_volume(&self, id: VolumeId, token: &str) -> Result<VolumeFiles, AuthError> {
        if !self.volume_token(id).matches(token) {
            return Err(AuthError::Unknown);
        }
        let volume = self
            .inner
            .store
            .volumes()
            .find(id)
            .await?
            .ok_or(AuthError::Unknown)?;
        let team = self.inner.store.teams().find(volume.team.clone()).await?;
        let blocked = match team.ok_or(AuthError::Unknown)?.standing {
            Standing::Good => None,
            Standing::Blocked(reason) => Some(reason),
            Standing::Banned => return Err(AuthError::Banned),
        };
        Ok(VolumeFiles {
            control: self.clone(),
            volume: Arc::new(volume),
            blocked,
        })
    }
}

impl VolumeFiles {
    /// The volume.
    pub fn volume(&self) -> &VolumeRecord {
        &self.volume
    }

    /// Describes what is at a path.
    ///
    /// # Errors
    ///
    /// [`FilesError`].
    pub async fn stat(&self, path: VolumePath) -> Result<Entry, FilesError> {
        self.work(move |content| content.stat(&path)).await
    }

    /// The entries of a directory, down to `depth` levels.
    ///
    /// # Cancel safety
    ///
    /// A dropped call ends the work.
    ///
    /// # Errors
    ///
    /// [`FilesError`].
    pub async fn list(&self, path: VolumePath, depth: u32) -> Result<Vec<Entry>, FilesError> {
        // Gone when the caller is, who drops this call.
        let caller = Arc::new(());
        let called = Arc::downgrade(&caller);
        let listing =
            self.work(move |content| content.list(&path, depth, || called.strong_count() > 0));
        let listed = listing.await;
        drop(caller);
        listed
    }

    /// Makes a directory; with `force` those above it, too.
    ///
    /// # Errors
    ///
    /// [`FilesError`].
    pub async fn make_directory(
        &self,
        path: VolumePath,
        owner: Ownership,
        force: bool,
    ) -> Result<Entry, FilesError> {
        self.may_write()?;
        self.work(move |content| content.make_directory(&path, owner, force))
            .await
    }

    /// Changes mode and owner.
    ///
    /// # Errors
    ///
    /// [`FilesError`].
    pub async fn set_attributes(
        &self,
        path: VolumePath,
        attributes: Attributes,
    ) -> Result<Entry, FilesError> {
        self.may_write()?;
        self.work(move |content| content.set_attributes(&path, attributes))
            .await
    }

    /// Removes what is at a path, and everything below it.
    ///
    /// # Errors
    ///
    /// [`FilesError`].
    pub async fn remove(&self, path: VolumePath) -> Result<(), FilesError> {
        self.may_write()?;
        self.work(move |content| content.remove(&path)).await
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// [`FilesError`].
    pub async fn read(&self, path: VolumePath) -> Result<VolumeDownload, FilesError> {
        let found = self.work(move |content| content.read(&path)).await?;
        Ok(VolumeDownload {
            file: found.file.into(),
            size: found.size,
        })
    }

    /// Writes a file, as its bytes come. It is there, all of it and for good, when this returns.
    ///
    /// # Cancel safety
    ///
    /// A dropped call leaves nothing.
    ///
    /// # Errors
    ///
    /// [`FilesError`]; what was there is there.
    pub async fn write(
        &self,
        path: VolumePath,
        owner: Ownership,
        mode: WriteMode,
        mut body: Upload,
    ) -> Result<Entry, FilesError> {
        self.may_write()?;
        let announced = body.announced.unwrap_or_default();
        let control = &self.control;
        control
            .on_backend(move |backend| backend.check_room(announced))
            .await?;
        let mut upload = self
            .work(move |content| content.write(&path, owner, mode))
            .await?;
        let mut received = 0_u64;
        loop {
            let gathered = gather(&mut body).await.map_err(FilesError::Torn)?;
            if gathered.is_empty() {
                break;
            }
            received += u64::try_from(gathered.len()).unwrap_or_default();
            upload = blocking(move || {
                upload.write(&gathered)?;
                Ok(upload)
            })
            .await?;
        }
        // Some clients announce more than they send, and hang up.
        if body
            .announced
            .is_some_and(|announced| announced != received)
        {
            return Err(FilesError::Torn(io::ErrorKind::UnexpectedEof.into()));
        }
        blocking(move || upload.finish()).await
    }

    fn may_write(&self) -> Result<(), FilesError> {
        match &self.blocked {
            Some(reason) => Err(FilesError::Blocked(reason.clone())),
            None if self.volume.read_only => Err(FilesError::ReadOnly),
            None => Ok(()),
        }
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(Arc<Content>) -> Result<T, ContentError> + Send + 'static,
    ) -> Result<T, FilesError> {
        let id = self.volume.id;
        let content = self
            .control
            .on_backend(move |backend| backend.content(id))
            .await?;
        blocking(move || work(content)).await
    }
}

/// The next bytes of a body, as many as come together; none at its end.
async fn gather(body: &mut Upload) -> io::Result<BytesMut> {
    let mut gathered = BytesMut::new();
    while gathered.len() < GATHERED {
        let next = tokio::time::timeout(UPLOAD_TIMEOUT, body.body.next()).await;
        match next.map_err(|_elapsed| io::Error::from(io::ErrorKind::TimedOut))? {
            Some(bytes) => gathered.extend_from_slice(&bytes?),
            None => break,
        }
    }
    Ok(gathered)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ContentError> + Send + 'static,
) -> Result<T, FilesError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done?),
        Err(_panic) => Err(FilesError::BrokeOff),
    }
}
