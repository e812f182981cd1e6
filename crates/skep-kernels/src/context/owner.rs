//! The task that owns a context and its kernel.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use skep_jupyter::frame::{Layer, Request};
use skep_jupyter::{Fold, Message, Output};
use skep_telemetry::Chain;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::sink::Sink;
use super::{Control, Job};
use crate::contexts::{ContextInfo, Shared, Surroundings};
use crate::execution::{Failure, Loss, Receipt, Update};
use crate::kernel::{Event, Exit, Kernel, Launcher, StartError};
use crate::outcome::Outcome;
use crate::usage::Usage;

/// How long interrupted code may take to end. Python needs milliseconds; code inside C that
/// does not look at signals never ends, and takes its kernel with it.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(4);

/// When an interrupt is sent again: the first may have hit a `finally` that waits.
const SECOND_INTERRUPT: Duration = Duration::from_secs(1);

/// How long a kernel that said it would end may take.
const EXIT_PATIENCE: Duration = Duration::from_secs(5);

/// Owns one context.
pub(super) struct Owner {
    launcher: Arc<dyn Launcher>,
    surroundings: Arc<dyn Surroundings>,
    language: String,
    /// Where the kernel goes when it has started; `None` if it starts there.
    directory: Option<String>,
    jobs: mpsc::Receiver<Job>,
    controls: mpsc::Receiver<Control>,
    /// Controls that came while an execution ran and must wait for its end.
    postponed: VecDeque<Control>,
    kernel: Option<Running>,
    /// Set when a kernel ended that had seen executions.
    lost: Option<Loss>,
    /// Kernels that ended right after their start are not started again unasked.
    may_start_unasked: bool,
    requests: u64,
}

/// A kernel, and what its owner knows about it.
struct Running {
    kernel: Box<dyn Kernel>,
    /// The sandbox's variables that it has.
    environment: BTreeMap<String, String>,
    has_state: bool,
}

enum Next {
    Control(Control),
    Job(Job),
    KernelEnded(Exit),
    NoKernel,
    HandlesGone,
}

impl Owner {
    pub(super) fn new(
        shared: &Shared,
        info: &ContextInfo,
        default_directory: &str,
        jobs: mpsc::Receiver<Job>,
        controls: mpsc::Receiver<Control>,
    ) -> Self {
        Self {
            launcher: Arc::clone(&shared.launcher),
            surroundings: Arc::clone(&shared.surroundings),
            language: info.language.clone(),
            directory: (info.directory != default_directory).then(|| info.directory.clone()),
            jobs,
            controls,
            postponed: VecDeque::new(),
            kernel: None,
            lost: None,
            may_start_unasked: true,
            requests: 0,
        }
    }

    /// Serves the context until it is closed.
    pub(super) async fn run(mut self) {
        loop {
            match self.next().await {
                Next::Control(Control::Ready(answer)) => {
                    let started = self.ensure_kernel().await;
                    if answer.send(started).is_err() {
                        tracing::debug!("nobody waits for the kernel any more");
                    }
                }
                Next::Control(Control::Restart(answer)) => {
                    self.kernel = None;
                    self.lost = None;
                    let started = self.ensure_kernel().await;
                    if answer.send(started).is_err() {
                        tracing::debug!("nobody waits for the restart any more");
                    }
                }
                Next::Control(Control::Close(answer)) => {
                    self.close().await;
                    if answer.send(()).is_err() {
                        tracing::debug!("nobody waits for the end any more");
                    }
                    return;
                }
                Next::Job(job) => self.execute(job).await,
                Next::KernelEnded(exit) => self.lose(Loss::Died(exit)),
                Next::NoKernel => {
                    self.may_start_unasked = false;
                    if let Err(error) = self.ensure_kernel().await {
                        tracing::warn!(error = %Chain(&error), "kernel does not start");
                    }
                }
                Next::HandlesGone => return,
            }
        }
    }

    async fn next(&mut self) -> Next {
        if let Some(control) = self.postponed.pop_front() {
            return Next::Control(control);
        }
        if self.kernel.is_none() && self.may_start_unasked {
            return Next::NoKernel;
        }
        tokio::select! {
            biased;
            control = self.controls.recv() => control.map_or(Next::HandlesGone, Next::Control),
            job = self.jobs.recv() => job.map_or(Next::HandlesGone, Next::Job),
            exit = idle(self.kernel.as_mut()) => Next::KernelEnded(exit),
        }
    }

    /// Has a kernel afterwards, or says why not.
    async fn ensure_kernel(&mut self) -> Result<(), StartError> {
        if self.kernel.is_some() {
            return Ok(());
        }
        let environment = self.surroundings.environment();
        let mut kernel = self.launcher.start(&self.language).await?;
        if let Some(path) = &self.directory {
            // By contract a folder that cannot be entered is no failure: the code starts in
            // the usual one.
            kernel.send(&Request::Chdir { id: "chdir", path });
        }
        self.kernel = Some(Running {
            kernel,
            environment,
            has_state: false,
        });
        Ok(())
    }

    fn lose(&mut self, loss: Loss) {
        if let Some(running) = self.kernel.take()
            && running.has_state
        {
            tracing::info!(?loss, "kernel ended, and its variables are lost");
            self.lost = Some(loss);
            self.may_start_unasked = true;
        }
    }

    async fn close(mut self) {
        self.jobs.close();
        while let Ok(job) = self.jobs.try_recv() {
            let sink = Sink::new(job.updates, job.order.on_loss);
            let failure = Failure::Removed;
            let receipt = Receipt {
                outcome: Outcome::of_failure(&failure),
                wall: Duration::ZERO,
                queued: job.queued.elapsed(),
                usage: None,
            };
            sink.deliver(Update::Failed(failure));
            sink.deliver(Update::Ended(receipt));
        }
        if let Some(mut running) = self.kernel.take() {
            running.kernel.kill();
            drop(timeout(EXIT_PATIENCE, ended(&mut running.kernel)).await);
        }
    }

    async fn execute(&mut self, job: Job) {
        let sink = Sink::new(job.updates, job.order.on_loss);
        if job.order.cancel.is_cancelled() {
            return;
        }
        if let Err(error) = self.ensure_kernel().await {
            tracing::warn!(error = %Chain(&error), "kernel does not start");
            let failure = Failure::NoKernel {
                reason: Chain(&error).to_string(),
            };
            let receipt = Receipt {
                outcome: Outcome::of_failure(&failure),
                wall: Duration::ZERO,
                queued: job.queued.elapsed(),
                usage: None,
            };
            sink.deliver_last(Update::Failed(failure)).await;
            sink.deliver_last(Update::Ended(receipt)).await;
            return;
        }
        if let Some(loss) = self.lost.take() {
            sink.deliver(Update::StateLost(loss));
        }
        self.requests += 1;
        let id = format!("e{}", self.requests);
        let running = self.kernel.as_mut().expect("it was just ensured");
        running.renew_environment(self.surroundings.environment());
        running.has_state = true;
        running.kernel.reset_peak();
        let before = running.kernel.usage();
        running.kernel.send(&Request::Execute {
            id: &id,
            code: &job.order.code,
            env: &job.order.variables,
        });
        let mut course = Course {
            id,
            sink,
            queued: job.queued.elapsed(),
            started: Instant::now(),
            before,
            limit: job.order.time_limit,
            stage: Stage::Running,
            fold: Fold::default(),
            outcome: Outcome::Ok,
        };
        self.may_start_unasked = true;
        let end = self.follow(&mut course, &job.order.cancel).await;
        self.finish(course, end).await;
    }

    /// Listens to the kernel until the execution has ended in some way.
    async fn follow(&mut self, course: &mut Course, cancel: &CancellationToken) -> End {
        let running = self.kernel.as_mut().expect("an execution has a kernel");
        loop {
            let is_running = matches!(course.stage, Stage::Running);
            let deadline = course.deadline();
            let may_read = course.sink.has_room() || course.stage.discards();
            tokio::select! {
                biased;
                control = self.controls.recv() => match control {
                    Some(Control::Ready(answer)) => {
                        if answer.send(Ok(())).is_err() {
                            tracing::debug!("nobody waits for the kernel any more");
                        }
                    }
                    Some(control) => {
                        let failure = match control {
                            Control::Close(_) => Failure::Removed,
                            Control::Restart(_) | Control::Ready(_) => Failure::Restarted,
                        };
                        self.postponed.push_back(control);
                        return End::Failed(failure);
                    }
                    None => return End::Failed(Failure::Removed),
                },
                () = cancel.cancelled(), if is_running => course.interrupt(Cause::HangUp, &mut running.kernel),
                () = course.sink.abandoned(), if is_running => course.interrupt(Cause::HangUp, &mut running.kernel),
                () = until(deadline) => {
                    if let Some(end) = course.late(&mut running.kernel) {
                        return end;
                    }
                }
                () = course.sink.room(), if !may_read => {}
                event = running.kernel.receive(), if may_read => match event {
                    Event::Message(envelope) => {
                        if let Some(end) = course.on(envelope) {
                            return end;
                        }
                    }
                    Event::Ended(exit) => return End::Died(exit),
                },
            }
        }
    }

    async fn finish(&mut self, course: Course, end: End) {
        let failure = match end {
            End::Ended { exiting } => {
                let usage = self
                    .kernel
                    .as_ref()
                    .and_then(|running| running.kernel.usage());
                let receipt = course.receipt(course.outcome, usage);
                let timed_out = course.timed_out();
                if let Some(failure) = timed_out {
                    course.sink.deliver_last(Update::Failed(failure)).await;
                }
                course.sink.deliver_last(Update::Ended(receipt)).await;
                if exiting {
                    self.await_exit().await;
                }
                return;
            }
            End::Stuck => {
                self.lose(Loss::Stuck);
                match course.timed_out() {
                    Some(failure) => failure,
                    // The caller has left; nobody hears of it but the next one.
                    None => return,
                }
            }
            End::Died(exit) => {
                self.lose(Loss::Died(exit));
                Failure::Died(exit)
            }
            End::Failed(failure) => failure,
        };
        let receipt = course.receipt(Outcome::of_failure(&failure), None);
        course.sink.deliver_last(Update::Failed(failure)).await;
        course.sink.deliver_last(Update::Ended(receipt)).await;
    }

    /// The code asked its kernel to end; the next execution must not be sent to it.
    async fn await_exit(&mut self) {
        if let Some(running) = self.kernel.as_mut() {
            drop(timeout(EXIT_PATIENCE, ended(&mut running.kernel)).await);
        }
        self.lose(Loss::Exited);
    }
}

impl Running {
    /// Tells the kernel when the sandbox's variables have changed, as after a resume.
    fn renew_environment(&mut self, environment: BTreeMap<String, String>) {
        if environment != self.environment {
            self.kernel.send(&Request::Environment {
                id: "environment",
                layer: Layer::Sandbox,
                variables: &environment,
            });
            self.environment = environment;
        }
    }
}

/// How an execution ended.
enum End {
    /// By itself, or because it was interrupted.
    Ended { exiting: bool },
    /// The kernel died.
    Died(Exit),
    /// It did not react to an interrupt.
    Stuck,
    /// Something else took its kernel.
    Failed(Failure),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    HangUp,
    TooLong,
}

enum Stage {
    Running,
    Interrupting {
        cause: Cause,
        again: Option<Instant>,
        give_up: Instant,
    },
}

impl Stage {
    /// Whether output goes nowhere because its reader has left.
    fn discards(&self) -> bool {
        matches!(
            self,
            Self::Interrupting {
                cause: Cause::HangUp,
                ..
            }
        )
    }
}

/// One execution on its way.
struct Course {
    id: String,
    sink: Sink,
    queued: Duration,
    started: Instant,
    before: Option<Usage>,
    limit: Option<Duration>,
    stage: Stage,
    fold: Fold,
    outcome: Outcome,
}

impl Course {
    fn on(&mut self, envelope: skep_jupyter::Envelope) -> Option<End> {
        // A message that was too large to be read does not say what it belongs to.
        let is_unnamed = matches!(envelope.message, Message::TooLarge { .. });
        if envelope.parent.as_deref() != Some(self.id.as_str()) && !is_unnamed {
            // Answers to our other requests, and what threads print between executions.
            return None;
        }
        let output = self.fold.on(envelope.message)?;
        match &output {
            Output::Ended { exiting } => return Some(End::Ended { exiting: *exiting }),
            Output::Raised(raised) => {
                self.outcome = Outcome::of_exception(raised);
                if self.timed_out().is_some() {
                    // The interrupt is ours, and is told as what it was for.
                    self.outcome = Outcome::Timeout;
                    return None;
                }
            }
            Output::Accepted { .. }
            | Output::Text { .. }
            | Output::Rich { .. }
            | Output::TooLarge { .. } => {}
        }
        if !self.stage.discards() {
            self.sink.deliver(Update::Output {
                time: envelope.time,
                output,
            });
        }
        None
    }

    /// The next moment at which something must be done.
    fn deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Running => self.limit.and_then(|limit| self.started.checked_add(limit)),
            Stage::Interrupting { again, give_up, .. } => Some(again.unwrap_or(*give_up)),
        }
    }

    /// The deadline has passed.
    fn late(&mut self, kernel: &mut Box<dyn Kernel>) -> Option<End> {
        match &mut self.stage {
            Stage::Running => {
                self.interrupt(Cause::TooLong, kernel);
                None
            }
            Stage::Interrupting {
                again: again @ Some(_),
                ..
            } => {
                *again = None;
                signal(kernel);
                None
            }
            Stage::Interrupting { again: None, .. } => {
                kernel.kill();
                Some(End::Stuck)
            }
        }
    }

    fn interrupt(&mut self, cause: Cause, kernel: &mut Box<dyn Kernel>) {
        let now = Instant::now();
        self.stage = Stage::Interrupting {
            cause,
            again: Some(now + SECOND_INTERRUPT),
            give_up: now + INTERRUPT_PATIENCE,
        };
        signal(kernel);
    }

    /// The failure to tell if the execution was interrupted because it took too long.
    fn timed_out(&self) -> Option<Failure> {
        match self.stage {
            Stage::Interrupting {
                cause: Cause::TooLong,
                ..
            } => Some(Failure::TooLong {
                limit: self.limit.unwrap_or_default(),
            }),
            Stage::Running | Stage::Interrupting { .. } => None,
        }
    }

    fn receipt(&self, outcome: Outcome, after: Option<Usage>) -> Receipt {
        let usage = match (self.before, after) {
            (Some(before), Some(after)) => Some(difference(before, after)),
            (None, _) | (_, None) => None,
        };
        Receipt {
            outcome,
            wall: self.started.elapsed(),
            queued: self.queued,
            usage,
        }
    }
}

fn difference(before: Usage, after: Usage) -> Usage {
    let less = |after: Option<u64>, before: Option<u64>| Some(after?.saturating_sub(before?));
    Usage {
        processor: after.processor.saturating_sub(before.processor),
        peak_memory: after.peak_memory,
        read: less(after.read, before.read),
        written: less(after.written, before.written),
    }
}

fn signal(kernel: &mut Box<dyn Kernel>) {
    if let Err(error) = kernel.interrupt() {
        tracing::debug!(%error, "kernel cannot be interrupted");
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Listens to a kernel that nobody has asked anything, until it ends. What threads print
/// between executions belongs to nobody.
async fn idle(running: Option<&mut Running>) -> Exit {
    match running {
        Some(running) => ended(&mut running.kernel).await,
        None => std::future::pending().await,
    }
}

async fn ended(kernel: &mut Box<dyn Kernel>) -> Exit {
    loop {
        if let Event::Ended(exit) = kernel.receive().await {
            return exit;
        }
    }
}
