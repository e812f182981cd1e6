//! The sandboxes of this host, by id.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use jiff::Timestamp;
use parking_lot::RwLock;
use skep_isolation::{Isolation, LaunchError, Tier};
use skep_telemetry::Tasks;
use skep_types::{
    AccessToken, AdmissionPolicy, Capabilities, DeadlineMode, Departure, Egress, EndReason,
    ExecutionId, KillError, LogEntry, LoggedRequest, NotHere, OnTimeout, Phase, Resources,
    SandboxId, SandboxKind, SandboxSpec, SandboxStatus, Sleeper, Usage, WhenStopped,
};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};

use crate::admission::Admission;
use crate::agents::Agents;
use crate::clock::{Deadline, wall_now};
use crate::departures::Departures;
use crate::driver::{Driver, Request};
use crate::journal::Journal;
use crate::layers::Layers;
use crate::log;
use crate::metrics::Metrics;
use crate::route::Route;
use crate::spares::Spares;

/// Limit on the requests that wait for one driver. A caller beyond that waits its turn.
const QUEUE: usize = 32;

/// Number of sandboxes that are ended at once when the server stops.
const KILLS_AT_ONCE: usize = 16;

/// Time limit for a driver's answer. Longer than any backend may take, and than clients wait: the way
/// back to a checkpoint is a dump and a restore, of two minutes each at most. A driver that takes
/// longer has lost its way.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(5);

/// The sandboxes of this host. Clones share them.
#[derive(Debug, Clone)]
pub struct Node {
    pub(crate) inner: Arc<Inner>,
}

/// Dependencies and settings of a [`Node`].
#[derive(Debug)]
pub struct NodeOptions {
    /// Backend that holds the sandboxes.
    pub isolation: Arc<dyn Isolation>,
    /// Source of the layers of templates.
    pub layers: Arc<dyn Layers>,
    /// Journal of what must outlive the server.
    pub journal: Arc<dyn Journal>,
    /// Client of the agents in its sandboxes.
    pub agents: Arc<dyn Agents>,
    /// Certificate, in PEM, of the authority that sandboxes trust whose rules look into requests;
    /// `None` if nothing here does.
    pub authority: Option<Arc<str>>,
    /// Number of spares of each kind that is asked for; 0 is none.
    pub spares: usize,
    /// Rules by which the host has room for another sandbox.
    pub admission: AdmissionPolicy,
    /// Rules for sandboxes that stand.
    pub pauses: PausePolicy,
}

/// Rules for sandboxes that stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PausePolicy {
    /// Time after which a frozen sandbox that nobody has resumed is written to an image, where the
    /// backend can.
    pub checkpoint_after: Duration,
    /// Time after which the image of a paused sandbox that nobody has resumed is compressed; `None`
    /// for never.
    pub compress_after: Option<Duration>,
}

impl Default for PausePolicy {
    fn default() -> Self {
        Self {
            checkpoint_after: Duration::from_secs(30),
            compress_after: Some(Duration::from_hours(1)),
        }
    }
}

/// Failure to create a sandbox. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// The id is taken.
    #[error("sandbox `{0}` exists already")]
    Exists(SandboxId),
    /// It could not be launched.
    #[error("cannot launch sandbox")]
    Launch(#[source] LaunchError),
    /// It was killed before it was ready.
    #[error("sandbox was killed while it started")]
    Killed,
    /// The server is stopping.
    #[error("server is stopping")]
    Stopping,
}

/// Number of spares, and of those given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpareCounts {
    /// Spares that wait for an owner now.
    pub ready: usize,
    /// Spares that were given to an owner.
    pub given: u64,
    /// Requests for which there was no spare.
    pub missing: u64,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) isolation: Arc<dyn Isolation>,
    pub(crate) layers: Arc<dyn Layers>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) agents: Arc<dyn Agents>,
    pub(crate) authority: Option<Arc<str>>,
    pub(crate) spares: Spares,
    pub(crate) admission: Admission,
    pub(crate) pauses: PausePolicy,
    /// The turn of the one image that is being compressed: it takes a processor for seconds.
    pub(crate) compressing: Semaphore,
    /// True while some resource of the host is used up.
    pub(crate) is_tight: AtomicBool,
    pub(crate) metrics: Metrics,
    pub(crate) departures: Departures,
    /// The sandboxes that are not gone. Held only for a look-up or a change of the map.
    sandboxes: RwLock<HashMap<SandboxId, Entry>>,
    pub(crate) tasks: Tasks,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) requests: mpsc::Sender<Request>,
    pub(crate) status: watch::Receiver<SandboxStatus>,
    route: watch::Receiver<Option<Route>>,
    sleeper: watch::Receiver<Option<Sleeper>>,
}

impl Node {
    /// A node without sandboxes. [`Node::adopt`] brings back those of the last server.
    pub fn new(options: NodeOptions) -> Self {
        Self {
            inner: Arc::new(Inner {
                isolation: options.isolation,
                layers: options.layers,
                journal: options.journal,
                agents: options.agents,
                authority: options.authority,
                spares: Spares::new(options.spares),
                admission: Admission::new(options.admission),
                pauses: options.pauses,
                compressing: Semaphore::new(1),
                is_tight: AtomicBool::new(false),
                metrics: Metrics::default(),
                departures: Departures::default(),
                sandboxes: RwLock::default(),
                tasks: Tasks::default(),
            }),
        }
    }

    /// The id for a new sandbox: that of a spare, if there is one of this kind.
    /// [`Node::create`] with that id then has little left to do.
    pub fn id_for(&self, kind: &SandboxKind) -> SandboxId {
        let spare = self.inner.promise_spare(kind);
        spare.unwrap_or_else(SandboxId::random)
    }

    /// Has spares of a kind made before anybody asks for one. Returns at once; the work ends
    /// with the node.
    pub fn warm(&self, kind: SandboxKind) {
        let inner = Arc::clone(&self.inner);
        self.inner.tasks.spawn("warm a template", inner.warm(kind));
    }

    /// Does the same for a template that was just built, if the first sandbox of it would start slower
    /// than others: its kernels are forked, or a command runs in each.
    pub fn warm_built(&self, kind: SandboxKind) {
        let inner = Arc::clone(&self.inner);
        self.inner.tasks.spawn("warm a template", async move {
            if inner.is_worth_warming(&kind).await {
                inner.warm(kind).await;
            }
        });
    }

    /// Strength of the isolation of this node's sandboxes.
    pub fn tier(&self) -> Tier {
        self.inner.isolation.tier()
    }

    /// Abilities of this node beyond creating and ending sandboxes.
    pub fn capabilities(&self) -> Capabilities {
        self.inner.isolation.capabilities()
    }

    /// Number of spares, of those given away, and of requests for which there was none.
    pub fn spares(&self) -> SpareCounts {
        let spares = &self.inner.spares;
        SpareCounts {
            ready: spares.count(),
            given: spares.given.get(),
            missing: spares.missing.get(),
        }
    }

    /// Starts a sandbox and returns when its agent is reachable.
    ///
    /// # Cancel safety
    ///
    /// A caller that goes away changes nothing: the sandbox comes up and lives its time.
    ///
    /// # Errors
    ///
    /// [`CreateError`]; nothing of the sandbox is left, and its end is in the journal.
    pub async fn create(&self, spec: SandboxSpec) -> Result<SandboxStatus, CreateError> {
        if self.inner.tasks.stopping().is_cancelled() {
            return Err(CreateError::Stopping);
        }
        let (answer, ready) = oneshot::channel();
        let id = spec.id.clone();
        let resources = spec.template.resources;
        self.drive(starting(&id, wall_now()), resources, |driver| {
            driver.launch_and_drive(spec, answer)
        })
        .map_err(|Taken| CreateError::Exists(id))?;
        ready.await.unwrap_or(Err(CreateError::Killed))
    }

    /// Ends a sandbox and returns when nothing of it is left. The proxy stops routing to it at
    /// once, before anything is cleaned up.
    ///
    /// # Errors
    ///
    /// [`KillError::NotHere`] if it is unknown or gone; while somebody else ends it, that is said
    /// when it is. [`KillError::Stuck`] if something of it cannot be removed.
    pub async fn kill(&self, id: &SandboxId, reason: EndReason) -> Result<(), KillError> {
        let asking = self.ask(id, |answer| Request::End { reason, answer });
        match asking.await {
            Ok(ended) => ended,
            // A driver that leaves without an answer has left nothing, or all, to somebody else.
            Err(AskError::NotHere) => Err(NotHere.into()),
            // It goes on trying, and whoever asks again hears of it.
            Err(AskError::Late) => Err(KillError::Stuck),
        }
    }

    /// Gives a running sandbox another deadline, `lifetime` from now, and returns its status.
    ///
    /// # Errors
    ///
    /// [`NotHere`] if it is not running.
    pub async fn set_lifetime(
        &self,
        id: &SandboxId,
        lifetime: Duration,
        mode: DeadlineMode,
    ) -> Result<SandboxStatus, NotHere> {
        let deadline = Deadline::after(lifetime);
        let asking = self.ask(id, |answer| Request::Deadline {
            deadline,
            mode,
            answer,
        });
        Ok(asking.await?)
    }

    /// Resource usage of a running sandbox so far.
    ///
    /// # Errors
    ///
    /// [`NotHere`] if it is not running.
    pub async fn usage(&self, id: &SandboxId) -> Result<Usage, NotHere> {
        let asking = self.ask(id, |answer| Request::Usage { answer });
        Ok(asking.await?)
    }

    /// Asks the driver of a sandbox and waits for its answer, for a bounded time.
    pub(crate) async fn ask<T>(
        &self,
        id: &SandboxId,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, AskError> {
        let entry = self.entry(id).ok_or(AskError::NotHere)?;
        let (answer, answered) = oneshot::channel();
        let asking = async {
            let sent = entry.requests.send(request(answer)).await;
            sent.map_err(|_| AskError::NotHere)?;
            answered.await.map_err(|_| AskError::NotHere)
        };
        tokio::time::timeout(ANSWER_TIMEOUT, asking)
            .await
            .unwrap_or_else(|_elapsed| {
                tracing::error!(sandbox = %id, "the driver of a sandbox does not answer");
                Err(AskError::Late)
            })
    }

    /// The log of a sandbox, also after its end, oldest entry first. One that cannot be read is
    /// empty, and the failure goes to the server's own log.
    pub async fn logs(&self, id: &SandboxId) -> Vec<LogEntry> {
        match self.inner.isolation.log(id.clone()).await {
            Ok(text) => log::entries(&text),
            Err(error) => {
                tracing::error!(sandbox = %id, %error, "cannot read the log of a sandbox");
                Vec::new()
            }
        }
    }

    /// The last requests of a sandbox to hosts that it reaches by name, the oldest first. Empty if it
    /// does not run.
    pub async fn requests(&self, id: &SandboxId) -> Vec<LoggedRequest> {
        self.inner.isolation.requests(id.clone()).await
    }

    /// The logs of ended sandboxes that are kept, and their sizes in bytes.
    ///
    /// # Errors
    ///
    /// If they cannot be listed.
    pub async fn kept_logs(&self) -> io::Result<Vec<(SandboxId, u64)>> {
        self.inner.isolation.kept_logs().await
    }

    /// Deletes the log of an ended sandbox.
    pub async fn forget_log(&self, id: &SandboxId) {
        if let Err(error) = self.inner.isolation.forget_log(id.clone()).await {
            tracing::warn!(sandbox = %id, %error, "cannot delete the log of a sandbox");
        }
    }

    /// Metrics of the node.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// The sandbox as it is now; `None` if it is unknown or gone.
    pub fn status(&self, id: &SandboxId) -> Option<SandboxStatus> {
        self.entry(id)
            .map(|entry| entry.status.borrow().clone())
            .filter(|status| status.phase != Phase::Gone)
    }

    /// All sandboxes that are not gone, in no order.
    pub fn list(&self) -> Vec<SandboxStatus> {
        let sandboxes = self.inner.sandboxes.read();
        sandboxes
            .values()
            .map(|entry| entry.status.borrow().clone())
            .collect()
    }

    /// Route to a running sandbox.
    pub fn route(&self, id: &SandboxId) -> Option<Route> {
        self.entry(id)
            .and_then(|entry| entry.route.borrow().clone())
    }

    /// The end of a sandbox that ended lately and whose access token `accepts` says yes to.
    pub fn departure(
        &self,
        id: &SandboxId,
        accepts: impl Fn(&AccessToken) -> bool,
    ) -> Option<Departure> {
        self.inner.departures.find(id, accepts)
    }

    /// The first running sandbox whose access token `accepts` says yes to.
    pub fn find_route(&self, accepts: impl Fn(&AccessToken) -> bool) -> Option<Route> {
        let sandboxes = self.inner.sandboxes.read();
        sandboxes.values().find_map(|entry| {
            let route = entry.route.borrow();
            let accepted = route.as_ref()?.access_token.as_ref().is_some_and(&accepts);
            accepted.then(|| route.clone()).flatten()
        })
    }

    /// The paused sandbox of this name, if it goes on when somebody uses it.
    pub fn sleeper(&self, id: &SandboxId) -> Option<Sleeper> {
        self.entry(id)
            .and_then(|entry| entry.sleeper.borrow().clone())
    }

    /// The first such sandbox whose access token `accepts` says yes to.
    pub fn find_sleeper(&self, accepts: impl Fn(&AccessToken) -> bool) -> Option<Sleeper> {
        let sandboxes = self.inner.sandboxes.read();
        sandboxes.values().find_map(|entry| {
            let sleeper = entry.sleeper.borrow();
            let token = sleeper.as_ref()?.access_token.as_ref();
            token
                .is_some_and(&accepts)
                .then(|| sleeper.clone())
                .flatten()
        })
    }

    /// Takes no more sandboxes and leaves or ends those that run. Returns when all drivers
    /// have finished.
    pub async fn shut_down(&self, when_stopped: WhenStopped) {
        if when_stopped == WhenStopped::End {
            let kill = async |status: SandboxStatus| {
                let killed = self.kill(&status.id, EndReason::ServerStopped).await;
                if let Err(error) = killed {
                    tracing::debug!(sandbox = %status.id, %error, "not ended");
                }
            };
            let kills = self.list().into_iter().map(kill);
            let kills = stream::iter(kills).buffer_unordered(KILLS_AT_ONCE);
            kills.collect::<()>().await;
        }
        self.inner.tasks.finish().await;
        self.inner.give_up_spares().await;
    }

    pub(crate) fn entry(&self, id: &SandboxId) -> Option<Entry> {
        self.inner.sandboxes.read().get(id).cloned()
    }

    /// Enters the sandbox into the map and starts its driver.
    pub(crate) fn drive<F>(
        &self,
        status: SandboxStatus,
        resources: Resources,
        work: impl FnOnce(Driver) -> F,
    ) -> Result<(), Taken>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let id = status.id.clone();
        let (requests, queue) = mpsc::channel(QUEUE);
        let (route_sender, route) = watch::channel(None);
        let (sleeper_sender, sleeper) = watch::channel(None);
        let (status_sender, status) = watch::channel(status);
        {
            let mut sandboxes = self.inner.sandboxes.write();
            if sandboxes.contains_key(&id) {
                return Err(Taken);
            }
            sandboxes.insert(
                id.clone(),
                Entry {
                    requests,
                    status,
                    route,
                    sleeper,
                },
            );
        }
        let guard = Forget {
            inner: Arc::clone(&self.inner),
            id: id.clone(),
        };
        let driver = Driver {
            node: Arc::clone(&self.inner),
            queue,
            status: status_sender,
            route: route_sender,
            sleeper: sleeper_sender,
            stop: self.inner.tasks.stopping(),
            resources,
            promise: Some(self.inner.admission.promise(&id, resources)),
        };
        let work = work(driver);
        tracing::info_span!("sandbox", sandbox = %id).in_scope(|| {
            self.inner.tasks.spawn("driver", async move {
                // Dropped also when the driver panics, so that a dead entry never stays.
                let _guard = guard;
                work.await;
            });
        });
        Ok(())
    }
}

/// The status of a sandbox that is about to be driven.
pub(crate) fn starting(id: &SandboxId, started_at: Timestamp) -> SandboxStatus {
    SandboxStatus {
        id: id.clone(),
        execution: ExecutionId(0),
        phase: Phase::Starting,
        started_at,
        ends_at: started_at,
        on_timeout: OnTimeout::default(),
        egress: Egress::default(),
        paused: None,
        kept_in: None,
        obstacle: None,
        agent_was_silent: false,
        ending: None,
    }
}

/// Failure to get an answer of a driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AskError {
    /// There is none, or it left without an answer.
    #[error("the sandbox has no driver")]
    NotHere,
    /// It does not answer.
    #[error("the driver of the sandbox does not answer")]
    Late,
}

impl From<AskError> for NotHere {
    fn from(error: AskError) -> Self {
        match error {
            AskError::NotHere | AskError::Late => Self,
        }
    }
}

/// The id is in the map already.
#[derive(Debug)]
pub(crate) struct Taken;

/// Takes the sandbox out of the map when its driver is over.
struct Forget {
    inner: Arc<Inner>,
    id: SandboxId,
}

impl Drop for Forget {
    fn drop(&mut self) {
        self.inner.sandboxes.write().remove(&self.id);
    }
}
