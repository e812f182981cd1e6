//! One execution on its way, from its acceptance to its end.

use std::time::Duration;

use skep_jupyter::{Envelope, Fold, Message, Output};
use tokio::time::Instant;

use super::sink::Sink;
use crate::execution::{Failure, Receipt, Update};
use crate::kernel::{Exit, Kernel};
use crate::outcome::Outcome;
use crate::usage::Usage;

/// How long interrupted code may take to end. Python needs milliseconds; code inside C that
/// does not look at signals never ends, and takes its kernel with it.
const INTERRUPT_PATIENCE: Duration = Duration::from_secs(4);

/// When an interrupt is sent again: the first may have hit a `finally` that waits.
const SECOND_INTERRUPT: Duration = Duration::from_secs(1);

/// How an execution ended.
pub(super) enum End {
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
pub(super) enum Cause {
    HangUp,
    TooLong,
}

pub(super) enum Stage {
    Running,
    Interrupting {
        cause: Cause,
        again: Option<Instant>,
        give_up: Instant,
    },
}

impl Stage {
    /// Whether output goes nowhere because its reader has left.
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
pub(super) struct Course {
    pub(super) id: String,
    pub(super) sink: Sink,
    pub(super) queued: Duration,
    pub(super) started: Instant,
    pub(super) before: Option<Usage>,
    pub(super) limit: Option<Duration>,
    pub(super) stage: Stage,
    pub(super) fold: Fold,
    pub(super) outcome: Outcome,
}

impl Course {
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
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Running => self.limit.and_then(|limit| self.started.checked_add(limit)),
            Stage::Interrupting { again, give_up, .. } => Some(again.unwrap_or(*give_up)),
        }
    }

    /// The deadline has passed.
    pub(super) fn late(&mut self, kernel: &mut Box<dyn Kernel>) -> Option<End> {
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

    pub(super) fn interrupt(&mut self, cause: Cause, kernel: &mut Box<dyn Kernel>) {
        let now = Instant::now();
        self.stage = Stage::Interrupting {
            cause,
            again: Some(now + SECOND_INTERRUPT),
            give_up: now + INTERRUPT_PATIENCE,
        };
        signal(kernel);
    }

    /// The failure to tell if the execution was interrupted because it took too long.
    pub(super) fn timed_out(&self) -> Option<Failure> {
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

    pub(super) fn receipt(&self, outcome: Outcome, after: Option<Usage>) -> Receipt {
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
