//! Failures of the platform, in words for callers.

use skep_jupyter::{Nature, Raised};
use skep_kernels::{Exit, Failure, Limit, Loss, Outcome};

use crate::outcome::outcome;

/// A failure in the words that an exception has.
#[derive(Debug)]
pub(crate) struct Sentence {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) traceback: String,
}

impl Sentence {
    pub(crate) fn about(failure: &Failure) -> Self {
        let (name, value, traceback) = match failure {
            // It names itself: callers often show no more than the name and the value.
            Failure::Died(Exit::OutOfMemory) => (
                "OutOfMemory",
                "There was no memory left for the code, so its kernel was killed. Context was \
                 restarted: its variables are lost. Use less memory, or a template that has more"
                    .to_owned(),
                format!(
                    "The kernel {}. Its variables are lost.",
                    ended(Exit::OutOfMemory)
                ),
            ),
            Failure::Died(exit) => (
                "ContextRestarting",
                "Context was restarted".to_owned(),
                format!("The kernel {}. Its variables are lost.", ended(*exit)),
            ),
            Failure::Restarted | Failure::Removed => (
                "UnexpectedEndOfExecution",
                "Connection to the execution was closed before the execution was finished"
                    .to_owned(),
                String::new(),
            ),
            Failure::OverLimit { limit, state_lost } => {
                let (name, value) = over(*limit);
                (name, value, lost_by_interrupt(*state_lost))
            }
            Failure::Interrupted { state_lost } => (
                "KeyboardInterrupt",
                String::new(),
                lost_by_interrupt(*state_lost),
            ),
            Failure::NoMemory { limit } => (
                "MemoryLimitExceeded",
                format!("The context has more than {limit} bytes already; the code was not run"),
                String::new(),
            ),
            Failure::NoLimit => (
                "LimitUnavailable",
                "Memory cannot be limited on this machine; the code was not run".to_owned(),
                String::new(),
            ),
            Failure::NoKernel { reason } => ("KernelNotStarted", reason.clone(), String::new()),
        };
        Self {
            name,
            value,
            traceback,
        }
    }

    /// Returns the exception that a notebook shows for it.
    pub(crate) fn into_raised(self) -> Raised {
        let traceback = self.traceback;
        Raised {
            name: self.name.to_owned(),
            value: self.value,
            traceback: if traceback.is_empty() {
                Vec::new()
            } else {
                vec![traceback]
            },
            nature: Nature::Runtime,
        }
    }
}

/// Returns the reason for which variables are gone, as a word for programs.
pub(crate) fn reason(loss: Loss) -> &'static str {
    match loss {
        Loss::Died(exit) => outcome(Outcome::of_exit(exit)).name(),
        Loss::Exited => "exited",
        Loss::Stuck => "interrupt_ignored",
    }
}

fn over(limit: Limit) -> (&'static str, String) {
    match limit {
        Limit::Time(limit) => (
            "ExecutionTimeout",
            format!("The execution took longer than {} s", limit.as_secs_f64()),
        ),
        Limit::Processor(limit) => (
            "CpuTimeLimitExceeded",
            format!(
                "The execution used more than {} s of processor time",
                limit.as_secs_f64()
            ),
        ),
    }
}

/// Describes the exit of a kernel, as the end of a sentence about it.
pub(crate) fn ended(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("ended with exit status {code}"),
        Exit::Signal(11) => "ended with a segmentation fault".to_owned(),
        Exit::Signal(number) => format!("was ended by signal {number}"),
        Exit::OutOfMemory => "was killed because there was no memory left for it".to_owned(),
        Exit::Confused => "sent something that is no message, and was ended".to_owned(),
        Exit::Unknown => "ended".to_owned(),
    }
}

fn lost_by_interrupt(state_lost: bool) -> String {
    const LOST: &str =
        "The code did not react to the interrupt, so its kernel was ended. Its variables are lost.";
    if state_lost { LOST } else { "" }.to_owned()
}
