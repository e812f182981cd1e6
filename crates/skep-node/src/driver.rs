//! The task that owns one sandbox.

mod copy;
mod end;
mod pause;
mod resume;
mod start;

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use skep_isolation::{Exit, Launched, UsageError};
use skep_telemetry::Chain;
use skep_types::{
    Checkpoint, DeadlineMode, Egress, EndReason, Ending, Event, ImageKind, ImagePurpose, KillError,
    OnTimeout, PauseRequest, Phase, Resources, ResumeRequest, Resumed, RollBackRequest,
    SandboxSpec, SandboxStatus, Sleeper, TransitionError, Usage, Verdict,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug_span};

use crate::admission::Promise;
use crate::clock::{Deadline, wall_now};
use crate::journal::Noted;
use crate::memory_mean::MemoryMean;
use crate::node::{CreateError, Inner};
use crate::record::DriverRecord;
use crate::route::Route;

/// A request to a driver.
pub(crate) enum Request {
    /// End the sandbox; answers when nothing of it is left, or something cannot be removed.
    End { reason: EndReason, answer: Killer },
    /// Move the deadline; answers with the status after it.
    Deadline {
        deadline: Deadline,
        mode: DeadlineMode,
        answer: oneshot::Sender<SandboxStatus>,
    },
    /// Read the counters.
    Usage { answer: oneshot::Sender<Usage> },
    /// Let it stand, or write it to an image; answers with the status after it.
    Pause {
        request: PauseRequest,
        answer: Transition<SandboxStatus>,
    },
    /// Let it go on until a new deadline; answers when its agent is reachable.
    Resume {
        request: ResumeRequest,
        answer: Transition<Resumed>,
    },
    /// Write it to an image soon if it is frozen: its memory is wanted.
    Store,
    /// Put it back to an image.
    RollBack {
        request: RollBackRequest,
        answer: Transition<SandboxStatus>,
    },
    /// Write it to an image while it goes on.
    Snapshot {
        kind: ImageKind,
        purpose: ImagePurpose,
        answer: Transition<Checkpoint>,
    },
    /// Change what it may reach.
    Egress {
        egress: Egress,
        answer: Transition<()>,
    },
}

/// A caller who waits for the end of a sandbox.
pub(crate) type Killer = oneshot::Sender<Result<(), KillError>>;

/// The caller who waits for a new sandbox.
pub(crate) type Waiting = oneshot::Sender<Result<SandboxStatus, CreateError>>;

/// A caller who waits for a change of a sandbox.
pub(crate) type Transition<T> = oneshot::Sender<Result<T, TransitionError>>;

/// One sandbox, its queue, and what is published about it.
pub(crate) struct Driver {
    pub(crate) node: Arc<Inner>,
    pub(crate) queue: mpsc::Receiver<Request>,
    pub(crate) status: watch::Sender<SandboxStatus>,
    pub(crate) route: watch::Sender<Option<Route>>,
    /// Set while it is paused and goes on when somebody uses it.
    pub(crate) sleeper: watch::Sender<Option<Sleeper>>,
    pub(crate) stop: CancellationToken,
    pub(crate) resources: Resources,
    /// It counts on the host for as long as it has processes.
    pub(crate) promise: Option<Promise>,
}

/// A sandbox as its driver holds it.
struct Held {
    /// The sandbox on the host; `None` while it is paused and has no process.
    launched: Option<Launched>,
    record: DriverRecord,
    /// Cancelled when this run is over: paused or ended.
    ended: CancellationToken,
    memory: MemoryMean,
    /// Time at which a frozen sandbox is written to an image, so that it needs no memory.
    store_at: Option<tokio::time::Instant>,
    /// Time at which the memory of a frozen sandbox is paged out.
    page_out_at: Option<tokio::time::Instant>,
    /// Time at which the image of a sandbox without processes is compressed.
    compress_at: Option<tokio::time::Instant>,
    /// Set if writing it to an image was tried and did not succeed.
    is_hard_to_store: bool,
    /// Time of the next attempt to pause one whose time is over.
    retry_at: Option<tokio::time::Instant>,
}

/// Reason for which a driver stops driving.
enum Stop {
    /// The sandbox is to be ended, or has ended, and somebody may wait for that.
    End(EndReason, Option<Killer>),
    /// The server stops and leaves the sandbox to the next one.
    Leave,
}

impl Held {
    fn new(launched: Option<Launched>, record: DriverRecord) -> Self {
        Self {
            launched,
            record,
            ended: CancellationToken::new(),
            memory: MemoryMean::default(),
            store_at: None,
            page_out_at: None,
            compress_at: None,
            is_hard_to_store: false,
            retry_at: None,
        }
    }

    fn is_paused(&self) -> bool {
        self.record.is_frozen || self.launched.is_none()
    }

    /// Time at which something is to be done about it; `None` if nothing is.
    fn next_due(&self) -> Option<tokio::time::Instant> {
        if self.is_paused() {
            let settled = self.store_at.or(self.compress_at);
            let times = [self.page_out_at, settled];
            times.into_iter().flatten().min()
        } else {
            let deadline = self.record.deadline.instant;
            Some(self.retry_at.map_or(deadline, |retry| deadline.max(retry)))
        }
    }
}

impl Driver {
    /// Launches the sandbox, tells `waiting`, and drives it to its end.
    ///
    /// This task is the one owner of the launch: it never drops it, whatever becomes of the
    /// caller, so nothing below has to be safe against that.
    pub(crate) async fn launch_and_drive(mut self, spec: SandboxSpec, waiting: Waiting) {
        let ordered = Instant::now();
        let node = Arc::clone(&self.node);
        let creating = node.spares.creating();
        let started = match self.start(&spec).await {
            Ok(started) => started,
            Err(error) => {
                self.node.metrics.launch_failed(&error);
                self.finish(EndReason::StartFailed, Usage::default()).await;
                answer(waiting, Err(CreateError::Launch(error)));
                return;
            }
        };
        let started_at = wall_now();
        let deadline = Deadline::counted_from(started_at, spec.lifetime);
        let record = DriverRecord {
            execution: started.execution,
            launch: Some(started.launched.record()),
            is_frozen: false,
            image: None,
            egress: spec.egress,
            access_token: spec.access_token,
            is_open: spec.is_open,
            ingress: spec.ingress,
            control_token: started.control_token,
            deadline,
            on_timeout: spec.on_timeout,
            auto_resume: spec.auto_resume,
            agent_was_silent: false,
            kept_in: spec.checkpoint.as_ref().map(|image| image.kind.into()),
            ending: None,
            earlier: Usage::default(),
        };
        let mut held = Held::new(Some(started.launched), record);
        self.enter_running(&mut held, started_at);
        // A caller who was told of a sandbox finds it again after the server was killed.
        let recording = self.journal_started(&held.record);
        recording.instrument(debug_span!("record start")).await;
        self.node.metrics.create.record(ordered.elapsed());
        answer(waiting, Ok(self.status.borrow().clone()));
        drop(creating);
        node.tend_spares();
        self.drive_to_end(held).await;
    }

    /// Goes on ending a sandbox that an earlier server was ending.
    pub(crate) async fn adopt_and_end(
        mut self,
        launched: Option<Launched>,
        record: DriverRecord,
        reason: EndReason,
    ) {
        self.end(Held::new(launched, record), reason, None).await;
    }

    /// Drives a sandbox that an earlier server launched. One without a process is paused.
    pub(crate) async fn adopt_and_drive(
        mut self,
        launched: Option<Launched>,
        record: DriverRecord,
        started_at: Timestamp,
    ) {
        let mut held = Held::new(launched, record);
        if held.is_paused() {
            self.adopt_paused(&mut held, started_at).await;
        } else {
            self.adopt_running(&mut held, started_at).await;
        }
        self.drive_to_end(held).await;
    }

    fn journal_started(&self, record: &DriverRecord) -> Noted {
        let status = self.status.borrow();
        self.node.journal.started(&status.id, record.run(&status))
    }

    /// Journals what has changed in the record of a sandbox.
    fn journal_record(&self, record: &DriverRecord) -> Noted {
        let status = self.status.borrow();
        self.node.journal.changed(&status.id, record.run(&status))
    }

    async fn drive_to_end(&mut self, mut held: Held) {
        match self.drive(&mut held).await {
            Stop::Leave => tracing::debug!("left to the next server"),
            Stop::End(reason, killer) => self.end(held, reason, killer).await,
        }
    }

    /// Serves requests until the sandbox is to be ended or left.
    async fn drive(&mut self, held: &mut Held) -> Stop {
        if let Err(error) = look(held).await {
            tracing::debug!(error = %Chain(&error), "no usage at the start");
        }
        loop {
            // A pause or a resume may have changed which processes there are to wait for.
            let launched = held.launched.clone();
            let exited = async {
                match &launched {
                    Some(launched) => launched.exited().await,
                    None => std::future::pending().await,
                }
            };
            tokio::pin!(exited);
            while is_same(launched.as_ref(), held.launched.as_ref()) {
                let due = held.next_due();
                tokio::select! {
                    biased;
                    exit = &mut exited => return Stop::End(self.explain(held, exit).await, None),
                    () = sleep_until(due) => match held.record.on_timeout {
                        _ if held.is_paused() => self.settle(held).await,
                        OnTimeout::Pause(kind) => self.pause_at_deadline(held, kind).await,
                        OnTimeout::Kill => return Stop::End(EndReason::Timeout, None),
                    },
                    () = self.stop.cancelled() => return Stop::Leave,
                    request = self.queue.recv() => match request {
                        Some(Request::End { reason, answer: killer }) => {
                            return Stop::End(reason, Some(killer));
                        }
                        Some(request) => self.serve(held, request).await,
                        // The map drops its sender only after this task has ended.
                        None => return Stop::Leave,
                    },
                }
            }
        }
    }

    async fn serve(&mut self, held: &mut Held, request: Request) {
        match request {
            // Ends the loop that calls this.
            Request::End { .. } => {}
            // A paused sandbox has no deadline: its caller sees that it is not running.
            Request::Deadline { .. } if held.is_paused() => {}
            Request::Deadline {
                deadline,
                mode,
                answer: caller,
            } => {
                self.move_deadline(held, deadline, mode).await;
                answer(caller, self.status.borrow().clone());
            }
            Request::Usage { answer: caller } => match look(held).await {
                Ok(usage) => answer(caller, usage),
                // The caller sees a sandbox that is no longer here, which is what a missing
                // counter means.
                Err(error) => tracing::debug!(error = %Chain(&error), "no usage"),
            },
            Request::Pause {
                request,
                answer: caller,
            } => answer(caller, self.pause(held, request).await),
            Request::Resume {
                request,
                answer: caller,
            } => answer(caller, self.resume(held, request).await),
            Request::Store if held.store_at.is_some() && !held.is_hard_to_store => {
                self.store(held).await;
            }
            Request::Store => {}
            Request::RollBack {
                request,
                answer: caller,
            } => answer(caller, self.roll_back(held, request).await),
            Request::Snapshot {
                kind,
                purpose,
                answer: caller,
            } => {
                let taken = self.snapshot(held, kind, purpose).await;
                // Nobody else knows of the image.
                if let Err(Ok(image)) = caller.send(taken) {
                    tracing::debug!("caller went away");
                    self.forget_image(Some(image)).await;
                }
            }
            Request::Egress {
                egress,
                answer: caller,
            } => answer(caller, self.set_egress(held, egress).await),
        }
    }

    async fn move_deadline(&mut self, held: &mut Held, deadline: Deadline, mode: DeadlineMode) {
        let moves = match mode {
            DeadlineMode::Set => true,
            DeadlineMode::Extend => deadline.instant > held.record.deadline.instant,
        };
        if !moves {
            return;
        }
        held.record.deadline = deadline;
        held.retry_at = None;
        self.status
            .send_modify(|status| status.ends_at = deadline.wall);
        self.journal_record(&held.record).await;
    }

    /// Finds the reason for which the first process ended although nobody asked for it.
    async fn explain(&self, held: &Held, exit: Exit) -> EndReason {
        let usage = match &held.launched {
            Some(launched) => launched.usage().await.unwrap_or_default(),
            None => Usage::default(),
        };
        let reason = reason_of(exit, &usage);
        tracing::warn!(?exit, %reason, "first process ended by itself");
        reason
    }

    /// Publishes that a sandbox runs, and its route.
    fn enter_running(&mut self, held: &mut Held, started_at: Timestamp) {
        self.publish_run(held, started_at);
        self.enter(Event::AgentReady);
        self.open(held);
    }

    /// Publishes which run of the sandbox this is.
    fn publish_run(&self, held: &Held, started_at: Timestamp) {
        self.status.send_modify(|status| {
            status.execution = held.record.execution;
            status.started_at = started_at;
            status.ends_at = held.record.deadline.wall;
            status.on_timeout = held.record.on_timeout;
            status.egress = held.record.egress.clone();
            status.paused = None;
            status.kept_in = held.record.kept_in;
            status.obstacle = None;
            status.agent_was_silent = false;
        });
    }

    /// Lets traffic through to the sandbox, in a run of its own.
    fn open(&self, held: &mut Held) {
        held.ended = CancellationToken::new();
        self.unhide(held);
    }

    /// Lets traffic through to the sandbox. Streams of the same run that were open stay so.
    fn unhide(&self, held: &Held) {
        let route = held.launched.as_ref().map(|launched| Route {
            id: self.status.borrow().id.clone(),
            execution: held.record.execution,
            address: launched.address(),
            access_token: held.record.access_token.clone(),
            is_open: held.record.is_open,
            ingress: Arc::clone(&held.record.ingress),
            control_token: held.record.control_token.clone(),
            ended: held.ended.clone(),
        });
        self.route.send_replace(route);
        self.sleeper.send_replace(None);
    }

    /// Lets nobody in from now on. Streams that are open stay so: whether this run is over is not
    /// certain yet.
    fn hide(&self) {
        self.route.send_replace(None);
    }

    /// Stops all traffic to the sandbox, at once.
    fn close(&self, held: &Held) {
        self.hide();
        held.ended.cancel();
    }

    async fn finish(&mut self, reason: EndReason, usage: Usage) {
        let ending = Ending {
            reason,
            usage,
            at: wall_now(),
        };
        let id = self.status.borrow().id.clone();
        self.node.metrics.ended(reason);
        self.node.journal.ended(&id, &ending).await;
        tracing::info!(%reason, "sandbox ended");
        self.status.send_modify(|status| {
            status.ends_at = ending.at;
            status.ending = Some(ending);
        });
        self.enter(Event::Exited);
    }

    fn enter(&mut self, event: Event) {
        self.status
            .send_if_modified(|status| match status.phase.on(event) {
                Ok(Verdict::Enter(phase)) => {
                    status.phase = phase;
                    true
                }
                Ok(Verdict::Stay) => false,
                Err(refused) => {
                    tracing::error!(%refused, "invalid phase transition");
                    debug_assert!(false, "{refused}");
                    false
                }
            });
        debug_assert!(event != Event::Exited || self.status.borrow().phase == Phase::Gone);
    }
}

fn is_same(before: Option<&Launched>, now: Option<&Launched>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => Arc::ptr_eq(before, now),
        (None, None) => true,
        (Some(_), None) | (None, Some(_)) => false,
    }
}

async fn sleep_until(due: Option<tokio::time::Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// Resource usage of a sandbox so far. One without a process uses nothing more.
async fn look(held: &mut Held) -> Result<Usage, UsageError> {
    let Some(launched) = &held.launched else {
        return Ok(held.record.whole_usage(Usage::default()));
    };
    let mut usage = held.record.whole_usage(launched.usage().await?);
    usage.memory_average_bytes = held.memory.look(Instant::now(), usage.memory_bytes);
    Ok(usage)
}

/// Reason of the end of a sandbox whose first process ended like this although nobody asked for it.
pub(crate) fn reason_of(exit: Exit, usage: &Usage) -> EndReason {
    match exit {
        Exit::Signal(9) | Exit::Unknown if usage.out_of_memory_kills > 0 => EndReason::OutOfMemory,
        Exit::Code(_) | Exit::Signal(_) | Exit::Unknown => EndReason::Crashed,
    }
}

/// Answers a caller who may have gone away, which is no error.
fn answer<T>(caller: oneshot::Sender<T>, value: T) {
    if caller.send(value).is_err() {
        tracing::debug!("caller went away");
    }
}
