//! Spares: sandboxes that run before anybody has asked for them.
//!
//! A spare has its name already, so that paths, groups and links need not change when it is
//! given away. It has no route and is in no record: nobody can reach it, and a server that
//! finds it at its start sweeps it away.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use skep_isolation::{LaunchError, Launched};
use skep_telemetry::{Chain, Counter};
use skep_types::{
    AccessToken, Egress, ExecutionId, OnTimeout, PoolPolicy, Redacted, SandboxId, SandboxKind,
    SandboxSpec, Secrets,
};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use crate::admission::Promise;
use crate::node::Inner;

/// Limit on the kinds of spares that are kept at once, for all tenants. Fewer than the
/// usual number of zygotes, so that spares alone never hold all of them.
const KINDS: usize = 6;

/// Time for which a sandbox that was just given away has the processors to itself before a spare is
/// made in its place: its owner asks for something at once, and waits for that.
const QUIET: Duration = Duration::from_millis(25);

/// Time for which spares of a kind that nobody asks for are kept.
const KEPT: Duration = Duration::from_mins(30);

/// A sandbox that waits for an owner.
#[derive(Debug)]
pub(crate) struct Spare {
    id: SandboxId,
    pub(crate) execution: ExecutionId,
    pub(crate) launched: Launched,
    pub(crate) control_token: Redacted<String>,
    /// It counts until its driver does.
    _promise: Promise,
}

/// The spares of a node.
#[derive(Debug)]
pub(crate) struct Spares {
    /// Held only for a look-up or a change.
    state: Mutex<State>,
    changed: Notify,
    /// Number of sandboxes that are being made for somebody. Spares wait until there is none.
    creating: watch::Sender<usize>,
    pub(crate) given: Counter,
    pub(crate) missing: Counter,
}

#[derive(Debug)]
struct State {
    pool: PoolPolicy<SandboxKind, Spare>,
    /// Those whose name was given out, until their driver comes for them.
    promised: HashMap<SandboxId, Spare>,
    is_kept: bool,
}

impl Spares {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            state: Mutex::new(State {
                pool: PoolPolicy::new(count, KINDS),
                promised: HashMap::new(),
                is_kept: false,
            }),
            changed: Notify::new(),
            creating: watch::Sender::new(0),
            given: Counter::default(),
            missing: Counter::default(),
        }
    }

    /// Number of spares that are ready.
    pub(crate) fn count(&self) -> usize {
        self.state.lock().pool.count()
    }

    /// Takes the spare of this name, if its name was given out.
    pub(crate) fn claim(&self, id: &SandboxId) -> Option<Spare> {
        self.state.lock().promised.remove(id)
    }

    /// Returns true if the id is that of a spare which waits for its driver.
    pub(crate) fn is_promised(&self, id: &SandboxId) -> bool {
        self.state.lock().promised.contains_key(id)
    }

    /// Says that a sandbox is being made for somebody, until the answer is dropped.
    pub(crate) fn creating(&self) -> Creating<'_> {
        self.creating.send_modify(|count| *count += 1);
        Creating(self)
    }
}

/// Guard that counts a sandbox as being made for somebody while it lives.
pub(crate) struct Creating<'a>(&'a Spares);

impl Drop for Creating<'_> {
    fn drop(&mut self) {
        self.0.creating.send_modify(|count| *count -= 1);
    }
}

impl Inner {
    /// The id of a spare of this kind, if there is one.
    pub(crate) fn promise_spare(&self, kind: &SandboxKind) -> Option<SandboxId> {
        let found = {
            let mut state = self.spares.state.lock();
            let (found, cleared) = state.pool.take(kind, now());
            self.discard(cleared);
            let found = found.filter(|spare| self.is_alive(spare));
            found.map(|spare| {
                let id = spare.id.clone();
                state.promised.insert(id.clone(), spare);
                id
            })
        };
        let counter = match found {
            Some(_) => &self.spares.given,
            None => &self.spares.missing,
        };
        counter.add_one();
        found
    }

    /// Makes what sandboxes of a kind need, and some of them, before anybody asks.
    pub(crate) async fn warm(self: Arc<Self>, kind: SandboxKind) {
        let stop = self.tasks.stopping();
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = self.warm_layers(&kind) => {}
        }
        let cleared = self.spares.state.lock().pool.demand(&kind, now());
        self.discard(cleared);
        self.tend_spares();
    }

    /// Returns true if sandboxes of a kind start slower before something was warmed.
    pub(crate) async fn is_worth_warming(&self, kind: &SandboxKind) -> bool {
        let layers = self.layers.paths(&kind.template.layers);
        let isolation = Arc::clone(&self.isolation);
        let has_start = kind.template.start.is_some();
        let looking = tokio::task::spawn_blocking(move || isolation.has_warmth(&layers));
        has_start || looking.await.unwrap_or(false)
    }

    /// Sees to it that spares are made where they are wanted. Called when somebody has got a
    /// sandbox, and not when it was asked for: that one goes first.
    pub(crate) fn tend_spares(self: &Arc<Self>) {
        let keeper_is_needed = {
            let mut state = self.spares.state.lock();
            let is_needed = !state.is_kept && state.pool.next_expiry(KEPT).is_some();
            state.is_kept |= is_needed;
            is_needed
        };
        if keeper_is_needed {
            let node = Arc::clone(self);
            // Not in the span of the request that wanted the first: what is said of a spare would
            // name that sandbox.
            tracing::info_span!(parent: None, "spares")
                .in_scope(|| self.tasks.spawn("keep spares", node.keep_spares()));
        }
        self.spares.changed.notify_one();
    }

    /// Ends every spare and says how many there were.
    pub(crate) async fn give_up_spares(&self) -> usize {
        let spares = {
            let mut state = self.spares.state.lock();
            let mut spares = state.pool.clear();
            // Those that are promised belong to creations under way, until no driver will come for
            // them.
            if self.tasks.stopping().is_cancelled() {
                spares.extend(state.promised.drain().map(|(_, spare)| spare));
            }
            spares
        };
        let count = spares.len();
        let ends = spares.iter().map(|spare| spare.launched.dispose());
        futures_util::future::join_all(ends).await;
        count
    }

    /// Makes spares where they are wanted, one after the other, as long as any kind is.
    async fn keep_spares(self: Arc<Self>) {
        let stop = self.tasks.stopping();
        loop {
            let (wanted, expiry) = {
                let mut state = self.spares.state.lock();
                self.discard(state.pool.expire(now(), KEPT));
                let expiry = state.pool.next_expiry(KEPT);
                // Under the lock under which `tend_spares` looks: whoever wants a spare after this
                // finds no keeper and starts one.
                state.is_kept = expiry.is_some();
                (state.pool.next_to_fill().cloned(), expiry)
            };
            let Some(expiry) = expiry else {
                return;
            };
            // Only the wait is given up when the server stops. A launch is driven to its end, as
            // every launch is: it is short, and what it made is ended with the other spares.
            let waiting = async {
                match &wanted {
                    Some(kind) => self.wait_for_turn(kind).await,
                    None => tokio::select! {
                        () = self.spares.changed.notified() => {}
                        () = tokio::time::sleep_until(expiry.into()) => {}
                    },
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = waiting => {}
            }
            if let Some(kind) = wanted {
                self.make_spare(kind).await;
            }
        }
    }

    async fn warm_layers(&self, kind: &SandboxKind) {
        let layers = self.layers.paths(&kind.template.layers);
        self.isolation.warm(&layers, &kind.tenant).await;
    }

    /// Waits until a spare of this kind can be made well, and nobody waits for a sandbox: those
    /// go first, and so does what they do with it, unless few spares are left.
    async fn wait_for_turn(&self, kind: &SandboxKind) {
        self.warm_layers(kind).await;
        let mut creating = self.spares.creating.subscribe();
        let is_short = || self.spares.state.lock().pool.is_short(kind);
        loop {
            // The sender lives as long as the node.
            drop(creating.wait_for(|count| *count == 0).await);
            if is_short() || timeout(QUIET, creating.changed()).await.is_err() {
                return;
            }
        }
    }

    async fn make_spare(&self, kind: SandboxKind) {
        let id = SandboxId::random();
        let _reservation = match self.room_for_spare(&id, kind.template.resources).await {
            Ok(reservation) => reservation,
            Err(no_room) => {
                tracing::debug!(%no_room, "no room for a spare");
                self.spares.state.lock().pool.stop_filling(&kind);
                return;
            }
        };
        match self.launch_spare(id, &kind).await {
            Ok(spare) => {
                let returned = self.spares.state.lock().pool.add(&kind, spare);
                self.discard(returned.err().into_iter().collect());
            }
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "cannot launch spare");
                self.metrics.launch_failed(&error);
                self.spares.state.lock().pool.stop_filling(&kind);
            }
        }
    }

    async fn launch_spare(&self, id: SandboxId, kind: &SandboxKind) -> Result<Spare, LaunchError> {
        let execution = ExecutionId::random();
        let control_token = Redacted::new(AccessToken::random().reveal().to_owned());
        let spec = SandboxSpec {
            id: id.clone(),
            template: kind.template.clone(),
            tenant: kind.tenant.clone(),
            env: Redacted::new(Vec::new()),
            secrets: Secrets::default(),
            // One that nobody will ever know.
            access_token: Some(AccessToken::random()),
            is_open: false,
            ingress: Arc::default(),
            egress: Egress::default(),
            mounts: Vec::new(),
            checkpoint: None,
            lifetime: Duration::ZERO,
            on_timeout: OnTimeout::Kill,
            auto_resume: false,
        };
        let layers = self.layers.paths(&spec.template.layers);
        let request = self.launch_request(&spec, layers, execution, control_token.reveal());
        let launched = self.isolation.launch(request).await?;
        self.run_start(&launched, &spec, control_token.reveal())
            .await?;
        // The first request costs an agent half a millisecond of page faults, which nobody waits
        // for here. One that does not answer is found when it gets its owner.
        if !self.agents.answers(launched.address()).await {
            tracing::debug!(sandbox = %id, "agent of a spare is slow to answer");
        }
        Ok(Spare {
            _promise: self.admission.promise(&id, kind.template.resources),
            id,
            execution,
            launched,
            control_token,
        })
    }

    fn is_alive(&self, spare: &Spare) -> bool {
        let has_ended = spare.launched.exited().now_or_never().is_some();
        if has_ended {
            tracing::warn!(sandbox = %spare.id, "spare ended while it waited for an owner");
            self.end_spare(Arc::clone(&spare.launched));
        }
        !has_ended
    }

    fn discard(&self, spares: Vec<Spare>) {
        for spare in spares {
            self.end_spare(spare.launched);
        }
    }

    fn end_spare(&self, launched: Launched) {
        let ending = async move { launched.dispose().await };
        self.tasks.spawn("end a spare", ending);
    }
}

fn now() -> std::time::Instant {
    Instant::now().into_std()
}
