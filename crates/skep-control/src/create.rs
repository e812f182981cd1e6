//! Making a sandbox.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use skep_store::{CheckpointRecord, Order, StoreError};
use skep_telemetry::{Chain, trace};
use skep_types::{
    AccessToken, Capability, CheckpointId, Egress, EndReason, Ending, HostResource, IdentityTokens,
    ImageKind, Ingress, KillError, NodeId, OnTimeout, Placement, Redacted, SandboxId, SandboxKind,
    SandboxSpec, Secrets, TemplateId, TemplateImage, TemplateReference, TenantId, Unsupported,
    Usage,
};
use tokio::sync::oneshot;
use tracing::field::{Empty, display};
use tracing::{Instrument as _, Span, debug_span};

use crate::control::now;
use crate::idempotency::{Attempt, AttemptError, Claim};
use crate::quota::QuotaGuard;
use crate::registry::Entry;
use crate::{
    Blocked, Caller, Control, IdempotencyError, IdempotencyKey, InvalidMounts, Lifetime,
    MountRequest, NodeCreateError, RequestDigest, ResolveError,
};

/// Time limit for the host. Clients give up after sixty seconds.
const CREATE_TIMEOUT: Duration = Duration::from_secs(55);

/// A request for a sandbox.
#[derive(Debug, Clone)]
pub struct CreateRequest {
    /// Template that it is to be made of.
    pub template: TemplateReference,
    /// Time to live, counted from the moment it is ready.
    pub lifetime: Lifetime,
    /// True if callers of the sandbox need not show its token.
    pub is_open: bool,
    /// Rule for requests to its ports.
    pub ingress: Ingress,
    /// Fate at the end of that time.
    pub on_timeout: OnTimeout,
    /// True if requests to it are to resume it when it is paused.
    pub auto_resume: bool,
    /// Policy for its outgoing connections.
    pub egress: Egress,
    /// Identity tokens that rules of that policy may name.
    pub identity: IdentityTokens,
    /// Key-value pairs of the caller.
    pub metadata: BTreeMap<String, String>,
    /// Environment of all its processes.
    pub env: Redacted<Vec<(String, String)>>,
    /// Values that code in it must not show. Kept by its agent alone.
    pub secrets: Secrets,
    /// Volumes in it.
    pub mounts: Vec<MountRequest>,
    /// Key and digest that identify the same request when it comes again.
    pub idempotency: Option<(IdempotencyKey, RequestDigest)>,
}

/// Meaning of a reference.
struct Resolved {
    template: TemplateImage,
    names: ResolvedNames,
    /// The snapshot that the sandbox is made of, which stands on the template.
    snapshot: Option<CheckpointRecord>,
}

/// Names under which a sandbox is recorded.
struct ResolvedNames {
    /// Template that callers see.
    template: TemplateId,
    /// The name of that template.
    template_name: String,
    /// Reference of the template below it all, which means the same layers for as long as it is
    /// there.
    base: String,
}

/// Failure to create a sandbox. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The team may not start anything.
    #[error(transparent)]
    Blocked(#[from] Blocked),
    /// The reference gives no template.
    #[error(transparent)]
    Template(#[from] ResolveError),
    /// A volume cannot be had as it was asked for.
    #[error(transparent)]
    Mounts(#[from] InvalidMounts),
    /// The team has as many sandboxes as it may.
    #[error(transparent)]
    QuotaReached(#[from] QuotaReached),
    /// No host can do what it is to do when its time is over.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The host did not bring it up.
    #[error("cannot start the sandbox")]
    Node(#[from] NodeCreateError),
    /// The host took too long.
    #[error("sandbox did not come up within {} s", .0.as_secs())]
    Late(Duration),
    /// It could not be written down, so it would have been lost with the server.
    #[error("cannot record the sandbox")]
    Record(#[from] StoreError),
    /// The request is not the first of its name.
    #[error(transparent)]
    Idempotency(#[from] IdempotencyError),
    /// The task that made it died. It has been logged.
    #[error("creation broke off")]
    BrokeOff,
}

/// The team has as many sandboxes as it may. Nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("team runs {limit} sandboxes already")]
pub struct QuotaReached {
    /// Limit of the team.
    pub limit: u32,
}

impl From<AttemptError> for CreateError {
    fn from(error: AttemptError) -> Self {
        match error {
            AttemptError::Idempotency(error) => Self::Idempotency(error),
            AttemptError::Record(error) => Self::Record(error),
        }
    }
}

impl Control {
    /// Makes a sandbox and returns when its agent is reachable.
    ///
    /// # Cancel safety
    ///
    /// A dropped call changes nothing: the sandbox comes up, or fails, by itself.
    ///
    /// # Errors
    ///
    /// [`CreateError`]; nothing of the sandbox is left.
    pub async fn create(
        &self,
        caller: &Caller,
        request: CreateRequest,
    ) -> Result<Arc<Order>, CreateError> {
        caller.may_change()?;
        let (control, caller) = (self.clone(), caller.clone());
        let creating = self.detached("create sandbox", async move {
            let span = debug_span!("create sandbox", skep.sandbox.id = Empty);
            trace::step(span, Box::pin(control.create_now(&caller, request))).await
        });
        creating.await.unwrap_or(Err(CreateError::BrokeOff))
    }

    /// Runs `work` to its end, whatever becomes of the caller; `None` if it panicked.
    ///
    /// The one place where a creation is detached from its caller. It must be here, because what
    /// has to be undone or completed without the caller is control's: the claim of an idempotency
    /// key, the quota, and the row. Below, the driver is no second one: it owns its sandbox until
    /// the end, and a caller of it only waits for an answer.
    pub(crate) async fn detached<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (answer, done) = oneshot::channel();
        self.inner.tasks.spawn(name, async move {
            if answer.send(work.await).is_err() {
                tracing::debug!("caller hung up before the answer");
            }
        });
        done.await.ok()
    }

    async fn create_now(
        &self,
        caller: &Caller,
        mut request: CreateRequest,
    ) -> Result<Arc<Order>, CreateError> {
        let claim = match request.idempotency.take() {
            None => None,
            Some((key, digest)) => match self.attempt(caller, key, digest).await? {
                Attempt::First(claim) => Some(claim),
                Attempt::Repeated(order) => return Ok(order),
            },
        };
        let resolving = self.resolve(caller, &request.template);
        let resolved = trace::step(debug_span!("resolve template"), resolving).await?;
        let Resolved {
            template,
            names,
            snapshot,
        } = resolved;
        // What could not be written down would be lost with the server.
        if !self.inner.store.is_writable() {
            return Err(NodeCreateError::NoRoom(HostResource::Disk).into());
        }
        if (snapshot.as_ref()).is_some_and(|made_of| made_of.checkpoint.kind == ImageKind::Memory)
            && !request.mounts.is_empty()
        {
            return Err(InvalidMounts::on_memory().into());
        }
        let (mounts, _uses) = self.resolve_mounts(caller, &request.mounts).await?;
        let quota = self.reserve(caller).await?;
        let mut order = self
            .order(caller, &request, &template, names, snapshot.as_ref())
            .await;
        order.mounts = mounts;
        self.check_fate(&order).await?;
        // Refused before anything is recorded or made: the quota is given back and the idempotency
        // key is free, by being dropped.
        let admitting = self.inner.nodes.admit(&order.id, order.resources);
        let admitted = trace::step(debug_span!("admit"), admitting).await?;
        Span::current().record("skep.sandbox.id", display(&order.id));
        let span = tracing::info_span!("create", sandbox = %order.id);
        let spec = SandboxSpec {
            id: order.id.clone(),
            tenant: TenantId::new(&order.team, template.sharing),
            template,
            env: request.env,
            secrets: request.secrets,
            access_token: order.access_token.clone(),
            is_open: request.is_open,
            ingress: Arc::clone(&order.ingress),
            egress: request.egress,
            mounts: order.mounts.clone(),
            checkpoint: snapshot.as_ref().map(|made_of| made_of.checkpoint.clone()),
            lifetime: order.lifetime,
            on_timeout: order.on_timeout,
            auto_resume: order.auto_resume,
        };
        let share = (quota, caller.limits.most_paused());
        let created = self.start(order, spec, claim, share).instrument(span).await;
        drop(admitted);
        if let (Ok(order), Some(made_of)) = (&created, snapshot) {
            self.note_position(order.id.clone(), made_of.id).await;
        }
        created
    }

    /// Notes where the history of a sandbox begins. Without it the sandbox works all the same.
    async fn note_position(&self, id: SandboxId, checkpoint: CheckpointId) {
        let noting = self.inner.store.checkpoints().set_position(id, checkpoint);
        if let Err(error) = noting.recorded().await {
            tracing::warn!(error = %Chain(&error), "the history of a sandbox lacks its beginning");
        }
    }

    /// Finds what a reference means: a snapshot of the team, which goes before a template of the
    /// same name, a template that a team built, or one that belongs to everybody.
    async fn resolve(
        &self,
        caller: &Caller,
        reference: &TemplateReference,
    ) -> Result<Resolved, CreateError> {
        if let Some(snapshot) = self.find_snapshot(reference, &caller.team).await? {
            let base = self.base_of(caller, &snapshot.template_name).await?;
            return Ok(Resolved {
                names: ResolvedNames {
                    template: snapshot.snapshot.clone(),
                    template_name: snapshot.name.clone().unwrap_or_else(|| base.name.clone()),
                    base: snapshot.template_name.clone(),
                },
                template: TemplateImage {
                    resources: snapshot.resources,
                    ..base
                },
                snapshot: Some(snapshot),
            });
        }
        if let Some(version) = self.find_version(&caller.team, reference).await? {
            return Ok(Resolved {
                names: ResolvedNames {
                    template: version.template.clone(),
                    template_name: version.name.clone(),
                    base: version.fixed_reference(),
                },
                template: version.image,
                snapshot: None,
            });
        }
        let template = self
            .inner
            .templates
            .resolve(reference, &caller.team)
            .await?;
        Ok(Resolved {
            names: ResolvedNames {
                template: template.id.clone(),
                template_name: template.name.clone(),
                base: template.name.clone(),
            },
            template,
            snapshot: None,
        })
    }

    /// Checks that the host of a new sandbox can do what it is to do when its time is over: nobody
    /// is told so then.
    async fn check_fate(&self, order: &Order) -> Result<(), Unsupported> {
        let OnTimeout::Pause(kind) = order.on_timeout else {
            return Ok(());
        };
        let capabilities = self.inner.nodes.capabilities(&order.node).await;
        if kind == ImageKind::Memory && capabilities.has(Capability::Freeze) {
            return Ok(());
        }
        capabilities.need(Capability::of_image(kind))
    }

    pub(crate) async fn reserve(&self, caller: &Caller) -> Result<QuotaGuard, QuotaReached> {
        let (team, limit) = (&caller.team.id, caller.limits.sandboxes);
        if let Ok(quota) = self.inner.quota.take(team, limit) {
            return Ok(quota);
        }
        // Some may have ended without anybody looking since.
        for entry in self.inner.registry.of(team) {
            self.published(&entry).await;
        }
        let taken = self.inner.quota.take(team, limit);
        taken.map_err(|_full| QuotaReached { limit })
    }

    /// Writes the order. The host chooses the name: a spare has one already.
    async fn order(
        &self,
        caller: &Caller,
        request: &CreateRequest,
        template: &TemplateImage,
        names: ResolvedNames,
        snapshot: Option<&CheckpointRecord>,
    ) -> Order {
        let kind = SandboxKind {
            template: template.clone(),
            tenant: TenantId::new(&caller.team.id, template.sharing),
        };
        let Placement { node, id } = match snapshot {
            // No spare: it has files of its own. And nowhere else: the image is there.
            Some(snapshot) => Placement {
                node: snapshot.node.clone(),
                id: SandboxId::random(),
            },
            // No spare either: its root was made without the volumes.
            None if !request.mounts.is_empty() => Placement {
                node: NodeId::local(),
                id: SandboxId::random(),
            },
            None => self.inner.nodes.place(&kind).await,
        };
        Order {
            id,
            node,
            team: caller.team.id.clone(),
            template: names.template,
            template_name: names.template_name,
            base: names.base,
            metadata: request.metadata.clone(),
            access_token: Some(AccessToken::random()),
            ingress: Arc::new(request.ingress.clone()),
            internet: request.egress.internet(),
            resources: template.resources,
            lifetime: request.lifetime.get(),
            on_timeout: request.on_timeout,
            auto_resume: request.auto_resume,
            identity: request.identity.clone(),
            // Filled in by whoever has looked for them.
            mounts: Vec::new(),
            created_at: now(),
        }
    }

    /// Writes the order to the database while the host works on it, and needs both to succeed.
    pub(crate) async fn start(
        &self,
        order: Order,
        spec: SandboxSpec,
        claim: Option<Claim>,
        (quota, most_paused): (QuotaGuard, u32),
    ) -> Result<Arc<Order>, CreateError> {
        let idempotency = claim.as_ref().map(Claim::to_record);
        let recording = (self.inner.store.sandboxes()).insert(order.clone(), idempotency);
        let launching = self.launch(spec);
        let launched = trace::step(debug_span!("start on host"), launching).await;
        let recorded = trace::step(debug_span!("record order"), recording.recorded()).await;
        let outcome = match (launched, recorded) {
            (Ok(()), Ok(())) => Ok(()),
            (Err(error), _) => Err(error),
            (Ok(()), Err(error)) => Err(CreateError::Record(error)),
        };
        match outcome {
            Ok(()) => {
                let entry = Entry::new(order, Some(quota), most_paused);
                let entry = self.inner.registry.insert(entry);
                Ok(Arc::clone(&entry.order))
            }
            Err(error) => {
                let entry = Entry::new(order, Some(quota), most_paused);
                self.abandon(entry, claim.as_ref()).await;
                Err(error)
            }
        }
    }

    async fn launch(&self, spec: SandboxSpec) -> Result<(), CreateError> {
        match tokio::time::timeout(CREATE_TIMEOUT, self.inner.nodes.create(spec)).await {
            Ok(created) => Ok(created.map(|_status| ())?),
            Err(_elapsed) => Err(CreateError::Late(CREATE_TIMEOUT)),
        }
    }

    /// Makes sure that nothing is left of a sandbox that nobody will be told of, and that the
    /// same request may be tried again.
    async fn abandon(&self, entry: Entry, claim: Option<&Claim>) {
        let order = Arc::clone(&entry.order);
        match self.inner.nodes.kill(order.id.clone()).await {
            Ok(()) | Err(KillError::NotHere(_)) => self.record_failed_start(&order).await,
            Err(error @ KillError::Stuck) => {
                tracing::error!(error = %Chain(&error), "failed sandbox could not be removed");
                // The host reports its end, and until then it counts for its team.
                self.inner.registry.insert(entry);
            }
        }
        let sandboxes = self.inner.store.sandboxes();
        if let Some(claim) = claim
            && let Err(error) = (sandboxes.forget(order.team.clone(), claim.key()))
                .recorded()
                .await
        {
            tracing::error!(error = %Chain(&error), "idempotency key could not be freed");
        }
    }

    async fn record_failed_start(&self, order: &Order) {
        let ending = Ending {
            reason: EndReason::StartFailed,
            usage: Usage::default(),
            at: now(),
        };
        // The host may have reported a better reason; then that one is kept. The database may not
        // know the sandbox at all; then there is nothing to end.
        let ended = self.inner.store.sandboxes().ended(order.id.clone(), ending);
        match ended.recorded().await {
            Ok(_) | Err(StoreError::Missing { .. }) => {}
            Err(error) => {
                tracing::error!(error = %Chain(&error), "failed start could not be recorded");
            }
        }
    }
}
