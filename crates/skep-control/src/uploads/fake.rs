//! Uploads that exist in memory alone.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt as _, StreamExt as _};
use parking_lot::Mutex;
use skep_types::{FilesHash, TeamId};

use super::{Upload, UploadError, Uploads};

/// Largest archive that the fake takes.
const LIMIT: u64 = 1024;

type Archives = HashMap<(TeamId, FilesHash), Vec<u8>>;

/// Archives in memory, which are not looked into. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct FakeUploads {
    archives: Arc<Mutex<Archives>>,
}

impl Uploads for FakeUploads {
    fn is_present<'a>(
        &'a self,
        team: &'a TeamId,
        files: &'a FilesHash,
    ) -> BoxFuture<'a, io::Result<bool>> {
        let key = (team.clone(), files.clone());
        let is_present = self.archives.lock().contains_key(&key);
        async move { Ok(is_present) }.boxed()
    }

    fn forget_unused(&self, _before: SystemTime) -> BoxFuture<'_, io::Result<u64>> {
        // They are all used.
        async { Ok(0) }.boxed()
    }

    fn receive<'a>(
        &'a self,
        team: &'a TeamId,
        files: &'a FilesHash,
        mut upload: Upload,
    ) -> BoxFuture<'a, Result<(), UploadError>> {
        async move {
            let mut bytes = Vec::new();
            while let Some(chunk) = upload.body.next().await {
                let chunk = chunk.map_err(|_| UploadError::Broken("it broke off"))?;
                bytes.extend_from_slice(&chunk);
            }
            let size = bytes.len() as u64;
            if size > LIMIT {
                return Err(UploadError::TooLarge { limit: LIMIT });
            }
            if upload.announced.is_some_and(|announced| announced != size) {
                return Err(UploadError::Broken("it is shorter than was announced"));
            }
            let key = (team.clone(), files.clone());
            self.archives.lock().insert(key, bytes);
            Ok(())
        }
        .boxed()
    }
}
