//! Isolation by namespaces, cgroups, overlay and seccomp.
//!
//! [`Native`] leases what a sandbox needs of the host ([`skep_host`]), writes the launch plan,
//! and watches the process that the launcher starts by it. Kernels come from zygotes, warmed
//! processes that fork into sandboxes.

mod changes;
mod cold;
mod config;
mod defence;
mod encrypted;
mod exposition;
mod image;
mod launch;
mod memory;
mod native;
mod plan;
mod probe;
mod process;
mod record;
mod restore;
mod running;
mod sandbox;
mod seal_checks;
mod stderr;
mod task_bounds;
mod watch;
mod zygote;

pub use config::{CheckpointConfig, CheckpointedAgents, NativeConfig, ZygoteConfig};
#[doc(hidden)]
pub use defence::Defence;
pub use launch::LaunchCounts;
pub use native::Native;
pub use probe::probe;
pub use zygote::{ZygoteCounts, has_zygote};
