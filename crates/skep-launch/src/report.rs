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
    /// CRIU is at a stage at which it waits for a [`Permission`].
    Stage {
        /// The stage.
        stage: Stage,
        /// First process of the tree, by its number on the host.
        pid: i32,
    },
    /// The image is written.
    Dumped,
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

/// A stage of a dump or a restore at which every process of the tree stands, and which goes on when
/// the server says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The memory is written. What else belongs to the image is captured now.
    Dumped,
    /// The processes are restored, with all their limits, and have not run yet.
    Restored,
}

/// Answer of the server to [`Report::Stage`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Permission {
    /// It goes on.
    Go,
    /// It is given up.
    Stop,
}

/// Exit status of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// It returned this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}
