//! Copies of running sandboxes.

use std::sync::Arc;

use futures_util::future::join_all;
use skep_store::Order;
use skep_types::{
    AccessToken, Checkpoint, Egress, ImageKind, ImagePurpose, Phase, Redacted, SandboxId,
    SandboxSpec, Secrets, TemplateImage, TenantId,
};

use crate::control::now;
use crate::pause::conflict;
use crate::{Caller, Control, CreateError, Lifetime, SnapshotError};

/// A request for copies of a running sandbox.
#[derive(Debug, Clone, Copy)]
pub struct ForkRequest {
    /// Number of copies.
    pub count: usize,
    /// Time to live of each, counted from the moment it is ready.
    pub lifetime: Lifetime,
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
            let (entry, status) = control.changeable_entry(&caller, &id).await?;
            if status.phase == Phase::Paused {
                return Err(conflict(&id, status.phase).into());
            }
            // The copies have them as well, also if their source ends meanwhile.
            let _uses = control.hold_volumes(&entry.order.mounts);
            let what = (ImageKind::Memory, ImagePurpose::Copy);
            let taken = control.take_checkpoint(&caller, &id, what);
            let (source, checkpoint) = taken.await?;
            // Rules that came while the memory was copied hold for the copies, too, unless their
            // source has ended since.
            let egress = match control.changeable_entry(&caller, &id).await {
                Ok((_, now)) => now.egress,
                Err(_) => status.egress,
            };
            // A resume may have given it another fate than it was ordered with.
            let source = Order {
                on_timeout: status.on_timeout,
                ..source
            };
            let template = control.base_of(&caller, &source.base).await;
            let copies = match &template {
                Ok(template) => {
                    let copy = |_| {
                        control.copy(&caller, &source, template, (&checkpoint, &egress), request)
                    };
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

    async fn copy(
        &self,
        caller: &Caller,
        source: &Order,
        template: &TemplateImage,
        (checkpoint, egress): (&Checkpoint, &Egress),
        request: ForkRequest,
    ) -> Result<Arc<Order>, CreateError> {
        let quota = self.reserve(caller).await?;
        let order = Order {
            // No spare: it has a memory of its own. And nowhere else: the image is there.
            id: SandboxId::random(),
            access_token: Some(AccessToken::random()),
            internet: egress.internet(),
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
            // Whatever its source is: clients that make copies know tokens.
            is_open: false,
            ingress: Arc::clone(&order.ingress),
            egress: egress.clone(),
            mounts: order.mounts.clone(),
            checkpoint: Some(checkpoint.clone()),
            lifetime: order.lifetime,
            on_timeout: order.on_timeout,
            auto_resume: order.auto_resume,
        };
        let share = (quota, caller.limits.most_paused());
        let started = self.start(order, spec, None, share).await;
        drop(admitted);
        started
    }
}
