//! Contexts and the kernels that run their code.
//!
//! A [`Contexts`] holds the contexts of one sandbox. One task owns each context and its kernel
//! (`context/owner.rs`): it starts the kernel, feeds it one execution after another, interrupts
//! it, notices its death and starts the next one. What a kernel is, is a trait ([`Kernel`]):
//! ours speak length-prefixed JSON over one Unix socket (`socket_kernel.rs`), others Jupyter's
//! messages over ZeroMQ (`zmq_kernel.rs`), and tests have one that runs no process ([`fake`]).
//!
//! User code runs in the kernel and may send anything over its socket, so nothing that comes
//! from there may cost more memory than is written beside it, and nothing is believed but what
//! only harms the kernel's own user.

mod checkpoints;
mod context;
mod contexts;
mod execution;
pub mod fake;
mod fork_policy;
mod frame_buffer;
mod history;
mod kernel;
mod kernel_process;
mod kernel_specs;
mod kernel_stderr;
mod meter;
mod oom_score;
mod outcome;
mod process;
mod registry;
mod search_path;
mod secrets;
mod socket_kernel;
mod spares;
mod usage;
mod zmq_kernel;

pub use checkpoints::{CheckpointInfo, CopyError};
pub use context::{AskError, InputError};
pub use contexts::{ContextError, ContextInfo, Contexts, FALLBACK_DIRECTORY, SandboxSettings};
pub use execution::{
    ExecuteRequest, Execution, Failure, Limit, Limits, Loss, OnLoss, Receipt, Update,
};
pub use history::{HistoryView, Past, PastCell};
pub use kernel::{Event, Exit, ForkError, Kernel, Launcher, StartError};
pub use kernel_specs::KernelSpecs;
pub use meter::{Meter, Moved, ProcessMeter, Spent, Usage};
pub use outcome::Outcome;
pub use process::{Command, Inherited, Processes, Started};
pub use registry::{ExecutionInfo, Progress};
pub use search_path::has_kernels;
