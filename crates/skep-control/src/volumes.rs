//! Volumes of teams.

use std::collections::HashSet;
use std::sync::Arc;

use hmac::{Hmac, Mac};
use sha2::Sha256;
use skep_store::{StoreError, VolumeRecord};
use skep_telemetry::Chain;
use skep_types::{AccessToken, SandboxId, VolumeId, VolumeName};
use skep_volume::{Backend, VolumeError, VolumeUsage};

use crate::control::now;
use crate::{Blocked, Caller, Control};

/// Key by which tokens of volumes are made.
#[derive(Debug)]
pub(crate) struct VolumeKey(pub(crate) Vec<u8>);

/// A request for a volume.
#[derive(Debug, Clone)]
pub struct NewVolume {
    /// Its name among those of the team.
    pub name: VolumeName,
    /// Its size; as large as it may be if nothing is said. A copy has the size of its source.
    pub mebibytes: Option<u32>,
    /// Name or id of the volume that it is to be a copy of.
    pub source: Option<String>,
    /// True if nobody is to write to it: a snapshot.
    pub read_only: bool,
}

/// Failure of a request about a volume. Unless it says otherwise, nothing has changed.
#[derive(Debug, thiserror::Error)]
pub enum VolumeRequestError {
    /// The team may only look and clean up.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// The team has no such volume.
    #[error("volume is not there")]
    NotFound,
    /// The team has another one of that name.
    #[error("team has a volume '{0}' already")]
    NameTaken(VolumeName),
    /// The team has as many as it may.
    #[error("team has {limit} volumes already")]
    QuotaReached {
        /// Limit of the team.
        limit: u32,
    },
    /// It would be larger than it may be.
    #[error("a volume has 1 to {limit} MiB")]
    Size {
        /// Limit of the team.
        limit: u32,
    },
    /// Sandboxes have it, also paused ones.
    #[error("volume is in use by {} sandboxes", by.len())]
    InUse {
        /// The sandboxes; none if one is being made with it.
        by: Vec<SandboxId>,
    },
    /// The host did not do it.
    #[error("host cannot do it")]
    Backend(#[from] VolumeError),
    /// The database did not.
    #[error(transparent)]
    Record(#[from] StoreError),
    /// The task that did it died. It has been logged.
    #[error("work on a volume broke off")]
    BrokeOff,
}

impl Control {
    /// Makes a volume, or a copy of one.
    ///
    /// # Cancel safety
    ///
    /// A dropped call changes nothing: the volume is made, or not, by itself.
    ///
    /// # Errors
    ///
    /// [`VolumeRequestError`]; nothing of the volume is left.
    pub async fn create_volume(
        &self,
        caller: &Caller,
        request: NewVolume,
    ) -> Result<VolumeRecord, VolumeRequestError> {
        caller.may_change()?;
        let (control, caller) = (self.clone(), caller.clone());
        let making = self.detached("create volume", async move {
            Box::pin(control.create_volume_now(&caller, request)).await
        });
        making.await.unwrap_or(Err(VolumeRequestError::BrokeOff))
    }

    async fn create_volume_now(
        &self,
        caller: &Caller,
        request: NewVolume,
    ) -> Result<VolumeRecord, VolumeRequestError> {
        let limit = caller.limits.volume_mib;
        let source = match &request.source {
            Some(source) => Some(self.find_volume(caller, source).await?),
            None => None,
        };
        let asked = (source.as_ref().map(|source| source.mebibytes)).or(request.mebibytes);
        let mebibytes = asked.unwrap_or(limit);
        if source.is_none() && !(1..=limit).contains(&mebibytes) {
            return Err(VolumeRequestError::Size { limit });
        }
        self.check_new_volume(caller, &request.name).await?;
        let volume = VolumeRecord {
            id: VolumeId::random(),
            team: caller.team.id.clone(),
            name: request.name,
            mebibytes,
            read_only: request.read_only,
            source: source.as_ref().map(|source| source.id),
            created_at: now(),
        };
        let (id, from) = (volume.id, volume.source);
        // Nobody deletes it meanwhile.
        let _use = match from {
            Some(from) => {
                let held = self.inner.volume_uses.begin(from);
                Some(held.ok_or(VolumeRequestError::NotFound)?)
            }
            None => None,
        };
        self.on_backend(move |backend| match from {
            Some(from) => backend.copy(from, id),
            None => backend.make(id, mebibytes),
        })
        .await?;
        match self.record_volume(caller, volume.clone()).await {
            Ok(()) => Ok(volume),
            Err(error) => {
                self.discard_volume(id).await;
                Err(error)
            }
        }
    }

    async fn check_new_volume(
        &self,
        caller: &Caller,
        name: &VolumeName,
    ) -> Result<(), VolumeRequestError> {
        let volumes = self.inner.store.volumes().of_team(&caller.team.id).await?;
        if volumes.iter().any(|volume| volume.name == *name) {
            return Err(VolumeRequestError::NameTaken(name.clone()));
        }
        let limit = caller.limits.volumes;
        if volumes.len() >= usize::try_from(limit).unwrap_or(usize::MAX) {
            return Err(VolumeRequestError::QuotaReached { limit });
        }
        Ok(())
    }

    /// Counts once more and writes down, with nobody else in between. Waits until the record would
    /// survive the host: a volume without one is swept away.
    async fn record_volume(
        &self,
        caller: &Caller,
        volume: VolumeRecord,
    ) -> Result<(), VolumeRequestError> {
        let name = volume.name.clone();
        {
            let _alone = self.inner.recording_volume.lock().await;
            self.check_new_volume(caller, &name).await?;
            let recorded = self.inner.store.volumes().insert(volume).recorded().await;
            recorded.map_err(|error| {
                if matches!(error, StoreError::Taken { .. }) {
                    VolumeRequestError::NameTaken(name)
                } else {
                    VolumeRequestError::Record(error)
                }
            })?;
        }
        self.inner.store.flush().await?;
        Ok(())
    }

    /// The volumes of the caller's team, the newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn volumes(&self, caller: &Caller) -> Result<Vec<VolumeRecord>, StoreError> {
        self.inner.store.volumes().of_team(&caller.team.id).await
    }

    /// One volume of the caller's team.
    ///
    /// # Errors
    ///
    /// [`VolumeRequestError`].
    pub async fn volume(
        &self,
        caller: &Caller,
        id: VolumeId,
    ) -> Result<VolumeRecord, VolumeRequestError> {
        let found = self.inner.store.volumes().find(id).await?;
        let own = found.filter(|volume| volume.team == caller.team.id);
        own.ok_or(VolumeRequestError::NotFound)
    }

    async fn find_volume(
        &self,
        caller: &Caller,
        text: &str,
    ) -> Result<VolumeRecord, VolumeRequestError> {
        if let Ok(id) = text.parse() {
            return self.volume(caller, id).await;
        }
        let name = text.parse().map_err(|_| VolumeRequestError::NotFound)?;
        let volumes = self.inner.store.volumes();
        let found = volumes.named(&caller.team.id, &name).await?;
        found.ok_or(VolumeRequestError::NotFound)
    }

    /// The space that a volume has and takes.
    ///
    /// # Errors
    ///
    /// [`VolumeRequestError`].
    pub async fn volume_usage(&self, id: VolumeId) -> Result<VolumeUsage, VolumeRequestError> {
        Ok(self.on_backend(move |backend| backend.usage(id)).await?)
    }

    /// The sandboxes that have a volume, also paused ones.
    pub async fn volume_users(&self, volume: &VolumeRecord) -> Vec<SandboxId> {
        let mut users = Vec::new();
        for entry in self.inner.registry.of(&volume.team) {
            let order = &entry.order;
            let has_it = order.mounts.iter().any(|mount| mount.volume == volume.id);
            if has_it && self.published(&entry).await.is_some() {
                users.push(order.id.clone());
            }
        }
        users.sort();
        users
    }

    /// Deletes a volume that no sandbox has.
    ///
    /// # Errors
    ///
    /// [`VolumeRequestError`].
    pub async fn delete_volume(
        &self,
        caller: &Caller,
        id: VolumeId,
    ) -> Result<(), VolumeRequestError> {
        let (control, caller) = (self.clone(), caller.clone());
        let deleting = self.detached("delete volume", async move {
            let volume = control.volume(&caller, id).await?;
            // From here on nobody is given it any more, until this is dropped.
            let removal = control.inner.volume_uses.begin_removal(id);
            let _removal = removal.ok_or(VolumeRequestError::InUse { by: Vec::new() })?;
            let by = control.volume_users(&volume).await;
            if !by.is_empty() {
                return Err(VolumeRequestError::InUse { by });
            }
            let was_there = (control.inner.store.volumes().remove(id).recorded()).await?;
            if !was_there {
                return Err(VolumeRequestError::NotFound);
            }
            control.discard_volume(id).await;
            Ok(())
        });
        deleting.await.unwrap_or(Err(VolumeRequestError::BrokeOff))
    }

    /// Removes the files of a volume that is in no record. What is left is swept at the next start.
    async fn discard_volume(&self, id: VolumeId) {
        let removed = self.on_backend(move |backend| backend.remove(id)).await;
        if let Err(error) = removed {
            tracing::error!(error = %Chain(&error), volume = %id, "a volume is left on the disk");
        }
    }

    /// The token that opens the files of a volume, for as long as that is there.
    pub fn volume_token(&self, id: VolumeId) -> AccessToken {
        let mut code = Hmac::<Sha256>::new_from_slice(&self.inner.volume_key.0)
            .expect("a key may have any length");
        code.update(b"volume-content ");
        code.update(id.to_string().as_bytes());
        AccessToken::from_record(&hex::encode(code.finalize().into_bytes()))
    }

    /// Removes what an earlier server began and did not record.
    pub(crate) async fn take_up_volumes(&self) -> Result<(), StoreError> {
        let volumes = self.inner.store.volumes().all().await?;
        let living: HashSet<VolumeId> = volumes.iter().map(|volume| volume.id).collect();
        let swept = self.on_backend(move |backend| backend.sweep(&living)).await;
        if let Err(error) = swept {
            tracing::error!(error = %Chain(&error), "cannot clean up among the volumes");
        }
        Ok(())
    }

    /// Works on volumes where that blocks nobody else.
    pub(crate) async fn on_backend<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Backend) -> Result<T, VolumeError> + Send + 'static,
    ) -> Result<T, VolumeError> {
        let backend = Arc::clone(&self.inner.volumes);
        let working = tokio::task::spawn_blocking(move || work(backend.as_ref()));
        working.await.unwrap_or_else(|panic| {
            Err(VolumeError::Host {
                operation: "work on a volume",
                source: std::io::Error::other(panic),
            })
        })
    }
}
