//! One execution, as its caller sees it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use skep_jupyter::Output;
use skep_types::Secrets;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::kernel::Exit;
use crate::meter::Spent;
use crate::outcome::Outcome;

/// Updates on their way to the caller. When they are all on their way the kernel is not read,
/// and waits.
pub(crate) const UPDATES: usize = 16;

/// Code to run.
#[derive(Debug)]
pub struct ExecuteRequest {
    /// Source text in the language of the context.
    pub code: String,
    /// Variables for this execution alone.
    pub variables: BTreeMap<String, String>,
    /// Limits of time, processor time and memory.
    pub limits: Limits,
    /// Values to mask from now on in the whole context: code can remember them.
    pub secrets: Secrets,
    /// True if somebody answers when the code asks for input; otherwise the kernel refuses to ask.
    pub allows_input: bool,
    /// Policy for the case that the receiver of the updates is dropped.
    pub on_loss: OnLoss,
    /// Cancelled by whoever knows that nobody waits for this execution any more.
    pub cancel: Arc<CancellationToken>,
}

impl ExecuteRequest {
    /// Asks for code to be run without limits, and to be interrupted when its caller is lost.
    pub fn new(code: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            variables: BTreeMap::new(),
            limits: Limits::default(),
            secrets: Secrets::default(),
            allows_input: false,
            on_loss: OnLoss::Interrupt,
            cancel: Arc::default(),
        }
    }
}

/// Policy for an execution whose caller's connection is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnLoss {
    /// The caller has left: interrupt.
    Interrupt,
    /// The way to the caller is broken, and the caller may not even know: go on.
    Continue,
}

/// An execution that was queued.
///
/// The updates end with exactly one [`Update::Ended`], even if the kernel dies.
#[derive(Debug)]
pub struct Execution {
    /// Unique id, by which [`crate::Contexts::attach`] finds it again when its caller was lost.
    pub id: String,
    /// Updates of the execution, in order. Dropping it has the effect that
    /// [`ExecuteRequest::on_loss`] says.
    pub updates: mpsc::Receiver<Update>,
}

/// An event in the course of an execution.
#[derive(Debug)]
pub enum Update {
    /// The kernel that knew the variables of earlier executions has ended since; this
    /// execution runs in a new one.
    StateLost(Loss),
    /// The code produced something.
    Output {
        /// Time of the event in microseconds since 1970, if the kernel gave one.
        time: Option<i64>,
        /// The output itself. Never [`Output::Ended`].
        output: Output,
    },
    /// Output was neither delivered nor kept while there was no connection to the caller.
    OutputLost {
        /// Size of the lost output.
        bytes: u64,
    },
    /// The execution did not come to its own end.
    Failed(Failure),
    /// There is nothing more.
    Ended(Receipt),
}

/// Reasons for which an execution did not come to its own end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The kernel ended while it ran.
    Died(Exit),
    /// A caller restarted the context.
    Restarted,
    /// A caller removed the context.
    Removed,
    /// It took more than it was allowed to, and was interrupted.
    OverLimit {
        /// The limit that was exceeded.
        limit: Limit,
        /// True if it did not react to the interrupt, so that its kernel was killed.
        state_lost: bool,
    },
    /// A caller interrupted it, and it could not end with an exception of its own: it was not run
    /// yet, or did not react.
    Interrupted {
        /// True if it did not react, so that its kernel was killed.
        state_lost: bool,
    },
    /// It was not run: its context takes more memory already than it was allowed to.
    NoMemory {
        /// Requested memory limit, in bytes.
        limit: u64,
    },
    /// It was not run: it cannot be limited here as the caller wants.
    NoLimit,
    /// There is no kernel to run it.
    NoKernel {
        /// Explanation for the caller to read.
        reason: String,
    },
}

/// Resource limits of one execution. Whatever is `None` has no limit of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Wall-clock time, from the moment a kernel accepts the execution.
    pub time: Option<Duration>,
    /// Processor time of all processes of the context.
    pub processor: Option<Duration>,
    /// Memory of the whole context while the execution runs, in bytes.
    pub memory: Option<u64>,
}

/// A limit that ends an execution with an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Wall-clock time, from the acceptance by a kernel.
    Time(Duration),
    /// Processor time, of all processes of the context.
    Processor(Duration),
}

/// Reasons for which the variables of a context are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The kernel ended.
    Died(Exit),
    /// The code asked the kernel to end.
    Exited,
    /// The kernel did not react to an interrupt and was killed.
    Stuck,
}

/// Account of a finished execution: its outcome and the resources it used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Classified result, for programs.
    pub outcome: Outcome,
    /// Wall-clock time from the moment the kernel got it.
    pub wall: Duration,
    /// Time spent waiting in the queue and for a kernel.
    pub queued: Duration,
    /// Resources used meanwhile by the kernel and all processes it started. `None` if that could
    /// not be measured.
    pub spent: Option<Spent>,
}
