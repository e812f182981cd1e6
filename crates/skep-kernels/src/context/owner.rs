//! The task that owns a context and its kernel.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use skep_jupyter::frame::{Layer, Request};
use skep_telemetry::Chain;
use skep_types::Secrets;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::copies::Checkpoints;
use super::input::{self, InputError};
use super::sink::{Record, Sink};
use super::{Control, FirstKernel, Job};
use crate::checkpoints::CheckpointPermits;
use crate::contexts::{SandboxSettings, Shared};
use crate::execution::{Execution, Failure, Loss, Receipt, Update};
use crate::history::SharedHistory;
use crate::kernel::{Event, Exit, Kernel, Launcher, StartError};
use crate::meter::Meter;
use crate::outcome::Outcome;
use crate::secrets::Patterns;

/// Time limit for the exit of a kernel that announced it or was killed.
pub(super) const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of executions kept that ended after their callers were lost.
pub(super) const MAX_RECORDS: usize = 4;

/// Owns one context.
pub(super) struct Owner {
    launcher: Arc<dyn Launcher>,
    pub(super) settings: Arc<dyn SandboxSettings>,
    pub(super) language: String,
    /// Directory into which the kernel changes once it has started; `None` if it starts there.
    directory: Option<String>,
    secrets: Arc<Mutex<Secrets>>,
    pub(super) history: SharedHistory,
    /// The last secrets that were looked for, and the patterns of them.
    patterns: ([Secrets; 2], Option<Arc<Patterns>>),
    jobs: mpsc::Receiver<Job>,
    pub(super) controls: mpsc::Receiver<Control>,
    /// Controls that came while an execution ran and must wait for its end.
    pub(super) postponed: VecDeque<Control>,
    pub(super) kernel: Option<Running>,
    pub(super) checkpoints: Checkpoints,
    /// Checkpoints of all contexts together.
    pub(super) places: CheckpointPermits,
    /// Set when a kernel ended that had seen executions.
    pub(super) lost: Option<Loss>,
    /// Updates of executions that ended after their callers were lost, the newest last.
    pub(super) records: VecDeque<(String, Record)>,
    /// Kernels that ended right after their start are not started again unasked, and some contexts
    /// wait for their first execution.
    pub(super) may_start_unasked: bool,
    pub(super) requests: u64,
}

/// Parts of an owner, beside what all contexts share.
pub(super) struct OwnerParts {
    pub(super) language: String,
    /// Directory into which the kernel changes once it has started; `None` if it starts there.
    pub(super) directory: Option<String>,
    pub(super) secrets: Arc<Mutex<Secrets>>,
    pub(super) jobs: mpsc::Receiver<Job>,
    pub(super) controls: mpsc::Receiver<Control>,
    pub(super) first_kernel: FirstKernel,
    /// A kernel that runs already, for a context that is the copy of another.
    pub(super) kernel: Option<Running>,
}

/// A kernel, and what its owner knows about it.
pub(super) struct Running {
    pub(super) kernel: Box<dyn Kernel>,
    pub(super) meter: Arc<dyn Meter>,
    /// The sandbox's variables that it has.
    pub(super) environment: BTreeMap<String, String>,
    pub(super) has_state: bool,
}

enum Next {
    Control(Control),
    Job(Job),
    KernelEnded(Exit),
    NoKernel,
    HandlesGone,
}

impl Owner {
    pub(super) fn new(shared: &Shared, parts: OwnerParts) -> Self {
        Self {
            launcher: Arc::clone(&shared.launcher),
            settings: Arc::clone(&shared.settings),
            language: parts.language,
            directory: parts.directory,
            secrets: parts.secrets,
            history: SharedHistory::new(&shared.budget),
            patterns: Default::default(),
            jobs: parts.jobs,
            controls: parts.controls,
            postponed: VecDeque::new(),
            kernel: parts.kernel,
            checkpoints: Checkpoints::default(),
            places: shared.checkpoints.clone(),
            lost: None,
            records: VecDeque::new(),
            may_start_unasked: parts.first_kernel == FirstKernel::AtOnce,
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
                    let had_state = self.kernel.take().is_some_and(|kernel| kernel.has_state);
                    let was_lost = self.lost.take().is_some();
                    // The restart of a kernel that no code has used leaves no trace.
                    if had_state || was_lost {
                        self.history.restarted(None);
                    }
                    self.checkpoints.leave();
                    let started = self.ensure_kernel().await;
                    if answer.send(started).is_err() {
                        tracing::debug!("nobody waits for the restart any more");
                    }
                }
                Next::Control(Control::Ask(question, answer)) => {
                    self.answer(&question, answer).await;
                }
                Next::Control(Control::Copy(request)) => self.copy(request).await,
                Next::Control(Control::Input(_, answer)) => {
                    input::tell(answer, Err(InputError::NotAsked));
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
        // Controls first: a restart or a removal does not wait behind the queue of executions.
        tokio::select! {
            biased;
            control = self.controls.recv() => control.map_or(Next::HandlesGone, Next::Control),
            job = self.jobs.recv() => job.map_or(Next::HandlesGone, Next::Job),
            exit = idle(self.kernel.as_mut()) => Next::KernelEnded(exit),
        }
    }

    /// Has a kernel afterwards, or says why not.
    pub(super) async fn ensure_kernel(&mut self) -> Result<(), StartError> {
        if self.kernel.is_some() {
            return Ok(());
        }
        // Read before the start: a change meanwhile is then seen as one before the next execution.
        let environment = self.settings.environment();
        let mut kernel = self.launcher.start(&self.language).await?;
        if let Some(path) = &self.directory {
            // By contract a directory that cannot be entered is no failure: the code starts in
            // the usual one.
            kernel.send(&Request::Chdir { id: "chdir", path });
        }
        self.kernel = Some(Running::new(kernel, environment, false));
        Ok(())
    }

    pub(super) fn lose(&mut self, loss: Loss) {
        if let Some(running) = self.kernel.take()
            && running.has_state
        {
            tracing::info!(?loss, "kernel ended, and its variables are lost");
            self.lost = Some(loss);
            self.may_start_unasked = true;
            self.checkpoints.leave();
        }
    }

    /// Returns the patterns to mask in the output of an execution that begins now.
    pub(super) fn patterns(&mut self) -> Option<Arc<Patterns>> {
        let own = self.secrets.lock().clone();
        let secrets = [self.settings.secrets(), own];
        if secrets != self.patterns.0 {
            let patterns = Patterns::new(&secrets);
            self.patterns = (secrets, patterns);
        }
        self.patterns.1.clone()
    }

    async fn close(mut self) {
        self.jobs.close();
        while let Ok(job) = self.jobs.try_recv() {
            let mut sink = Sink::new(job.id, job.updates, job.request.on_loss);
            let failure = Failure::Removed;
            let receipt = Receipt {
                outcome: Outcome::of_failure(&failure),
                wall: Duration::ZERO,
                queued: job.queued.elapsed(),
                spent: None,
            };
            // There is room: nothing has been delivered to it yet.
            sink.deliver(Update::Failed(failure));
            sink.deliver(Update::Ended(receipt));
        }
        if let Some(mut running) = self.kernel.take() {
            running.kernel.kill();
            drop(timeout(EXIT_TIMEOUT, ended(&mut running.kernel)).await);
        }
        self.checkpoints.end().await;
    }
}

impl Running {
    pub(super) fn new(
        kernel: Box<dyn Kernel>,
        environment: BTreeMap<String, String>,
        has_state: bool,
    ) -> Self {
        Self {
            meter: kernel.meter(),
            kernel,
            environment,
            has_state,
        }
    }

    /// Tells the kernel when the sandbox's variables have changed, as after a resume.
    pub(super) fn renew_environment(&mut self, environment: BTreeMap<String, String>) {
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
pub(super) fn recorded(records: &mut VecDeque<(String, Record)>, id: &str) -> Option<Execution> {
    let place = records.iter().position(|(found, _)| found == id)?;
    let (id, record) = records.remove(place)?;
    Some(record.replay(&id).1)
}

/// Listens to a kernel that nobody has asked anything, until it ends. What threads print
/// between executions belongs to nobody.
async fn idle(running: Option<&mut Running>) -> Exit {
    match running {
        Some(running) => ended(&mut running.kernel).await,
        None => std::future::pending().await,
    }
}

pub(super) async fn ended(kernel: &mut Box<dyn Kernel>) -> Exit {
    loop {
        if let Event::Ended(exit) = kernel.receive().await {
            return exit;
        }
        // A kernel that never stops speaking must not hold the thread.
        tokio::task::consume_budget().await;
    }
}
