//! One run of a sandbox: from the moment it is ready to its end.

use jiff::Timestamp;

use crate::{Egress, ExecutionId, ImageKind, Resources, SandboxId};

/// A run of a sandbox, as the database keeps it and as the node that has it writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRun {
    /// The id of this run.
    pub execution: ExecutionId,
    /// The driver's own state of the sandbox, for the server that adopts it. Opaque to others.
    pub driver_record: String,
    /// The time at which the sandbox became ready.
    pub started_at: Timestamp,
    /// The time at which it ends if nobody asks for more.
    pub ends_at: Timestamp,
    /// The parts of it that are kept, if it is paused.
    pub paused: Option<ImageKind>,
}

/// A sandbox that, by the database, was alive when the last server ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivingSandbox {
    /// Id of the sandbox.
    pub id: SandboxId,
    /// Limits that it was started with.
    pub resources: Resources,
    /// Rule for outgoing connections that it was ordered with.
    pub egress: Egress,
    /// The run, as its node reported it; `None` if it never got so far.
    pub run: Option<SandboxRun>,
}
