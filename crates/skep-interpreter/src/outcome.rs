//! Outcomes of executions on the wire.

use skep_kernels::Outcome;
use skep_wire::interpreter as wire;

/// The outcome as callers read it.
pub(crate) fn outcome(outcome: Outcome) -> wire::Outcome {
    match outcome {
        Outcome::Ok => wire::Outcome::Ok,
        Outcome::Syntax => wire::Outcome::Syntax,
        Outcome::Runtime => wire::Outcome::Runtime,
        Outcome::Interrupted => wire::Outcome::Interrupted,
        Outcome::Timeout => wire::Outcome::Timeout,
        Outcome::OutOfMemory => wire::Outcome::OutOfMemory,
        Outcome::KernelDied => wire::Outcome::KernelDied,
        Outcome::DiskFull => wire::Outcome::DiskFull,
        Outcome::Killed => wire::Outcome::Killed,
    }
}
