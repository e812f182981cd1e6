//! The task that owns one sandbox.

mod end;

use std::sync::Arc;
use std::time::Instant;

use skep_isolation::{Exit, LaunchError, LaunchRequest, Launched, UsageError};
use skep_telemetry::{Chain, trace};
use skep_types::{
    AccessToken, DeadlineMode, EndReason, Ending, Event, ExecutionId, Phase, Redacted, SandboxSpec,
    SandboxStatus, Usage, Verdict,
};
use skep_wire::agent::AgentConfig;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::{Deadline, wall_now};
use crate::journal::Noted;
use crate::memory_mean::MemoryMean;
use crate::node::{CreateError, Inner, KillError};
use crate::record::DriverRecord;
use crate::route::NodeRoute;

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
}

/// A caller who waits for the end of a sandbox.
pub(crate) type Killer = oneshot::Sender<Result<(), KillError>>;

/// The caller who waits for a new sandbox.
pub(crate) type Waiting = oneshot::Sender<Result<SandboxStatus, CreateError>>;

/// One sandbox, its queue, and what is published about it.
pub(crate) struct Driver {
    pub(crate) node: Arc<Inner>,
    pub(crate) queue: mpsc::Receiver<Request>,
    pub(crate) status: watch::Sender<SandboxStatus>,
    pub(crate) route: watch::Sender<Option<NodeRoute>>,
    pub(crate) stop: CancellationToken,
}

/// A sandbox whose agent accepts connections, and what its record needs to know of it.
struct Started {
    launched: Launched,
    execution: ExecutionId,
    control_token: Redacted<String>,
}

/// A sandbox that runs, as its driver holds it.
struct Running {
    launched: Launched,
    record: DriverRecord,
    ended: CancellationToken,
    memory: MemoryMean,
}

/// Reason for which a driver stops driving.
enum Stop {
    /// The sandbox is to be ended, or has ended, and somebody may wait for that.
    End(EndReason, Option<Killer>),
    /// The server stops and leaves the sandbox to the next one.
    Leave,
}

impl Driver {
    /// Launches the sandbox, tells `waiting`, and drives it to its end.
    pub(crate) async fn launch_and_drive(mut self, spec: SandboxSpec, waiting: Waiting) {
        let ordered = Instant::now();
        let node = Arc::clone(&self.node);
        let creating = node.spares.creating();
        let Started {
            launched,
            execution,
            control_token,
        } = match self.start(&spec).await {
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
        let launch = launched.record();
        let record = DriverRecord {
            execution,
            launch,
            access_token: spec.access_token,
            control_token,
            deadline,
            ending: None,
        };
        let running = self.enter_running(launched, record, started_at);
        let status = self.status.borrow().clone();
        // A caller who was told of a sandbox finds it again after the server was killed.
        let recording = self.journal_started(&running.record, &status);
        trace::child("record start").within(recording).await;
        self.node.metrics.create.record(ordered.elapsed());
        answer(waiting, Ok(status));
        drop(creating);
        node.tend_spares();
        self.drive_to_end(running).await;
    }

    /// Takes the spare that was promised, or else launches a sandbox.
    async fn start(&self, spec: &SandboxSpec) -> Result<Started, LaunchError> {
        if let Some(spare) = self.node.spares.claim(&spec.id) {
            let config = agent_config(spec, spare.control_token.reveal());
            let address = spare.launched.address();
            let configuring = self.node.agents.configure(address, &config);
            match trace::step("configure spare", configuring).await {
                Ok(()) => {
                    return Ok(Started {
                        launched: spare.launched,
                        execution: spare.execution,
                        control_token: spare.control_token,
                    });
                }
                Err(error) => {
                    tracing::warn!(error = %Chain(&error), "spare did not take its configuration; launching another sandbox");
                    spare.launched.dispose().await;
                }
            }
        }
        match self.launch(spec).await {
            // A caller who waits goes before those who may come.
            Err(LaunchError::NoRoom(_)) if self.node.give_up_spares().await > 0 => {
                self.launch(spec).await
            }
            launched => launched,
        }
    }

    async fn launch(&self, spec: &SandboxSpec) -> Result<Started, LaunchError> {
        let execution = ExecutionId::random();
        let control_token = Redacted::new(AccessToken::random().reveal().to_owned());
        let request = launch_request(spec, execution, control_token.reveal());
        // The backend starts when it is called, so it is called within the step.
        let launching = async { self.node.isolation.launch(request).await };
        let launched = trace::step("launch", launching).await?;
        Ok(Started {
            launched,
            execution,
            control_token,
        })
    }

    /// Goes on ending a sandbox that an earlier server was ending.
    pub(crate) async fn adopt_and_end(
        mut self,
        launched: Launched,
        record: DriverRecord,
        reason: EndReason,
    ) {
        let running = Running {
            launched,
            record,
            ended: CancellationToken::new(),
            memory: MemoryMean::default(),
        };
        self.end(running, reason, None).await;
    }

    /// Drives a sandbox that an earlier server launched.
    pub(crate) async fn adopt_and_drive(mut self, launched: Launched, record: DriverRecord) {
        let started_at = self.status.borrow().started_at;
        let running = self.enter_running(launched, record, started_at);
        self.drive_to_end(running).await;
    }

    fn journal_started(&self, record: &DriverRecord, status: &SandboxStatus) -> Noted {
        self.node.journal.started(&status.id, record.run(status))
    }

    async fn drive_to_end(&mut self, mut running: Running) {
        match self.drive(&mut running).await {
            Stop::Leave => tracing::debug!("left to the next server"),
            Stop::End(reason, killer) => self.end(running, reason, killer).await,
        }
    }

    /// Serves requests until the sandbox is to be ended or left.
    async fn drive(&mut self, running: &mut Running) -> Stop {
        let launched = Arc::clone(&running.launched);
        let exited = launched.exited();
        tokio::pin!(exited);
        if let Err(error) = look(running).await {
            tracing::debug!(error = %Chain(&error), "no usage at the start");
        }
        loop {
            let deadline = running.record.deadline.instant;
            tokio::select! {
                biased;
                exit = &mut exited => return Stop::End(self.explain(running, exit).await, None),
                () = tokio::time::sleep_until(deadline) => return Stop::End(EndReason::Timeout, None),
                () = self.stop.cancelled() => return Stop::Leave,
                request = self.queue.recv() => match request {
                    Some(Request::End { reason, answer: killer }) => {
                        return Stop::End(reason, Some(killer));
                    }
                    Some(Request::Deadline { deadline, mode, answer: caller }) => {
                        self.move_deadline(running, deadline, mode).await;
                        answer(caller, self.status.borrow().clone());
                    }
                    Some(Request::Usage { answer: caller }) => match look(running).await {
                        Ok(usage) => answer(caller, usage),
                        // The caller sees a sandbox that is no longer here, which is what a
                        // missing counter means.
                        Err(error) => tracing::debug!(error = %Chain(&error), "no usage"),
                    },
                    // The map drops its sender only after this task has ended.
                    None => return Stop::Leave,
                },
            }
        }
    }

    async fn move_deadline(
        &mut self,
        running: &mut Running,
        deadline: Deadline,
        mode: DeadlineMode,
    ) {
        let moves = match mode {
            DeadlineMode::Set => true,
            DeadlineMode::Extend => deadline.instant > running.record.deadline.instant,
        };
        if !moves {
            return;
        }
        running.record.deadline = deadline;
        self.status
            .send_modify(|status| status.ends_at = deadline.wall);
        self.journal_record(&running.record).await;
    }

    /// Journals what has changed in the record of a running sandbox.
    fn journal_record(&self, record: &DriverRecord) -> Noted {
        let status = self.status.borrow();
        self.node.journal.changed(&status.id, record.run(&status))
    }

    /// Finds the reason for which the first process ended although nobody asked for it.
    async fn explain(&self, running: &Running, exit: Exit) -> EndReason {
        let usage = running.launched.usage().await.unwrap_or_default();
        let reason = reason_of(exit, &usage);
        tracing::warn!(?exit, %reason, "first process ended by itself");
        reason
    }

    fn enter_running(
        &mut self,
        launched: Launched,
        record: DriverRecord,
        started_at: jiff::Timestamp,
    ) -> Running {
        let ended = CancellationToken::new();
        self.status.send_modify(|status| {
            status.execution = record.execution;
            status.started_at = started_at;
            status.ends_at = record.deadline.wall;
        });
        self.enter(Event::AgentReady);
        self.route.send_replace(Some(NodeRoute {
            id: self.status.borrow().id.clone(),
            execution: record.execution,
            address: launched.address(),
            access_token: record.access_token.clone(),
            control_token: record.control_token.clone(),
            ended: ended.clone(),
        }));
        Running {
            launched,
            record,
            ended,
            memory: MemoryMean::default(),
        }
    }

    /// Stops all traffic to the sandbox, at once.
    fn close(&self, running: &Running) {
        self.route.send_replace(None);
        running.ended.cancel();
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
                    tracing::error!(%refused, "driver and phase disagree");
                    debug_assert!(false, "{refused}");
                    false
                }
            });
        debug_assert!(event != Event::Exited || self.status.borrow().phase == Phase::Gone);
    }
}

pub(crate) fn launch_request(
    spec: &SandboxSpec,
    execution: ExecutionId,
    control_token: &str,
) -> LaunchRequest {
    let config = agent_config(spec, control_token);
    LaunchRequest {
        id: spec.id.clone(),
        execution,
        layers: spec.template.layers.clone(),
        tenant: spec.tenant.clone(),
        resources: spec.template.resources,
        egress: spec.egress,
        agent_config: Redacted::new(
            serde_json::to_vec(&config).expect("strings and maps of strings serialise"),
        ),
    }
}

fn agent_config(spec: &SandboxSpec, control_token: &str) -> AgentConfig {
    let template = &spec.template;
    let caller = spec.env.reveal().iter();
    let token = spec.access_token.as_ref();
    AgentConfig {
        control_token: control_token.to_owned(),
        access_token: token.map(|token| token.reveal().to_owned()),
        traffic_token: token.map(|token| token.traffic().reveal().to_owned()),
        sandbox_id: spec.id.to_string(),
        template_id: template.id.to_string(),
        env: template.env.iter().chain(caller).cloned().collect(),
        secrets: spec.secrets.reveal().map(str::to_owned).collect(),
        default_user: template.user.clone(),
        default_workdir: template.workdir.clone(),
        memory_mib: template.resources.memory_mib,
    }
}

/// Resource usage of a running sandbox so far.
async fn look(running: &mut Running) -> Result<Usage, UsageError> {
    let mut usage = running.launched.usage().await?;
    let memory = &mut running.memory;
    usage.memory_average_bytes = memory.look(Instant::now(), usage.memory_bytes);
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
