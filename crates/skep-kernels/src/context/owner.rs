//! The task that owns a context and its kernel.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use skep_jupyter::Fold;
use skep_jupyter::frame::{Layer, Request};
use skep_telemetry::Chain;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::course::{Cause, Course, End, Stage};
use super::sink::{Record, Sink};
use super::{Control, Job};
use crate::contexts::{ContextInfo, Shared, Surroundings};
use crate::execution::{Execution, Failure, Loss, Receipt, Update};
use crate::kernel::{Event, Exit, Kernel, Launcher, StartError};
use crate::outcome::Outcome;

/// How long a kernel that said it would end may take.
const EXIT_PATIENCE: Duration = Duration::from_secs(5);

/// How many executions are remembered that ended after their callers were lost.
const MAX_RECORDS: usize = 4;

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
    /// What executions produced after their callers were lost, the newest last.
    records: VecDeque<(String, Record)>,
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
            records: VecDeque::new(),
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
                Next::Control(Control::Attach(id, answer)) => {
                    if answer.send(recorded(&mut self.records, &id)).is_err() {
                        tracing::debug!("nobody waits for the record any more");
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
            let mut sink = Sink::new(job.id, job.updates, job.order.on_loss);
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
        let mut sink = Sink::new(job.id, job.updates, job.order.on_loss);
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
                    Some(Control::Attach(id, answer)) => {
                        let found = course.sink.is_lost(&id).then(|| course.sink.attach());
                        if answer.send(found.or_else(|| recorded(&mut self.records, &id))).is_err() {
                            tracing::debug!("nobody waits for the record any more");
                        }
                    }
                    Some(control @ Control::Restart(_)) => {
                        self.postponed.push_back(control);
                        return End::Failed(Failure::Restarted);
                    }
                    Some(control @ Control::Close(_)) => {
                        self.postponed.push_back(control);
                        return End::Failed(Failure::Removed);
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

    async fn finish(&mut self, mut course: Course, end: End) {
        let exiting = matches!(end, End::Ended { exiting: true });
        self.tell_end(&mut course, end).await;
        if let Some(record) = course.sink.into_record() {
            if self.records.len() >= MAX_RECORDS {
                self.records.pop_front();
            }
            self.records.push_back(record);
        }
        if exiting {
            self.await_exit().await;
        }
    }

    async fn tell_end(&mut self, course: &mut Course, end: End) {
        let failure = match end {
            End::Ended { .. } => {
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

/// An execution that ended after its caller was lost. It is told once.
fn recorded(records: &mut VecDeque<(String, Record)>, id: &str) -> Option<Execution> {
    let place = records.iter().position(|(found, _)| found == id)?;
    let (id, record) = records.remove(place)?;
    Some(record.replay(&id).1)
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
