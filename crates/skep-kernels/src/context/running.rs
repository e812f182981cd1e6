//! One execution on its way, from its acceptance to its end.

use std::sync::Arc;
use std::time::Duration;

use skep_jupyter::{Envelope, Fold, Message, Output};
use tokio::time::Instant;

use super::masks::Masks;
use super::sink::Sink;
use crate::execution::{Failure, Limit, Limits, Receipt, Update};
use crate::history::SharedHistory;
use crate::kernel::{Exit, Kernel};
use crate::meter::{MemoryLimit, Meter, Usage};
use crate::outcome::Outcome;

/// Time limit for interrupted code to end. Python needs milliseconds; code inside C that does not
/// look at signals never ends, and takes its kernel with it.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(4);

/// Delay after which an interrupt is sent again, and once more after twice that: one may have hit a
/// `finally` that waits, or a moment in which `os.system` ignores it.
const SECOND_INTERRUPT: Duration = Duration::from_secs(1);

/// Sampling interval for memory where the peak is only the most that was seen.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Shortest and longest interval between two checks of processor time.
const SAMPLE_INTERVALS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The ways in which an execution ends.
pub(super) enum End {
    /// It ended by itself, or because it was interrupted.
    Ended { exiting: bool },
    /// The kernel died.
    Died(Exit),
    /// It did not react to an interrupt.
    Stuck,
    /// A restart or a removal took its kernel.
    Failed(Failure),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    HangUp,
    Asked,
    Limit(Limit),
}

pub(super) enum State {
    Running,
    Interrupting {
        cause: Cause,
        again: Option<Instant>,
        give_up: Instant,
    },
}

impl State {
    /// Returns true if output is thrown away because its reader has left.
    pub(super) fn discards(&self) -> bool {
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
pub(super) struct RunningExecution {
    pub(super) id: String,
    pub(super) sink: Sink,
    pub(super) history: SharedHistory,
    pub(super) masks: Option<Masks>,
    pub(super) queued: Duration,
    pub(super) started: Instant,
    pub(super) meter: Arc<dyn Meter>,
    pub(super) before: Option<Usage>,
    /// Memory at which the runtime of the language aborts its kernel, in bytes.
    pub(super) heap_limit: Option<u64>,
    pub(super) limits: Limits,
    /// True if somebody answers when the code asks for input.
    pub(super) allows_input: bool,
    /// Id of the kernel's request for input that nobody has answered yet.
    pub(super) asked: Option<String>,
    /// Lifted at the end.
    pub(super) memory_limit: Option<MemoryLimit>,
    /// Time of the next reading of the meter.
    pub(super) next_sample: Option<Instant>,
    pub(super) state: State,
    pub(super) fold: Fold,
    pub(super) outcome: Outcome,
}

impl RunningExecution {
    pub(super) fn on(&mut self, envelope: Envelope) -> Option<End> {
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
                if self.over_limit().is_some() {
                    // The interrupt is ours, and is told as what it was for.
                    return None;
                }
            }
            Output::InputRequested(request) if self.allows_input => {
                self.asked = Some(request.id.clone());
            }
            // Only user code that writes to the kernel's socket itself asks unasked.
            Output::InputRequested(_) => return None,
            Output::Accepted { .. }
            | Output::Text { .. }
            | Output::Rich { .. }
            | Output::Updated(_)
            | Output::Cleared { .. }
            | Output::TooLarge { .. } => {}
        }
        let output = match &mut self.masks {
            Some(masks) => masks.output(output)?,
            None => output,
        };
        self.history.output(&output, envelope.time);
        if self.state.discards() {
            return None;
        }
        self.sink.deliver(Update::Output {
            time: envelope.time,
            output,
        });
        None
    }

    /// The next moment at which something must be done.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Running => {
                let times = [self.time_limit(), self.next_sample];
                times.into_iter().flatten().min()
            }
            State::Interrupting { again, give_up, .. } => Some(again.unwrap_or(*give_up)),
        }
    }

    fn time_limit(&self) -> Option<Instant> {
        self.started.checked_add(self.limits.time?)
    }

    /// The deadline has passed.
    pub(super) fn deadline_passed(&mut self, kernel: &mut Box<dyn Kernel>) -> Option<End> {
        match &mut self.state {
            State::Running => {
                if let Some(limit) = self.reached() {
                    self.interrupt(Cause::Limit(limit), kernel);
                }
                None
            }
            State::Interrupting {
                again: again @ Some(_),
                give_up,
                ..
            } => {
                let third = Instant::now() + 2 * SECOND_INTERRUPT;
                *again = (third < *give_up).then_some(third);
                signal(kernel);
                None
            }
            State::Interrupting { again: None, .. } => {
                kernel.kill();
                if self.over_limit().is_some() {
                    // Its child processes are over the limit with it, and would survive it.
                    self.meter.kill();
                }
                Some(End::Stuck)
            }
        }
    }

    /// The limit that is reached, if one is.
    fn reached(&mut self) -> Option<Limit> {
        if let Some(limit) = self.limits.time
            && self.started.elapsed() >= limit
        {
            return Some(Limit::Time(limit));
        }
        let used = self.meter.usage()?.since(&self.before?).processor;
        match self.limits.processor {
            Some(limit) if used >= limit => Some(Limit::Processor(limit)),
            Some(limit) => {
                self.sample_within(limit.saturating_sub(used));
                None
            }
            None => {
                self.sample_within(SAMPLE_INTERVAL);
                None
            }
        }
    }

    /// Decides when the meter is looked at again, if so much processor time may still be used.
    fn sample_within(&mut self, left: Duration) {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let (soonest, latest) = SAMPLE_INTERVALS;
        let soon = left / u32::try_from(processors).unwrap_or(u32::MAX);
        let wait = if self.meter.is_sampled() {
            soon.min(SAMPLE_INTERVAL)
        } else {
            soon
        };
        self.next_sample = Some(Instant::now() + wait.clamp(soonest, latest));
    }

    /// Begins to look at the meter, if somebody wants that.
    pub(super) fn schedule_sample(&mut self) {
        match self.limits.processor {
            Some(limit) => self.sample_within(limit),
            None if self.meter.is_sampled() => self.sample_within(SAMPLE_INTERVAL),
            None => {}
        }
    }

    pub(super) fn interrupt(&mut self, cause: Cause, kernel: &mut Box<dyn Kernel>) {
        let now = Instant::now();
        self.state = State::Interrupting {
            cause,
            again: Some(now + SECOND_INTERRUPT),
            give_up: now + INTERRUPT_TIMEOUT,
        };
        signal(kernel);
    }

    /// The limit for which the execution was interrupted.
    pub(super) fn over_limit(&self) -> Option<Limit> {
        match self.state {
            State::Interrupting {
                cause: Cause::Limit(limit),
                ..
            } => Some(limit),
            State::Running | State::Interrupting { .. } => None,
        }
    }

    /// Returns true if it was interrupted on request of a caller who still listens.
    pub(super) fn was_asked_to_end(&self) -> bool {
        matches!(
            self.state,
            State::Interrupting {
                cause: Cause::Asked,
                ..
            }
        )
    }

    /// Corrects `exit` by the counters of the OOM killer and of memory.
    pub(super) fn explained(&self, exit: Exit, after: Option<Usage>) -> Exit {
        const SIGKILL: i32 = 9;
        let spent = self
            .before
            .zip(after)
            .map(|(before, after)| after.since(&before));
        let kills = spent.as_ref().and_then(|spent| spent.out_of_memory_kills);
        let is_killed = exit == Exit::Signal(SIGKILL) && kills.is_some_and(|kills| kills > 0);
        let peak = spent.and_then(|spent| spent.peak_memory);
        if is_killed || is_abort_of_language(exit, peak, self.heap_limit) {
            Exit::OutOfMemory
        } else {
            exit
        }
    }

    pub(super) fn receipt(&self, outcome: Outcome, after: Option<Usage>) -> Receipt {
        let spent = self.before.zip(after);
        Receipt {
            outcome,
            wall: self.started.elapsed(),
            queued: self.queued,
            spent: spent.map(|(before, after)| after.since(&before)),
        }
    }
}

/// V8 aborts when its heap is full, and all that can be seen of it is how much memory there was.
fn is_abort_of_language(exit: Exit, peak: Option<u64>, heap_limit: Option<u64>) -> bool {
    const SIGTRAP: i32 = 5;
    const SIGABRT: i32 = 6;
    let is_abort = matches!(exit, Exit::Signal(SIGTRAP | SIGABRT));
    // The peak may be sampled, and is below the limit then.
    let is_full = |(peak, limit): (u64, u64)| peak >= limit / 10 * 8;
    is_abort && peak.zip(heap_limit).is_some_and(is_full)
}

fn signal(kernel: &mut Box<dyn Kernel>) {
    if let Err(error) = kernel.interrupt() {
        tracing::debug!(%error, "kernel cannot be interrupted");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abort_is_want_of_memory_only_where_the_memory_was_full() {
        let limit = Some(1000);
        for (exit, peak, heap_limit, expected) in [
            (Exit::Signal(6), Some(1200), limit, true),
            (Exit::Signal(5), Some(900), limit, true),
            (Exit::Signal(6), Some(700), limit, false),
            (Exit::Signal(6), None, limit, false),
            (Exit::Signal(6), Some(1200), None, false),
            (Exit::Signal(11), Some(1200), limit, false),
            (Exit::Code(134), Some(1200), limit, false),
        ] {
            let seen = is_abort_of_language(exit, peak, heap_limit);
            assert_eq!(seen, expected, "{exit:?} {peak:?} {heap_limit:?}");
        }
    }
}
