//! Sandboxes that exist in memory alone.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use skep_store::Store;
use skep_types::{
    Capabilities, Capability, Checkpoint, DeadlineMode, Egress, EndReason, Ending, ExecutionId,
    HostResource, ImageKind, ImagePurpose, KeptIn, KillError, LogEntry, LoggedRequest, NodeId,
    NotHere, Obstacle, PauseRequest, Phase, Placement, Resources, ResumeRequest, ResumeStart,
    Resumed, RollBackRequest, SandboxId, SandboxKind, SandboxRun, SandboxSpec, SandboxStatus,
    TemplateId, TenantId, TransitionError, Usage,
};
use tokio::sync::Notify;

use super::{Admitted, NodeCreateError, Nodes};
use crate::Reports;

/// A host that runs nothing and keeps the database as a real one does. Clones share it.
///
/// Deadlines are kept but do not fire by themselves: [`FakeNodes::end`] plays that part.
#[derive(Debug, Clone)]
pub struct FakeNodes {
    reports: Reports,
    state: Arc<Mutex<State>>,
    released: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    sandboxes: HashMap<SandboxId, Held>,
    refusals: VecDeque<NodeCreateError>,
    lacking: Option<HostResource>,
    holding: bool,
    waiting: usize,
    warmed: Vec<(TemplateId, TenantId)>,
    capabilities: Capabilities,
    /// Records of the images that were not forgotten.
    images: Vec<String>,
    image_count: u64,
    /// Images that sandboxes were put back to.
    rolled_back: Vec<RollBackRequest>,
    are_agents_silent: bool,
}

#[derive(Debug)]
struct Held {
    status: SandboxStatus,
    spec: SandboxSpec,
    usage: Usage,
    logs: Vec<LogEntry>,
    requests: Vec<LoggedRequest>,
}

impl FakeNodes {
    /// A host without sandboxes.
    pub fn new(store: Store) -> Self {
        Self {
            reports: Reports::new(store, NodeId::local()),
            state: Arc::default(),
            released: Arc::default(),
        }
    }

    /// Gives the host abilities; at first it has none.
    pub fn set_capabilities(&self, capabilities: Capabilities) {
        self.state.lock().capabilities = capabilities;
    }

    /// Lets no agent answer from now on, or all again.
    pub fn silence_agents(&self, silent: bool) {
        self.state.lock().are_agents_silent = silent;
    }

    /// The images that sandboxes were put back to.
    pub fn rolled_back(&self) -> Vec<RollBackRequest> {
        self.state.lock().rolled_back.clone()
    }

    /// Number of images that were not forgotten.
    pub fn image_count(&self) -> usize {
        self.state.lock().images.len()
    }

    /// Lets the next creation fail; several are used up in the order of the calls.
    pub fn refuse_next(&self, error: NodeCreateError) {
        self.state.lock().refusals.push_back(error);
    }

    /// Sets the resource for want of which there is no room; `None` makes room again.
    pub fn lack(&self, resource: Option<HostResource>) {
        self.state.lock().lacking = resource;
    }

    /// Lets creations wait until [`FakeNodes::release`].
    pub fn hold(&self) {
        self.state.lock().holding = true;
    }

    /// Lets waiting and future creations through.
    pub fn release(&self) {
        self.state.lock().holding = false;
        self.released.notify_waiters();
    }

    /// Number of creations that wait.
    pub fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    /// The templates that were to be made ready, and for whom.
    pub fn warmed(&self) -> Vec<(TemplateId, TenantId)> {
        self.state.lock().warmed.clone()
    }

    /// Number of sandboxes on the node.
    pub fn count(&self) -> usize {
        self.state.lock().sandboxes.len()
    }

    /// Specification that a sandbox was created with.
    pub fn spec(&self, id: &SandboxId) -> Option<SandboxSpec> {
        self.state
            .lock()
            .sandboxes
            .get(id)
            .map(|held| held.spec.clone())
    }

    /// Says what a sandbox has used from now on.
    pub fn set_usage(&self, id: &SandboxId, usage: Usage) {
        if let Some(held) = self.state.lock().sandboxes.get_mut(id) {
            held.usage = usage;
        }
    }

    /// Says when a sandbox started, so that tests of lists need not wait.
    pub fn set_started_at(&self, id: &SandboxId, started_at: Timestamp) {
        if let Some(held) = self.state.lock().sandboxes.get_mut(id) {
            held.status.started_at = started_at;
        }
    }

    /// Says which phase a sandbox has published.
    pub fn set_phase(&self, id: &SandboxId, phase: Phase) {
        if let Some(held) = self.state.lock().sandboxes.get_mut(id) {
            held.status.phase = phase;
        }
    }

    /// Says what keeps a sandbox from being written to an image.
    pub fn set_obstacle(&self, id: &SandboxId, obstacle: Obstacle) {
        if let Some(held) = self.state.lock().sandboxes.get_mut(id) {
            held.status.obstacle = Some(obstacle);
        }
    }

    /// Lets a sandbox say something.
    pub fn log(&self, id: &SandboxId, entry: LogEntry) {
        if let Some(held) = self.state.lock().sandboxes.get_mut(id) {
            held.logs.push(entry);
        }
    }

    /// Lets a sandbox ask for something.
    pub fn request(&self, id: &SandboxId, request: LoggedRequest) {
        if let Some(held) = self.state.lock().sandboxes.get_mut(id) {
            held.requests.push(request);
        }
    }

    /// Ends a sandbox for a reason of its own; says whether it was there.
    pub async fn end(&self, id: &SandboxId, reason: EndReason) -> bool {
        let held = self.state.lock().sandboxes.remove(id);
        let Some(held) = held else {
            return false;
        };
        let ending = Ending {
            reason,
            usage: held.usage,
            at: now(),
        };
        // The sandbox is gone either way; a database that fails is what some tests are about.
        self.reports.ended(id.clone(), ending).await;
        true
    }

    async fn create(&self, spec: SandboxSpec) -> Result<SandboxStatus, NodeCreateError> {
        self.wait_for_release().await;
        let refusal = self.state.lock().refusals.pop_front();
        if let Some(error) = refusal {
            return Err(error);
        }
        let started_at = now();
        let status = SandboxStatus {
            id: spec.id.clone(),
            execution: ExecutionId::random(),
            phase: Phase::Running,
            started_at,
            ends_at: later(started_at, spec.lifetime),
            on_timeout: spec.on_timeout,
            egress: spec.egress.clone(),
            agent_was_silent: false,
            paused: None,
            kept_in: None,
            obstacle: None,
            ending: None,
        };
        // The order may be refused by the database at the same time, which is control's business.
        self.reports.started(spec.id.clone(), run(&status)).await;
        let held = Held {
            status: status.clone(),
            spec,
            usage: Usage::default(),
            logs: Vec::new(),
            requests: Vec::new(),
        };
        self.state.lock().sandboxes.insert(status.id.clone(), held);
        Ok(status)
    }

    async fn wait_for_release(&self) {
        self.state.lock().waiting += 1;
        loop {
            let released = self.released.notified();
            if !self.state.lock().holding {
                break;
            }
            released.await;
        }
        self.state.lock().waiting -= 1;
    }
}

impl Nodes for FakeNodes {
    fn place<'a>(&'a self, _kind: &'a SandboxKind) -> BoxFuture<'a, Placement> {
        let placement = Placement {
            node: NodeId::local(),
            id: SandboxId::random(),
        };
        std::future::ready(placement).boxed()
    }

    fn warm(&self, kind: SandboxKind) {
        let warmed = (kind.template.id, kind.tenant);
        self.state.lock().warmed.push(warmed);
    }

    fn warm_built(&self, kind: SandboxKind) {
        self.warm(kind);
    }

    fn capabilities<'a>(&'a self, _node: &'a NodeId) -> BoxFuture<'a, Capabilities> {
        let capabilities = self.state.lock().capabilities;
        std::future::ready(capabilities).boxed()
    }

    fn admit<'a>(
        &'a self,
        _id: &'a SandboxId,
        _resources: Resources,
    ) -> BoxFuture<'a, Result<Admitted, NodeCreateError>> {
        let admitted = match self.state.lock().lacking {
            Some(resource) => Err(NodeCreateError::NoRoom(resource)),
            None => Ok(Box::new(()) as Admitted),
        };
        std::future::ready(admitted).boxed()
    }

    fn create(&self, spec: SandboxSpec) -> BoxFuture<'_, Result<SandboxStatus, NodeCreateError>> {
        FakeNodes::create(self, spec).boxed()
    }

    fn kill(&self, id: SandboxId) -> BoxFuture<'_, Result<(), KillError>> {
        async move {
            // Somebody else ends it: a node waits for that, and then has nothing to kill.
            let held = self
                .state
                .lock()
                .sandboxes
                .get(&id)
                .map(|held| held.status.phase);
            if held != Some(Phase::Stopping) && self.end(&id, EndReason::Killed).await {
                Ok(())
            } else {
                Err(NotHere.into())
            }
        }
        .boxed()
    }

    fn set_lifetime(
        &self,
        id: SandboxId,
        lifetime: Duration,
        mode: DeadlineMode,
    ) -> BoxFuture<'_, Result<SandboxStatus, NotHere>> {
        async move {
            let wanted = later(now(), lifetime);
            let status = {
                let mut state = self.state.lock();
                let held = state.sandboxes.get_mut(&id).ok_or(NotHere)?;
                held.status.ends_at = match mode {
                    DeadlineMode::Set => wanted,
                    DeadlineMode::Extend => wanted.max(held.status.ends_at),
                };
                held.status.clone()
            };
            self.reports.changed(id.clone(), run(&status)).await;
            if lifetime.is_zero() && mode == DeadlineMode::Set {
                self.end(&id, EndReason::Timeout).await;
            }
            Ok(status)
        }
        .boxed()
    }

    fn pause(
        &self,
        id: SandboxId,
        request: PauseRequest,
    ) -> BoxFuture<'_, Result<SandboxStatus, TransitionError>> {
        async move {
            let PauseRequest { kind, .. } = request;
            let needed = match kind {
                ImageKind::Memory => Capability::Freeze,
                ImageKind::Filesystem => Capability::FilesystemImage,
            };
            if request.needs_agent && self.state.lock().are_agents_silent {
                return Err(TransitionError::AgentSilent);
            }
            let is_silent = self.state.lock().are_agents_silent;
            let status = self.change(&id, needed, |status| {
                let is_of_that_run =
                    (request.execution).is_none_or(|execution| execution == status.execution);
                if status.phase == Phase::Running && is_of_that_run {
                    status.phase = Phase::Paused;
                    status.paused = Some(kind);
                    status.kept_in = Some(match kind {
                        ImageKind::Memory => KeptIn::Memory,
                        ImageKind::Filesystem => KeptIn::Files,
                    });
                    status.agent_was_silent = is_silent;
                    status.ends_at = now();
                }
            })?;
            self.reports.changed(id, run(&status)).await;
            Ok(status)
        }
        .boxed()
    }

    fn resume(
        &self,
        id: SandboxId,
        request: ResumeRequest,
    ) -> BoxFuture<'_, Result<Resumed, TransitionError>> {
        async move {
            let mut was_running = false;
            let mut was_silent = false;
            let status = self.change(&id, Capability::Freeze, |status| {
                let wanted = later(now(), request.lifetime);
                was_silent = status.agent_was_silent && request.start == ResumeStart::AsPaused;
                if status.phase == Phase::Running {
                    was_running = true;
                    status.ends_at = status.ends_at.max(wanted);
                } else if !was_silent {
                    status.phase = Phase::Running;
                    status.paused = None;
                    status.agent_was_silent = false;
                    status.execution = ExecutionId::random();
                    status.started_at = now();
                    status.ends_at = wanted;
                    status.on_timeout = request.on_timeout.unwrap_or(status.on_timeout);
                }
            })?;
            if was_silent {
                return Err(TransitionError::AgentWasSilent);
            }
            self.reports.started(id, run(&status)).await;
            Ok(Resumed {
                status,
                was_running,
            })
        }
        .boxed()
    }

    fn roll_back(
        &self,
        id: SandboxId,
        request: RollBackRequest,
    ) -> BoxFuture<'_, Result<SandboxStatus, TransitionError>> {
        async move {
            let needed = Capability::of_image(request.checkpoint.kind);
            let status = self.change(&id, needed, |status| {
                if status.phase == Phase::Paused {
                    status.ends_at = later(now(), request.lifetime);
                }
                status.phase = Phase::Running;
                status.paused = None;
                status.kept_in = Some(request.checkpoint.kind.into());
                status.execution = ExecutionId::random();
                status.started_at = now();
            })?;
            self.state.lock().rolled_back.push(request);
            self.reports.started(id, run(&status)).await;
            Ok(status)
        }
        .boxed()
    }

    fn snapshot(
        &self,
        id: SandboxId,
        kind: ImageKind,
        _purpose: ImagePurpose,
    ) -> BoxFuture<'_, Result<Checkpoint, TransitionError>> {
        let taken = self
            .change(&id, Capability::of_image(kind), |_status| {})
            .map(|_status| {
                let mut state = self.state.lock();
                state.image_count += 1;
                let record = format!("{id}/{}", state.image_count);
                state.images.push(record.clone());
                Checkpoint {
                    record,
                    kind,
                    bytes: 4096,
                }
            });
        std::future::ready(taken).boxed()
    }

    fn forget_checkpoint(&self, _node: NodeId, checkpoint: Checkpoint) -> BoxFuture<'_, ()> {
        let mut state = self.state.lock();
        state.images.retain(|record| *record != checkpoint.record);
        drop(state);
        std::future::ready(()).boxed()
    }

    fn set_egress(
        &self,
        id: SandboxId,
        egress: Egress,
    ) -> BoxFuture<'_, Result<(), TransitionError>> {
        let changed = self
            .change(&id, Capability::EgressChange, |status| {
                status.egress = egress.clone();
            })
            .map(|_status| {
                if let Some(held) = self.state.lock().sandboxes.get_mut(&id) {
                    held.spec.egress = egress;
                }
            });
        std::future::ready(changed).boxed()
    }

    fn usage(&self, id: SandboxId) -> BoxFuture<'_, Result<Usage, NotHere>> {
        let usage = self.state.lock().sandboxes.get(&id).map(|held| held.usage);
        async move { usage.ok_or(NotHere) }.boxed()
    }

    fn kept_logs(&self) -> BoxFuture<'_, io::Result<Vec<(SandboxId, u64)>>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn forget_log(&self, _id: SandboxId) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    fn requests(&self, id: SandboxId) -> BoxFuture<'_, Vec<LoggedRequest>> {
        let state = self.state.lock();
        let requests = state.sandboxes.get(&id).map(|held| held.requests.clone());
        async move { requests.unwrap_or_default() }.boxed()
    }

    fn logs(&self, id: SandboxId) -> BoxFuture<'_, Vec<LogEntry>> {
        let logs = self
            .state
            .lock()
            .sandboxes
            .get(&id)
            .map(|held| held.logs.clone());
        async move { logs.unwrap_or_default() }.boxed()
    }

    fn status<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Option<SandboxStatus>> {
        std::future::ready(self.published(id)).boxed()
    }
}

impl FakeNodes {
    /// Changes the status of a sandbox, if the host has the ability.
    fn change(
        &self,
        id: &SandboxId,
        capability: Capability,
        change: impl FnOnce(&mut SandboxStatus),
    ) -> Result<SandboxStatus, TransitionError> {
        let mut state = self.state.lock();
        state.capabilities.need(capability)?;
        let held = state.sandboxes.get_mut(id).ok_or(NotHere)?;
        change(&mut held.status);
        Ok(held.status.clone())
    }

    fn published(&self, id: &SandboxId) -> Option<SandboxStatus> {
        self.state
            .lock()
            .sandboxes
            .get(id)
            .map(|held| held.status.clone())
    }
}

fn run(status: &SandboxStatus) -> SandboxRun {
    SandboxRun {
        execution: status.execution,
        driver_record: "a fake".to_owned(),
        started_at: status.started_at,
        ends_at: status.ends_at,
        paused: status.paused,
    }
}

fn now() -> Timestamp {
    crate::control::now()
}

fn later(time: Timestamp, duration: Duration) -> Timestamp {
    time.checked_add(duration).unwrap_or(Timestamp::MAX)
}
