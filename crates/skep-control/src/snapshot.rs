//! Snapshots: checkpoints of sandboxes that are kept, and are templates from then on.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use skep_store::{CheckpointFilter, Order, StoreError};
use skep_telemetry::Chain;
use skep_types::{
    Checkpoint, CheckpointId, ImageKind, ImagePurpose, Phase, RollBackRequest, SandboxId,
    TemplateId, TemplateImage, TemplateReference,
};

use crate::control::now;
use crate::pause::{conflict, refused};
use crate::quota::QuotaGuard;
use crate::{
    Caller, ChangeError, CheckpointRecord, Control, CursorError, ResolveError, Sandbox, Team,
};

/// Tag of a snapshot that was given none.
const USUAL_TAG: &str = "default";

/// A caller's request for a snapshot.
#[derive(Debug, Clone)]
pub struct SnapshotOrder {
    /// Name that it is to have.
    pub name: Option<SnapshotName>,
    /// The parts of the sandbox that are kept.
    pub kind: ImageKind,
}

/// The name of a snapshot in the namespace of its team.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotName {
    name: String,
    tag: String,
}

/// A name in the namespace of somebody else.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("namespace '{0}' is not your team's")]
pub struct ForeignName(pub String);

impl SnapshotName {
    /// The name that a reference of this team means.
    ///
    /// # Errors
    ///
    /// [`ForeignName`].
    pub fn new(reference: TemplateReference, team: &Team) -> Result<Self, ForeignName> {
        match reference.namespace {
            Some(namespace) if namespace != team.slug => Err(ForeignName(namespace)),
            Some(_) | None => Ok(Self {
                name: reference.identifier,
                tag: reference.tag.unwrap_or_else(|| USUAL_TAG.to_owned()),
            }),
        }
    }
}

/// Selection of the snapshots of a team, the newest first.
#[derive(Debug, Clone, Default)]
pub struct SnapshotQuery {
    /// Only those that were taken of this sandbox.
    pub sandbox: Option<SandboxId>,
    /// Only those that this reference means.
    pub named: Option<TemplateReference>,
    /// Limit on their number.
    pub limit: u32,
    /// End of the page before.
    pub after: Option<SnapshotCursor>,
}

/// One page of snapshots.
#[derive(Debug, Clone)]
pub struct SnapshotPage {
    /// The snapshots.
    pub items: Vec<CheckpointRecord>,
    /// Start of the next page, if there is one.
    pub next: Option<SnapshotCursor>,
}

/// Failure to take a checkpoint, or to make copies. The sandbox goes on.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The sandbox cannot be copied.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// Its template is no longer to be had.
    #[error(transparent)]
    Template(#[from] ResolveError),
    /// The team keeps as many snapshots as it may, or as large ones.
    #[error("team keeps {limit} snapshots already")]
    TooMany {
        /// Limit of the team, in words.
        limit: String,
    },
    /// Its processes have files of volumes open, and a snapshot has no volumes.
    #[error("a snapshot with the memory of a sandbox with volumes cannot be taken")]
    HasVolumes,
    /// There is no such snapshot.
    #[error("no snapshot `{0}`")]
    NoSnapshot(TemplateReference),
    /// The checkpoint could not be written to the database, and was deleted.
    #[error("cannot record the checkpoint")]
    Record(#[from] StoreError),
    /// The task that made it died. It has been logged.
    #[error("copying broke off")]
    BrokeOff,
}

impl Control {
    /// Takes a checkpoint of a sandbox of the caller's team, which goes on or is paused as it was,
    /// and keeps it as a template.
    ///
    /// # Cancel safety
    ///
    /// A dropped call changes nothing: the checkpoint is taken and kept, or there is none.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`]; there is no checkpoint.
    pub async fn snapshot(
        &self,
        caller: &Caller,
        id: &SandboxId,
        order: SnapshotOrder,
    ) -> Result<CheckpointRecord, SnapshotError> {
        let (control, caller, id) = (self.clone(), caller.clone(), id.clone());
        let taking = self.detached("snapshot sandbox", async move {
            // Who asks for what is not there is told that, whatever the team keeps.
            let (entry, _) = control.changeable_entry(&caller, &id).await?;
            let _under_way = control.begin_snapshot(&caller).await?;
            if order.kind == ImageKind::Memory && !entry.order.mounts.is_empty() {
                return Err(SnapshotError::HasVolumes);
            }
            let what = (order.kind, ImagePurpose::Keep);
            let taken = control.take_checkpoint(&caller, &id, what).await;
            let (source, checkpoint) = taken?;
            let (name, tag) = match order.name {
                Some(SnapshotName { name, tag }) => (Some(name), tag),
                None => (None, USUAL_TAG.to_owned()),
            };
            let record = CheckpointRecord {
                id: CheckpointId::random(),
                team: source.team.clone(),
                snapshot: TemplateId::random(),
                name,
                tag,
                // The database knows it.
                parent: None,
                sandbox: source.id.clone(),
                template: source.template.clone(),
                template_name: source.base.clone(),
                node: source.node.clone(),
                checkpoint,
                resources: source.resources,
                created_at: now(),
            };
            control.keep_snapshot(record).await
        });
        taking.await.unwrap_or(Err(SnapshotError::BrokeOff))
    }

    async fn keep_snapshot(
        &self,
        record: CheckpointRecord,
    ) -> Result<CheckpointRecord, SnapshotError> {
        let inserting = self.inner.store.checkpoints().insert(record.clone());
        match inserting.recorded().await {
            Ok((kept, replaced)) => {
                self.forget_recorded(replaced).await;
                Ok(kept)
            }
            Err(error) => {
                self.forget_images([record]).await;
                Err(error.into())
            }
        }
    }

    /// Counts a snapshot that is being taken, until the guard is dropped.
    async fn begin_snapshot(&self, caller: &Caller) -> Result<QuotaGuard, SnapshotError> {
        let (team, limits) = (&caller.team.id, caller.limits);
        // Counted first: of two that look at the same moment, each sees the other among those under
        // way or among those that are kept.
        let under_way = self.inner.snapshots.take_anyway(team);
        let taking = u64::from(self.inner.snapshots.count(team));
        let total = self.inner.store.checkpoints().total(team.clone()).await?;
        let too_many = |limit| Err(SnapshotError::TooMany { limit });
        if total.count + taking > u64::from(limits.snapshots) {
            return too_many(limits.snapshots.to_string());
        }
        if total.bytes >= limits.snapshot_bytes {
            return too_many(format!("{} MiB of", limits.snapshot_bytes >> 20));
        }
        Ok(under_way)
    }

    /// The snapshots of the caller's team.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn snapshots(
        &self,
        caller: &Caller,
        query: SnapshotQuery,
    ) -> Result<SnapshotPage, StoreError> {
        let empty = SnapshotPage {
            items: Vec::new(),
            next: None,
        };
        let named = match query.named {
            Some(reference) if is_foreign(&reference, &caller.team) => return Ok(empty),
            Some(reference) => Some((reference.identifier, reference.tag)),
            None => None,
        };
        let filter = CheckpointFilter {
            team: caller.team.id.clone(),
            sandbox: query.sandbox,
            named,
            after: query.after.map(|cursor| (cursor.at, cursor.id)),
            // One more tells whether there is another page.
            limit: query.limit.saturating_add(1),
        };
        let mut items = self.inner.store.checkpoints().list(filter).await?;
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        let last = items.last().filter(|_| more);
        let next = last.map(|last| SnapshotCursor {
            at: last.created_at,
            id: last.id.clone(),
        });
        Ok(SnapshotPage { items, next })
    }

    /// The checkpoints of a sandbox of the caller's team that are kept, the newest first, and the one
    /// that it was made of, put back to, or that was taken of it at last.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`]; one that is gone and has left no checkpoint is not found.
    pub async fn checkpoints(
        &self,
        caller: &Caller,
        id: &SandboxId,
        limit: u32,
    ) -> Result<(Vec<CheckpointRecord>, Option<CheckpointId>), SnapshotError> {
        let query = SnapshotQuery {
            sandbox: Some(id.clone()),
            limit,
            ..SnapshotQuery::default()
        };
        let page = self.snapshots(caller, query).await?;
        if page.items.is_empty() {
            self.find(caller, id).await.map_err(ChangeError::from)?;
        }
        let position = self.inner.store.checkpoints().position(id.clone()).await?;
        Ok((page.items, position))
    }

    /// Forgets a snapshot of the caller's team with all its tags; says whether there was one.
    /// Sandboxes that were made of it go on: each has a disk of its own.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn forget_snapshot(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
    ) -> Result<bool, StoreError> {
        if is_foreign(reference, &caller.team) {
            return Ok(false);
        }
        let (team, named) = (caller.team.id.clone(), reference.identifier.clone());
        let removing = self.inner.store.checkpoints().remove(team, named);
        let removed = removing.recorded().await?;
        let was_there = !removed.is_empty();
        self.forget_recorded(removed).await;
        Ok(was_there)
    }

    /// Puts a sandbox of the caller's team back to one of its team's snapshots, in place.
    ///
    /// # Cancel safety
    ///
    /// A dropped call changes nothing: the sandbox goes back, or is as it was.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`]; the sandbox is as it was, or paused as it was.
    pub async fn roll_back(
        &self,
        caller: &Caller,
        id: &SandboxId,
        reference: TemplateReference,
        lifetime: Duration,
    ) -> Result<Sandbox, SnapshotError> {
        let (control, caller, id) = (self.clone(), caller.clone(), id.clone());
        let going_back = self.detached("roll back sandbox", async move {
            let (entry, _) = control.changeable_entry(&caller, &id).await?;
            let found = control.find_snapshot(&reference, &caller.team).await?;
            let record = found.ok_or(SnapshotError::NoSnapshot(reference))?;
            let checkpoint = record.checkpoint.clone();
            // A paused one runs afterwards, so it counts like one that is resumed.
            let turn = entry.resuming.lock().await;
            let quota = control
                .part_for_resume(&caller, &entry)
                .await
                .map_err(ChangeError::from)?;
            let request = RollBackRequest {
                restart: match checkpoint.kind {
                    ImageKind::Memory => None,
                    // The files may be those of another sandbox, and of its template.
                    ImageKind::Filesystem => {
                        control
                            .restart(&caller, &record.template_name, &entry)
                            .await
                    }
                },
                checkpoint,
                lifetime,
            };
            let rolling = control.inner.nodes.roll_back(id.clone(), request);
            let rolled = rolling.await.map_err(|error| refused(&id, error));
            if let (Ok(_), Some(quota)) = (&rolled, quota) {
                entry.set_quota(quota);
            }
            control.published(&entry).await;
            drop(turn);
            let status = rolled?;
            // Its files are those of another template now, if the snapshot is of a sandbox of one.
            entry.set_base(record.template_name.clone());
            let positions = control.inner.store.checkpoints();
            let noting = positions.set_back(id, record.id, record.template_name);
            noting.recorded().await?;
            Ok(Sandbox {
                order: Arc::clone(&entry.order),
                status,
            })
        });
        going_back.await.unwrap_or(Err(SnapshotError::BrokeOff))
    }

    /// The snapshot of a team that a reference means.
    pub(crate) async fn find_snapshot(
        &self,
        reference: &TemplateReference,
        team: &Team,
    ) -> Result<Option<CheckpointRecord>, StoreError> {
        if is_foreign(reference, team) {
            return Ok(None);
        }
        let tag = reference
            .tag
            .clone()
            .unwrap_or_else(|| USUAL_TAG.to_owned());
        let checkpoints = self.inner.store.checkpoints();
        let named = reference.identifier.clone();
        checkpoints.find(team.id.clone(), named, tag).await
    }

    pub(crate) async fn take_checkpoint(
        &self,
        caller: &Caller,
        id: &SandboxId,
        (kind, purpose): (ImageKind, ImagePurpose),
    ) -> Result<(Order, Checkpoint), ChangeError> {
        let (entry, status) = self.changeable_entry(caller, id).await?;
        match status.phase {
            Phase::Running | Phase::Paused => {}
            Phase::Snapshotting
            | Phase::Pausing
            | Phase::Resuming
            | Phase::Starting
            | Phase::Stopping
            | Phase::Stuck
            | Phase::Gone => return Err(conflict(id, status.phase)),
        }
        let taking = self.inner.nodes.snapshot(id.clone(), kind, purpose);
        let checkpoint = taking.await.map_err(|error| refused(id, error))?;
        self.note_checkpoint(id.clone());
        let order = Order {
            base: entry.base(),
            ..Order::clone(&entry.order)
        };
        Ok((order, checkpoint))
    }

    /// The template below a sandbox, by the reference that its record has: its image names the
    /// layers.
    pub(crate) async fn base_of(
        &self,
        caller: &Caller,
        base: &str,
    ) -> Result<TemplateImage, ResolveError> {
        let reference: TemplateReference = base
            .parse()
            .map_err(|error| ResolveError::Failed(Box::new(error)))?;
        match self.find_version(&caller.team, &reference).await? {
            Some(version) => Ok(version.image),
            None => self.inner.templates.resolve(&reference, &caller.team).await,
        }
    }

    /// Deletes images whose records were replaced or removed, when that is on the disk: after a loss of
    /// power the record would be there again, without its image. Those that stay are nobody's, and
    /// the next server deletes them.
    pub(crate) async fn forget_recorded(
        &self,
        records: impl IntoIterator<Item = CheckpointRecord>,
    ) {
        match self.inner.store.sync().recorded().await {
            Ok(()) => self.forget_images(records).await,
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "images of snapshots that were forgotten stay until the next start");
            }
        }
    }

    pub(crate) async fn forget_images(&self, records: impl IntoIterator<Item = CheckpointRecord>) {
        for CheckpointRecord {
            node, checkpoint, ..
        } in records
        {
            self.inner.nodes.forget_checkpoint(node, checkpoint).await;
        }
    }
}

fn is_foreign(reference: &TemplateReference, team: &Team) -> bool {
    let namespace = reference.namespace.as_ref();
    namespace.is_some_and(|namespace| *namespace != team.slug)
}

/// The last thing on a page of snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotCursor {
    /// Time at which it was taken.
    pub at: Timestamp,
    /// Id of the checkpoint, to order those of the same moment.
    pub id: CheckpointId,
}

impl SnapshotCursor {
    /// The text of the cursor.
    pub fn encode(&self) -> String {
        URL_SAFE_NO_PAD.encode(format!("{}__{}", self.at, self.id))
    }

    /// The cursor of a text.
    ///
    /// # Errors
    ///
    /// [`CursorError`].
    pub fn decode(text: &str) -> Result<Self, CursorError> {
        let bytes = URL_SAFE_NO_PAD.decode(text.trim_end_matches('='));
        let text = String::from_utf8(bytes.map_err(|_| CursorError)?).map_err(|_| CursorError)?;
        let (at, id) = text.split_once("__").ok_or(CursorError)?;
        Ok(Self {
            at: at.parse().map_err(|_| CursorError)?,
            id: id.parse().map_err(|_| CursorError)?,
        })
    }
}
