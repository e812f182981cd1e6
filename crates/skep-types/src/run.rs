//! One run of a sandbox: from the moment it is ready to its end.

use jiff::Timestamp;

use crate::ExecutionId;

/// A run of a sandbox, as the database keeps it and as the node that has it writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxRun {
    /// The id of this run.
    pub execution: ExecutionId,
    /// The node's own state of the sandbox, for the server that adopts it. Opaque to others.
    pub launch_record: String,
    /// The time at which the sandbox became ready.
    pub started_at: Timestamp,
    /// The time at which it ends if nobody asks for more.
    pub ends_at: Timestamp,
}
