//! The launch plan and the launcher that carries it out.
//!
//! The server has many threads, so it must not run code of its own between fork and exec, and
//! it never enters a namespace. It starts a launcher instead: the same executable, with one
//! thread, which gets a [`LaunchPlan`] over a socket, carries it out step by step, and reports
//! either the running process or the step that failed. A fork server ([`ForkServer`]) is a launcher
//! that stays and forks for every plan, which its one thread allows.

mod capabilities;
mod channel;
mod checkpoint;
mod command;
mod confine;
mod defence;
mod descriptors;
mod filter;
mod fork_server;
mod launcher;
mod plan;
mod report;
mod spawn;
mod step;
mod step_error;
mod step_runner;
mod worker;

pub use capabilities::sandbox_capabilities;
pub use confine::{ConfineError, ConfinedLimits, RelayLimits, confine, confine_relay};
#[doc(hidden)]
pub use defence::Defence;
pub use descriptors::{Descriptor, Descriptors};
pub use filter::{FILTERS, filter_after_entering};
pub use fork_server::{ForkServer, LaunchedBy};
pub use launcher::{covered_proc, read_only_proc, run};
pub use plan::{
    Bind, CgroupSettings, CheckpointTool, DumpPlan, LaunchPlan, Lifetime, Link, MAX_PER_PARENT,
    Network, Parent, Passed, PlannedFile, Privileges, Process, Program, Restoration, RestoredFile,
    Root, Top, Users, VolumeBind,
};
pub use report::{Ended, Stage};
pub use spawn::{Launcher, SpawnError, Started};
pub use step::Step;
