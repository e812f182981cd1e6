//! A backend without sandboxes, for tests of everything above.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use skep_types::{
    Capabilities, Capability, Checkpoint, Connections, Egress, HostCapacity, ImageKind,
    LoggedRequest, Mount, Redacted, SandboxId, TenantId, Usage,
};
use tokio::sync::watch;

use crate::{
    AdoptError, AfterCheckpoint, ChangeError, DestroyError, Exit, Isolation, LaunchError,
    LaunchRecord, LaunchRequest, Launched, RestoreRequest, RestoreTarget, Sandbox, Swept, Tier,
    UsageError,
};

/// A backend whose sandboxes live in memory. Clones share them, so a test can drop the
/// "server" around one clone and adopt the sandboxes through another.
#[derive(Debug, Clone, Default)]
pub struct FakeIsolation {
    /// The living sandboxes and the next failure to report.
    state: Arc<Mutex<State>>,
    gate: Arc<Gate>,
}

/// A place at which changes wait while a test looks at what else is possible meanwhile.
#[derive(Debug, Default)]
struct Gate {
    is_closed: watch::Sender<bool>,
    waiting: watch::Sender<usize>,
}

impl Gate {
    async fn pass(&self) {
        self.waiting.send_modify(|count| *count += 1);
        let mut is_closed = self.is_closed.subscribe();
        let opened = is_closed.wait_for(|is_closed| !is_closed).await;
        opened.expect("the sender is in self");
        self.waiting.send_modify(|count| *count -= 1);
    }
}

/// Ways in which a change fails.
#[derive(Debug)]
enum Failing {
    LeavesAll,
    Damages,
}

#[derive(Debug)]
struct State {
    capabilities: Capabilities,
    living: Vec<Arc<FakeSandbox>>,
    fail_next: Option<LaunchError>,
    /// Set if the next change of a sandbox is to fail.
    fail_change: Option<Failing>,
    /// Images of checkpoints, by their record.
    images: HashMap<String, Image>,
    /// Number of images that were compressed.
    compressed: usize,
    image_count: u64,
    /// Resources of the host. At first it counts nothing, so there is no bound.
    capacity: HostCapacity,
    damaged: Vec<SandboxId>,
    hoarding: Vec<SandboxId>,
    /// Those of which something cannot be removed.
    stuck: HashSet<SandboxId>,
    /// Number of attempts to destroy one of those.
    failures: usize,
}

/// A checkpoint: what it would take to make a sandbox like that.
#[derive(Debug, Clone)]
struct Image {
    tenant: TenantId,
    mounts: Vec<Mount>,
    usage: Usage,
    agent_config: Redacted<Vec<u8>>,
}

impl State {
    /// Keeps an image and returns its record.
    fn keep(&mut self, id: &SandboxId, image: Image) -> String {
        self.image_count += 1;
        let record = format!("{id}/{}", self.image_count);
        self.images.insert(record.clone(), image);
        record
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            capabilities: Capabilities::all(),
            living: Vec::new(),
            fail_next: None,
            fail_change: None,
            images: HashMap::new(),
            compressed: 0,
            image_count: 0,
            capacity: HostCapacity::default(),
            damaged: Vec::new(),
            hoarding: Vec::new(),
            stuck: HashSet::new(),
            failures: 0,
        }
    }
}

#[derive(Debug)]
struct FakeSandbox {
    id: SandboxId,
    tenant: TenantId,
    mounts: Vec<Mount>,
    egress: Mutex<Egress>,
    is_frozen: Mutex<bool>,
    page_outs: Mutex<u32>,
    exit: watch::Sender<Option<Exit>>,
    /// Current values of its counters.
    usage: Mutex<Usage>,
    /// Configuration that its agent has now.
    agent_config: Mutex<Redacted<Vec<u8>>>,
}

impl FakeSandbox {
    fn of(request: LaunchRequest) -> Self {
        Self {
            id: request.id,
            tenant: request.tenant,
            mounts: request.mounts,
            egress: Mutex::new(request.egress.clone()),
            is_frozen: Mutex::default(),
            page_outs: Mutex::default(),
            exit: watch::Sender::new(None),
            usage: Mutex::default(),
            agent_config: Mutex::new(request.agent_config),
        }
    }

    /// The sandbox of an image, under this id.
    fn restored(id: SandboxId, egress: Egress, image: Image) -> Self {
        Self {
            id,
            tenant: image.tenant,
            mounts: image.mounts,
            egress: Mutex::new(egress),
            is_frozen: Mutex::default(),
            page_outs: Mutex::default(),
            exit: watch::Sender::new(None),
            usage: Mutex::new(image.usage),
            agent_config: Mutex::new(image.agent_config),
        }
    }

    fn usage(&self) -> Usage {
        *self.usage.lock()
    }
}

impl FakeIsolation {
    /// Leaves a backend with these abilities alone.
    pub fn set_capabilities(&self, capabilities: Capabilities) {
        self.state.lock().capabilities = capabilities;
    }

    /// Makes the next freeze, thaw, checkpoint or change of egress fail.
    pub fn fail_next_change(&self) {
        self.state.lock().fail_change = Some(Failing::LeavesAll);
    }

    /// The same, and the processes of that sandbox are lost.
    pub fn damage_at_next_change(&self) {
        self.state.lock().fail_change = Some(Failing::Damages);
    }

    /// Returns true if a living sandbox stands.
    pub fn is_frozen(&self, id: &SandboxId) -> bool {
        self.find(id)
            .is_some_and(|sandbox| *sandbox.is_frozen.lock())
    }

    /// The rule for outgoing connections that holds for a living sandbox.
    pub fn egress(&self, id: &SandboxId) -> Option<Egress> {
        self.find(id).map(|sandbox| sandbox.egress.lock().clone())
    }

    /// The volumes of a living sandbox.
    pub fn mounts(&self, id: &SandboxId) -> Option<Vec<Mount>> {
        self.find(id).map(|sandbox| sandbox.mounts.clone())
    }

    /// Number of images that were not forgotten.
    pub fn image_count(&self) -> usize {
        self.state.lock().images.len()
    }

    /// Times that the memory of a sandbox was paged out while it stood.
    pub fn page_outs(&self, id: &SandboxId) -> u32 {
        self.find(id).map_or(0, |sandbox| *sandbox.page_outs.lock())
    }

    /// Makes the next launch or restore fail like this.
    pub fn fail_next_launch(&self, error: LaunchError) {
        self.state.lock().fail_next = Some(error);
    }

    /// Says what the host has from now on.
    pub fn set_capacity(&self, capacity: HostCapacity) {
        self.state.lock().capacity = capacity;
    }

    /// Lets whatever changes a sandbox wait until [`FakeIsolation::release_changes`].
    pub fn hold_changes(&self) {
        self.gate.is_closed.send_replace(true);
    }

    /// Lets waiting and future changes through.
    pub fn release_changes(&self) {
        self.gate.is_closed.send_replace(false);
    }

    /// Number of changes that wait.
    pub fn held_changes(&self) -> usize {
        *self.gate.waiting.borrow()
    }

    /// Waits until a change waits.
    pub async fn held_change(&self) {
        let mut waiting = self.gate.waiting.subscribe();
        let waits = waiting.wait_for(|count| *count > 0).await;
        waits.expect("the sender is in self");
    }

    /// Lets the disk of a sandbox lose what was written to it.
    pub fn damage(&self, id: &SandboxId) {
        self.state.lock().damaged.push(id.clone());
    }

    /// Lets a sandbox hold more memory than its limits count.
    pub fn hoard(&self, id: &SandboxId) {
        self.state.lock().hoarding.push(id.clone());
    }

    /// Ends the first process of a sandbox, as a crash would.
    pub fn crash(&self, id: &SandboxId) {
        if let Some(sandbox) = self.find(id) {
            sandbox.exit.send_replace(Some(Exit::Signal(11)));
        }
    }

    /// Makes every attempt to destroy a sandbox fail, until [`FakeIsolation::unstick`].
    pub fn stick(&self, id: &SandboxId) {
        self.state.lock().stuck.insert(id.clone());
    }

    /// Lets a sandbox be destroyed again.
    pub fn unstick(&self, id: &SandboxId) {
        self.state.lock().stuck.remove(id);
    }

    /// Number of failed attempts to destroy a sandbox.
    pub fn failed_destroys(&self) -> usize {
        self.state.lock().failures
    }

    /// Number of times that an image was compressed.
    pub fn compressed(&self) -> usize {
        self.state.lock().compressed
    }

    /// Sets the counters of a sandbox.
    pub fn set_usage(&self, id: &SandboxId, usage: Usage) {
        if let Some(sandbox) = self.find(id) {
            *sandbox.usage.lock() = usage;
        }
    }

    /// The sandboxes that have not been destroyed.
    pub fn living(&self) -> Vec<SandboxId> {
        self.state
            .lock()
            .living
            .iter()
            .map(|sandbox| sandbox.id.clone())
            .collect()
    }

    /// Tenant that a sandbox was launched for.
    pub fn tenant(&self, id: &SandboxId) -> Option<TenantId> {
        self.find(id).map(|sandbox| sandbox.tenant.clone())
    }

    /// Configuration of the agent in a living sandbox.
    pub fn agent_config(&self, id: &SandboxId) -> Option<Redacted<Vec<u8>>> {
        let sandbox = self.find(id);
        sandbox.map(|sandbox| sandbox.agent_config.lock().clone())
    }

    fn image(&self, checkpoint: &Checkpoint) -> Result<Image, LaunchError> {
        let image = self.state.lock().images.get(&checkpoint.record).cloned();
        image.ok_or_else(|| LaunchError::Host {
            operation: "find the image".into(),
            source: "it was forgotten".into(),
        })
    }

    fn find(&self, id: &SandboxId) -> Option<Arc<FakeSandbox>> {
        self.state
            .lock()
            .living
            .iter()
            .find(|sandbox| sandbox.id == *id)
            .cloned()
    }

    fn start(&self, sandbox: FakeSandbox) -> Result<Launched, LaunchError> {
        let mut state = self.state.lock();
        if let Some(error) = state.fail_next.take() {
            return Err(error);
        }
        if !sandbox.mounts.is_empty() {
            state.capabilities.need(Capability::Mounts)?;
        }
        let sandbox = Arc::new(sandbox);
        state.living.push(Arc::clone(&sandbox));
        drop(state);
        Ok(self.handle(sandbox))
    }

    fn handle(&self, sandbox: Arc<FakeSandbox>) -> Launched {
        Arc::new(FakeHandle {
            sandbox,
            state: Arc::clone(&self.state),
            gate: Arc::clone(&self.gate),
        })
    }
}

impl Isolation for FakeIsolation {
    fn tier(&self) -> Tier {
        Tier::Native
    }

    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<Launched, LaunchError>> {
        let started = self.start(FakeSandbox::of(request));
        std::future::ready(started).boxed()
    }

    fn capabilities(&self) -> Capabilities {
        self.state.lock().capabilities
    }

    fn restore(&self, request: RestoreRequest) -> BoxFuture<'_, Result<Launched, LaunchError>> {
        async move {
            self.capabilities()
                .need(Capability::of_image(request.kind))?;
            self.gate.pass().await;
            let image = self.image(&request.checkpoint)?;
            let sandbox = match request.target {
                RestoreTarget::Copy(launch) => FakeSandbox::of(*launch),
                RestoreTarget::Same { id, egress, .. } => FakeSandbox::restored(id, egress, image),
                RestoreTarget::RollBack {
                    id, egress, own, ..
                } => {
                    let usage = image.usage;
                    let own = self.image(&own)?;
                    FakeSandbox::restored(id, egress, Image { usage, ..own })
                }
            };
            let can_freeze = self.capabilities().has(Capability::Freeze);
            *sandbox.is_frozen.lock() = can_freeze && request.kind == ImageKind::Memory;
            self.start(sandbox)
        }
        .boxed()
    }

    fn copy_checkpoint(
        &self,
        checkpoint: Checkpoint,
    ) -> BoxFuture<'_, Result<Checkpoint, ChangeError>> {
        async move {
            let mut state = self.state.lock();
            let needed = Capability::of_image(checkpoint.kind);
            state.capabilities.need(needed)?;
            let image = state
                .images
                .get(&checkpoint.record)
                .cloned()
                .ok_or_else(|| ChangeError::Failed {
                    operation: "find the image".into(),
                    source: "it was forgotten".into(),
                })?;
            let record = state.keep(&SandboxId::random(), image);
            Ok(Checkpoint {
                record,
                ..checkpoint
            })
        }
        .boxed()
    }

    fn compress_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, io::Result<()>> {
        async move {
            self.gate.pass().await;
            let mut state = self.state.lock();
            let is_there = state.images.contains_key(&checkpoint.record);
            state.compressed += usize::from(is_there);
            Ok(())
        }
        .boxed()
    }

    fn forget_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, io::Result<()>> {
        self.state.lock().images.remove(&checkpoint.record);
        async { Ok(()) }.boxed()
    }

    fn has_checkpoint(&self, checkpoint: Checkpoint) -> BoxFuture<'_, io::Result<bool>> {
        let is_there = self.state.lock().images.contains_key(&checkpoint.record);
        async move { Ok(is_there) }.boxed()
    }

    fn retain_checkpoints(&self, kept: Vec<Checkpoint>) -> BoxFuture<'_, io::Result<()>> {
        let is_kept = |record: &String| kept.iter().any(|checkpoint| checkpoint.record == *record);
        self.state.lock().images.retain(|record, _| is_kept(record));
        async { Ok(()) }.boxed()
    }

    fn warm<'a>(&'a self, _layers: &'a [PathBuf], _tenant: &'a TenantId) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }

    fn capacity(&self) -> BoxFuture<'_, io::Result<HostCapacity>> {
        let capacity = self.state.lock().capacity;
        async move { Ok(capacity) }.boxed()
    }

    fn allow_pools(&self, _allowed: bool) -> BoxFuture<'_, ()> {
        std::future::ready(()).boxed()
    }

    fn damaged(&self) -> BoxFuture<'_, Vec<SandboxId>> {
        let damaged = self.state.lock().damaged.clone();
        std::future::ready(damaged).boxed()
    }

    fn hoarding(&self) -> BoxFuture<'_, Vec<SandboxId>> {
        let hoarding = std::mem::take(&mut self.state.lock().hoarding);
        std::future::ready(hoarding).boxed()
    }

    fn adopt(&self, record: LaunchRecord) -> BoxFuture<'_, Result<Launched, AdoptError>> {
        async move {
            let id = record
                .0
                .parse()
                .map_err(|error| AdoptError::Record(Box::new(error)))?;
            let sandbox = self
                .find(&id)
                .ok_or_else(|| AdoptError::Gone(Usage::default()))?;
            let alive = sandbox.exit.borrow().is_none() || self.state.lock().stuck.contains(&id);
            if alive {
                Ok(self.handle(sandbox))
            } else {
                Err(AdoptError::Gone(sandbox.usage()))
            }
        }
        .boxed()
    }

    /// Sandboxes in memory say nothing.
    fn log(&self, _id: SandboxId) -> BoxFuture<'_, io::Result<Vec<u8>>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn requests(&self, _id: SandboxId) -> BoxFuture<'_, Vec<LoggedRequest>> {
        async { Vec::new() }.boxed()
    }

    fn kept_logs(&self) -> BoxFuture<'_, io::Result<Vec<(SandboxId, u64)>>> {
        async { Ok(Vec::new()) }.boxed()
    }

    fn forget_log(&self, _id: SandboxId) -> BoxFuture<'_, io::Result<()>> {
        async { Ok(()) }.boxed()
    }

    fn sweep(&self) -> BoxFuture<'_, Result<Swept, DestroyError>> {
        async move {
            let mut dead = Vec::new();
            let mut state = self.state.lock();
            let State { living, stuck, .. } = &mut *state;
            living.retain(|sandbox| {
                let alive = sandbox.exit.borrow().is_none() || stuck.contains(&sandbox.id);
                if !alive {
                    dead.push(sandbox.id.clone());
                }
                alive
            });
            Ok(Swept { sandboxes: dead })
        }
        .boxed()
    }
}

#[derive(Debug)]
struct FakeHandle {
    sandbox: Arc<FakeSandbox>,
    state: Arc<Mutex<State>>,
    gate: Arc<Gate>,
}

impl FakeHandle {
    /// Checks that the backend can do `operation`, and is not told to fail at it.
    fn try_change(&self, capability: Capability, operation: &str) -> Result<(), ChangeError> {
        let mut state = self.state.lock();
        state.capabilities.need(capability)?;
        let (operation, source) = (operation.to_owned(), "as the test wants".into());
        match state.fail_change.take() {
            None => Ok(()),
            Some(Failing::LeavesAll) => Err(ChangeError::Failed { operation, source }),
            Some(Failing::Damages) => Err(ChangeError::Damaged { operation, source }),
        }
    }

    fn set_frozen(&self, is_frozen: bool, operation: &str) -> Result<(), ChangeError> {
        self.try_change(Capability::Freeze, operation)?;
        *self.sandbox.is_frozen.lock() = is_frozen;
        Ok(())
    }
}

impl Sandbox for FakeHandle {
    fn address(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    }

    fn record(&self) -> LaunchRecord {
        LaunchRecord(self.sandbox.id.to_string())
    }

    fn exited(&self) -> BoxFuture<'_, Exit> {
        async move {
            let mut exits = self.sandbox.exit.subscribe();
            let exit = exits
                .wait_for(Option::is_some)
                .await
                .expect("the sender is in self");
            exit.expect("waited for Some")
        }
        .boxed()
    }

    fn usage(&self) -> BoxFuture<'_, Result<Usage, UsageError>> {
        async { Ok(self.sandbox.usage()) }.boxed()
    }

    fn freeze(&self) -> BoxFuture<'_, Result<(), ChangeError>> {
        async {
            self.gate.pass().await;
            self.set_frozen(true, "freeze the sandbox")
        }
        .boxed()
    }

    fn thaw(&self) -> BoxFuture<'_, Result<(), ChangeError>> {
        async {
            self.gate.pass().await;
            self.set_frozen(false, "thaw the sandbox")
        }
        .boxed()
    }

    fn page_out(&self) -> BoxFuture<'_, Result<u64, ChangeError>> {
        async {
            if !*self.sandbox.is_frozen.lock() {
                return Ok(0);
            }
            *self.sandbox.page_outs.lock() += 1;
            Ok(4096)
        }
        .boxed()
    }

    fn reconfigured(&self, agent_config: Redacted<Vec<u8>>) -> BoxFuture<'_, io::Result<()>> {
        *self.sandbox.agent_config.lock() = agent_config;
        std::future::ready(Ok(())).boxed()
    }

    fn checkpoint(
        &self,
        kind: ImageKind,
        after: AfterCheckpoint,
    ) -> BoxFuture<'_, Result<Checkpoint, ChangeError>> {
        async move {
            let needed = Capability::of_image(kind);
            self.gate.pass().await;
            self.try_change(needed, "checkpoint the sandbox")?;
            let image = Image {
                tenant: self.sandbox.tenant.clone(),
                mounts: self.sandbox.mounts.clone(),
                usage: self.sandbox.usage(),
                agent_config: self.sandbox.agent_config.lock().clone(),
            };
            let record = self.state.lock().keep(&self.sandbox.id, image);
            if after == AfterCheckpoint::Stand {
                *self.sandbox.is_frozen.lock() = true;
            }
            Ok(Checkpoint {
                record,
                kind,
                bytes: 4096,
            })
        }
        .boxed()
    }

    fn set_egress(
        &self,
        egress: Egress,
        _connections: Connections,
    ) -> BoxFuture<'_, Result<(), ChangeError>> {
        async move {
            self.try_change(Capability::EgressChange, "change the egress")?;
            *self.sandbox.egress.lock() = egress;
            Ok(())
        }
        .boxed()
    }

    fn destroy(&self) -> BoxFuture<'_, Result<Usage, DestroyError>> {
        async move {
            self.gate.pass().await;
            self.sandbox.exit.send_if_modified(|exit| {
                let first = exit.is_none();
                exit.get_or_insert(Exit::Signal(9));
                first
            });
            let mut state = self.state.lock();
            if state.stuck.contains(&self.sandbox.id) {
                state.failures += 1;
                return Err(DestroyError {
                    what: "processes".into(),
                    source: "they do not die".into(),
                });
            }
            state.living.retain(|sandbox| sandbox.id != self.sandbox.id);
            Ok(self.sandbox.usage())
        }
        .boxed()
    }

    fn dispose(&self) -> BoxFuture<'_, ()> {
        // What is left shows in [`FakeIsolation::living`].
        self.destroy().map(drop).boxed()
    }
}
