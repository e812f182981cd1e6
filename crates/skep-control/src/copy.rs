//! Copies of sandboxes: forks, and checkpoints that are kept.

use std::sync::Arc;

use futures_util::future::join_all;
use skep_store::{CheckpointRecord, Order, StoreError};
use skep_types::{
    AccessToken, Checkpoint, CheckpointId, ImageKind, Redacted, SandboxId, SandboxSpec, Secrets,
    TemplateImage, TemplateReference, TenantId,
};

use crate::control::now;
use crate::pause::refused;
use crate::{Caller, ChangeError, Control, CreateError, Lifetime, ResolveError};

/// A request for copies of a running sandbox.
#[derive(Debug, Clone, Copy)]
pub struct ForkRequest {
    /// Number of copies.
    pub count: usize,
    /// Time to live of each, counted from the moment it is ready.
    pub lifetime: Lifetime,
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
    /// The checkpoint could not be written to the database, and was deleted.
    #[error("cannot record the checkpoint")]
    Record(#[from] StoreError),
    /// The task that made it died. It has been logged.
    #[error("copying broke off")]
    BrokeOff,
}

impl Control {
    /// Makes copies of a running sandbox of the caller's team, each with an identity of its own,
    /// and returns what became of each.
    ///
    /// # Cancel safety
    ///
    /// A dropped call changes nothing: the copies come up, or fail, by themselves.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`]; there is no copy.
    pub async fn fork(
        &self,
        caller: &Caller,
        id: &SandboxId,
        request: ForkRequest,
    ) -> Result<Vec<Result<Arc<Order>, CreateError>>, SnapshotError> {
        let (control, caller, id) = (self.clone(), caller.clone(), id.clone());
        let forking = self.detached("fork sandbox", async move {
            let (source, checkpoint) = control.take_checkpoint(&caller, &id).await?;
            let template = control.template_of(&caller, &source).await;
            let copies = match &template {
                Ok(template) => {
                    let copy = |_| control.copy(&caller, &source, template, &checkpoint, request);
                    Ok(join_all((0..request.count).map(copy)).await)
                }
                Err(_) => Ok(Vec::new()),
            };
            // The image is for these copies alone.
            let node = source.node.clone();
            control
                .inner
                .nodes
                .forget_checkpoint(node, checkpoint)
                .await;
            template?;
            copies
        });
        forking.await.unwrap_or(Err(SnapshotError::BrokeOff))
    }

    /// Takes a checkpoint of a running sandbox of the caller's team and keeps it.
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
    ) -> Result<CheckpointRecord, SnapshotError> {
        let (control, caller, id) = (self.clone(), caller.clone(), id.clone());
        let taking = self.detached("snapshot sandbox", async move {
            let (source, checkpoint) = control.take_checkpoint(&caller, &id).await?;
            let record = CheckpointRecord {
                id: CheckpointId::random(),
                team: source.team.clone(),
                sandbox: source.id.clone(),
                template: source.template.clone(),
                template_name: source.template_name.clone(),
                node: source.node.clone(),
                checkpoint,
                created_at: now(),
            };
            let inserting = control.inner.store.checkpoints().insert(record.clone());
            if let Err(error) = inserting.recorded().await {
                let CheckpointRecord {
                    node, checkpoint, ..
                } = record;
                control
                    .inner
                    .nodes
                    .forget_checkpoint(node, checkpoint)
                    .await;
                return Err(error.into());
            }
            Ok(record)
        });
        taking.await.unwrap_or(Err(SnapshotError::BrokeOff))
    }

    /// The checkpoints that the caller's team keeps, the newest first.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn snapshots(&self, caller: &Caller) -> Result<Vec<CheckpointRecord>, StoreError> {
        let team = caller.team.id.clone();
        self.inner.store.checkpoints().list(team).await
    }

    /// Forgets a checkpoint of the caller's team; says whether there was one.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn forget_snapshot(
        &self,
        caller: &Caller,
        id: CheckpointId,
    ) -> Result<bool, StoreError> {
        let team = caller.team.id.clone();
        let removing = self.inner.store.checkpoints().remove(team, id);
        let Some(removed) = removing.recorded().await? else {
            return Ok(false);
        };
        let forgetting = self
            .inner
            .nodes
            .forget_checkpoint(removed.node, removed.checkpoint);
        forgetting.await;
        Ok(true)
    }

    async fn take_checkpoint(
        &self,
        caller: &Caller,
        id: &SandboxId,
    ) -> Result<(Arc<Order>, Checkpoint), ChangeError> {
        let (entry, _) = self.changeable_entry(caller, id).await?;
        let taking = self.inner.nodes.snapshot(id.clone(), ImageKind::Memory);
        let checkpoint = taking.await.map_err(|error| refused(id, error))?;
        Ok((Arc::clone(&entry.order), checkpoint))
    }

    async fn template_of(
        &self,
        caller: &Caller,
        source: &Order,
    ) -> Result<TemplateImage, ResolveError> {
        let reference = TemplateReference {
            namespace: None,
            identifier: source.template.to_string(),
            tag: None,
        };
        self.inner.templates.resolve(&reference, &caller.team).await
    }

    async fn copy(
        &self,
        caller: &Caller,
        source: &Order,
        template: &TemplateImage,
        checkpoint: &Checkpoint,
        request: ForkRequest,
    ) -> Result<Arc<Order>, CreateError> {
        let quota = self.reserve(caller).await?;
        let order = Order {
            // No spare: it has a memory of its own. And nowhere else: the image is there.
            id: SandboxId::random(),
            access_token: Some(AccessToken::random()),
            lifetime: request.lifetime.get(),
            created_at: now(),
            ..source.clone()
        };
        let admitted = self.inner.nodes.admit(&order.id, order.resources).await?;
        let spec = SandboxSpec {
            id: order.id.clone(),
            tenant: TenantId::new(&order.team, template.sharing),
            template: template.clone(),
            // The environment and the secrets of the source are in the image.
            env: Redacted::default(),
            secrets: Secrets::default(),
            access_token: order.access_token.clone(),
            egress: order.egress(),
            mounts: Vec::new(),
            checkpoint: Some(checkpoint.clone()),
            lifetime: order.lifetime,
        };
        let started = self.start(order, spec, None, quota).await;
        drop(admitted);
        started
    }
}
