//! Messages of a launcher.

use serde::{Deserialize, Serialize};

use crate::Step;

/// One message of the launcher to whoever started it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// A process that was forked for the plan begins. Carries one descriptor: its own pidfd.
    Accepted,
    /// The program runs. Carries one descriptor: its pidfd.
    Started {
        /// Process id on the host.
        pid: i32,
        /// Duration of each step, in microseconds.
        timings: Vec<(Step, u32)>,
    },
    /// The launcher gave up; nothing of the process is left.
    Failed {
        /// Step that failed.
        step: Step,
        /// Error of the system call.
        errno: i32,
        /// Object of the failed step, where the step alone does not name it.
        thing: Option<String>,
    },
    /// The process of a tied launch ended.
    Ended(Ended),
    /// The fork server ends. Comes over its own socket, not over that of a plan.
    GaveUp {
        /// Error of the system call.
        errno: i32,
        /// Operation that failed.
        operation: Option<String>,
    },
}

/// Exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}
