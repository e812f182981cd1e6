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
pub struct Order {
    /// The code.
    pub code: String,
    /// Variables for this execution alone.
    pub variables: BTreeMap<String, String>,
    /// How much it may take.
    pub limits: Limits,
    /// What must not be shown, from now on in the whole context: code can remember it.
    pub secrets: Secrets,
    /// What it means when the receiver of the updates is dropped.
    pub on_loss: OnLoss,
    /// Cancelled by whoever knows that nobody waits for this execution any more.
    pub cancel: Arc<CancellationToken>,
}

/// What the loss of the caller means for the code.
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
    /// By this name [`crate::Contexts::attach`] finds it again when its caller was lost.
    pub id: String,
    /// What happens, in order. Dropping it has the effect that [`Order::on_loss`] says.
    pub updates: mpsc::Receiver<Update>,
}

/// Something that happened.
#[derive(Debug)]
pub enum Update {
    /// The kernel that knew the variables of earlier executions has ended since; this
    /// execution runs in a new one.
    StateLost(Loss),
    /// The code produced something.
    Output {
        /// When, in microseconds since 1970, if the kernel told.
        time: Option<i64>,
        /// What. Never [`Output::Ended`].
        output: Output,
    },
    /// So much output was neither delivered nor kept while there was no way to the caller.
    OutputLost {
        /// Its length.
        bytes: u64,
    },
    /// The execution did not come to its own end.
    Failed(Failure),
    /// There is nothing more.
    Ended(Receipt),
}

/// Why an execution did not come to its own end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The kernel ended while it ran.
    Died(Exit),
    /// Somebody restarted the context.
    Restarted,
    /// Somebody removed the context.
    Removed,
    /// It took more than it was allowed to, and was interrupted.
    OverLimit {
        /// What it was allowed to take.
        limit: Limit,
        /// Whether it did not react to the interrupt, and its kernel was killed.
        state_lost: bool,
    },
    /// Somebody interrupted it, and it could not end with an exception of its own: it was not
    /// run yet, or did not react.
    Interrupted {
        /// Whether it did not react, and its kernel was killed.
        state_lost: bool,
    },
    /// It was not run: its context takes more memory already than it was allowed to.
    NoMemory {
        /// What it was allowed to take, in bytes.
        limit: u64,
    },
    /// It was not run: it cannot be limited here as the caller wants.
    NoLimit,
    /// There is no kernel to run it.
    NoKernel {
        /// Why, for the caller to read.
        reason: String,
    },
}

/// How much an execution may take. Whatever is `None` has no limit of its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// How long it may run, from its acceptance by a kernel.
    pub time: Option<Duration>,
    /// How much processor time it may use.
    pub processor: Option<Duration>,
    /// How much memory its context may have while it runs, in bytes.
    pub memory: Option<u64>,
}

/// A limit that ends an execution with an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Of time.
    Time(Duration),
    /// Of processor time.
    Processor(Duration),
}

/// Why the variables of a context are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The kernel ended.
    Died(Exit),
    /// The code asked the kernel to end.
    Exited,
    /// The kernel did not react to an interrupt and was killed.
    Stuck,
}

/// What an execution used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// How it ended.
    pub outcome: Outcome,
    /// From the moment the kernel got it.
    pub wall: Duration,
    /// How long it waited for its turn and for its kernel.
    pub queued: Duration,
    /// What its kernel and everything that started used meanwhile. `None` if that could not be
    /// measured.
    pub spent: Option<Spent>,
}
