//! Running one execution, from its turn in the queue to its receipt.

use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use skep_jupyter::Fold;
use skep_jupyter::frame::Request;
use skep_telemetry::Chain;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::ask::{self, AskError};
use super::input;
use super::masks::Masks;
use super::owner::{EXIT_TIMEOUT, MAX_RECORDS, Owner, ended, recorded};
use super::running::{Cause, End, RunningExecution, State};
use super::sink::Sink;
use super::{Control, Job};
use crate::execution::{Failure, Loss, Receipt, Update};
use crate::history::SharedHistory;
use crate::kernel::Event;
use crate::meter::{MemoryLimit, Usage};
use crate::outcome::Outcome;
use crate::secrets::Patterns;

impl Owner {
    pub(super) async fn execute(&mut self, job: Job) {
        let mut sink = Sink::new(job.id.clone(), job.updates.clone(), job.request.on_loss);
        // Whoever cancels has left: no receipt is read, and code that never ran is not history.
        if job.request.cancel.is_cancelled() {
            return;
        }
        // Once for the whole execution, so that its code, its errors and its output are masked
        // alike; and now, not when it was queued, since others may have marked secrets meanwhile.
        let patterns = self.patterns();
        if job.registration.interrupt.is_cancelled() {
            let failure = Failure::Interrupted { state_lost: false };
            self.history
                .begin(&masked(patterns.as_ref(), &job.request.code));
            refuse(&self.history, sink, &job, failure).await;
            return;
        }
        if let Err(error) = self.ensure_kernel().await {
            tracing::warn!(error = %Chain(&error), "kernel does not start");
            let reason = Chain(&error).to_string();
            let reason = masked(patterns.as_ref(), &reason).into_owned();
            self.history
                .begin(&masked(patterns.as_ref(), &job.request.code));
            refuse(&self.history, sink, &job, Failure::NoKernel { reason }).await;
            return;
        }
        // Only now that there is a new kernel: had its start failed, the news of the loss would
        // still be owed to the next execution. In the history it stands before the code.
        if let Some(loss) = self.lost.take() {
            self.history.restarted(Some(loss));
            sink.deliver(Update::StateLost(loss));
        }
        self.history
            .begin(&masked(patterns.as_ref(), &job.request.code));
        let running = self.kernel.as_mut().expect("it was just ensured");
        let meter = Arc::clone(&running.meter);
        // Before the code is sent, which would have a moment without a limit otherwise.
        let limited = job.request.limits.memory.map(|limit| {
            let set = MemoryLimit::set(&meter, limit);
            set.map_err(|error| unlimited(limit, &error))
        });
        let memory_limit = match limited.transpose() {
            Ok(memory_limit) => memory_limit,
            Err(failure) => {
                refuse(&self.history, sink, &job, failure).await;
                return;
            }
        };
        self.requests += 1;
        let id = format!("e{}", self.requests);
        // Not waited for: a kernel takes its requests in order, so the code finds the new
        // variables.
        running.renew_environment(self.settings.environment());
        // From here on the end of the kernel is a loss, even if it comes before the first output.
        running.has_state = true;
        // Last, so that threads that ran on between two executions are not charged to this one.
        meter.reset_peak();
        let before = meter.usage();
        job.registration.start(&meter, before);
        running.kernel.send(&Request::Execute {
            id: &id,
            code: &job.request.code,
            env: &job.request.variables,
            allow_stdin: job.request.allows_input,
        });
        let mut execution = RunningExecution {
            id,
            sink,
            history: self.history.clone(),
            masks: patterns.map(Masks::new),
            queued: job.queued.elapsed(),
            started: Instant::now(),
            meter,
            before,
            heap_limit: running.kernel.heap_limit(),
            limits: job.request.limits,
            allows_input: job.request.allows_input,
            asked: None,
            memory_limit,
            next_sample: None,
            state: State::Running,
            fold: Fold::default(),
            outcome: Outcome::Ok,
        };
        execution.schedule_sample();
        // The sink has the only sender now: the caller's stream ends when `finish` lets go of it,
        // and not only after the wait for a kernel that exits.
        drop(job.updates);
        // A kernel that took code is worth replacing before the next caller comes.
        self.may_start_unasked = true;
        let end = self
            .follow(
                &mut execution,
                &job.request.cancel,
                &job.registration.interrupt,
            )
            .await;
        self.finish(execution, end).await;
    }

    /// Listens to the kernel until the execution has ended in some way.
    async fn follow(
        &mut self,
        execution: &mut RunningExecution,
        cancel: &CancellationToken,
        interrupt: &CancellationToken,
    ) -> End {
        let running = self.kernel.as_mut().expect("an execution has a kernel");
        loop {
            // A token stays cancelled; without the guard, the select below would return at once for
            // ever.
            let is_running = matches!(execution.state, State::Running);
            let deadline = execution.deadline();
            // A caller that does not read keeps us from reading, and with that the kernel from
            // writing: output never piles up here. But when it has left, output is drained, because
            // the end of the code comes behind it.
            let may_read = execution.sink.has_room() || execution.state.discards();
            // In this order, so that no flood of output keeps a restart, an interrupt or a limit
            // waiting.
            tokio::select! {
                biased;
                control = self.controls.recv() => match control {
                    Some(Control::Ready(answer)) => {
                        if answer.send(Ok(())).is_err() {
                            tracing::debug!("nobody waits for the kernel any more");
                        }
                    }
                    Some(Control::Ask(_, answer)) => ask::refuse(answer, AskError::Busy),
                    Some(Control::Copy(request)) => request.while_busy(&mut self.checkpoints),
                    Some(Control::Input(input, answer)) => {
                        input::tell(answer, execution.take_input(&input, &mut running.kernel));
                    }
                    Some(Control::Attach(id, answer)) => {
                        let found = execution.sink.is_lost(&id).then(|| execution.sink.attach());
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
                () = cancel.cancelled(), if is_running => execution.interrupt(Cause::HangUp, &mut running.kernel),
                () = interrupt.cancelled(), if is_running => execution.interrupt(Cause::Asked, &mut running.kernel),
                () = execution.sink.abandoned(), if is_running => execution.interrupt(Cause::HangUp, &mut running.kernel),
                () = until(deadline) => {
                    if let Some(end) = execution.deadline_passed(&mut running.kernel) {
                        return end;
                    }
                }
                () = execution.sink.room(), if !may_read => {}
                event = running.kernel.receive(), if may_read => match event {
                    Event::Message(envelope) => {
                        if let Some(end) = execution.on(envelope) {
                            return end;
                        }
                    }
                    Event::Ended(exit) => return End::Died(exit),
                },
            }
        }
    }

    async fn finish(&mut self, mut execution: RunningExecution, end: End) {
        let exiting = matches!(end, End::Ended { exiting: true });
        let usage = execution.meter.usage();
        // Before the last word, so that whoever heard it finds the context as it was.
        drop(execution.memory_limit.take());
        self.tell_end(&mut execution, end, usage).await;
        if let Some(record) = execution.sink.into_record() {
            if self.records.len() >= MAX_RECORDS {
                self.records.pop_front();
            }
            self.records.push_back(record);
        }
        if exiting {
            self.await_exit().await;
        }
    }

    async fn tell_end(&mut self, execution: &mut RunningExecution, end: End, usage: Option<Usage>) {
        let over_limit = |state_lost| {
            let limit = execution.over_limit()?;
            Some(Failure::OverLimit { limit, state_lost })
        };
        let failure = match end {
            End::Ended { .. } => over_limit(false),
            End::Stuck => {
                self.lose(Loss::Stuck);
                match over_limit(true) {
                    Some(failure) => Some(failure),
                    None if execution.was_asked_to_end() => {
                        Some(Failure::Interrupted { state_lost: true })
                    }
                    // The caller has left; nobody hears of it but the next one.
                    None => {
                        let failure = Failure::Interrupted { state_lost: true };
                        self.history.end(Some(failure));
                        return;
                    }
                }
            }
            End::Died(exit) => {
                let exit = execution.explained(exit, usage);
                self.lose(Loss::Died(exit));
                Some(Failure::Died(exit))
            }
            End::Failed(failure) => Some(failure),
        };
        for output in execution.masks.iter_mut().flat_map(Masks::rest) {
            self.history.output(&output, None);
            let update = Update::Output { time: None, output };
            execution.sink.deliver_last(update).await;
        }
        self.history.end(failure.clone());
        let outcome = failure
            .as_ref()
            .map_or(execution.outcome, Outcome::of_failure);
        let receipt = execution.receipt(outcome, usage);
        if let Some(failure) = failure {
            execution.sink.deliver_last(Update::Failed(failure)).await;
        }
        execution.sink.deliver_last(Update::Ended(receipt)).await;
    }

    /// The code asked its kernel to end; the next execution must not be sent to it.
    async fn await_exit(&mut self) {
        if let Some(running) = self.kernel.as_mut() {
            drop(timeout(EXIT_TIMEOUT, ended(&mut running.kernel)).await);
        }
        self.lose(Loss::Exited);
    }
}

/// Ends an execution that was not run.
async fn refuse(history: &SharedHistory, mut sink: Sink, job: &Job, failure: Failure) {
    let receipt = Receipt {
        outcome: Outcome::of_failure(&failure),
        wall: Duration::ZERO,
        queued: job.queued.elapsed(),
        spent: None,
    };
    history.end(Some(failure.clone()));
    sink.deliver_last(Update::Failed(failure)).await;
    sink.deliver_last(Update::Ended(receipt)).await;
}

/// A text without secrets.
fn masked<'a>(patterns: Option<&Arc<Patterns>>, text: &'a str) -> Cow<'a, str> {
    match patterns {
        Some(patterns) => Cow::Owned(patterns.mask(text)),
        None => Cow::Borrowed(text),
    }
}

/// Translates the error of setting a memory limit.
fn unlimited(limit: u64, error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::OutOfMemory {
        return Failure::NoMemory { limit };
    }
    tracing::warn!(%error, "memory cannot be limited");
    Failure::NoLimit
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
