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

mod board;
mod context;
mod contexts;
mod execution;
mod expendable;
pub mod fake;
mod frame_buffer;
mod history;
mod installed;
mod kernel;
mod last_words;
mod meter;
mod outcome;
mod process;
mod secrets;
mod socket_kernel;
mod spares;
mod usage;
mod zmq_kernel;

pub use board::{ExecutionInfo, Progress};
pub use contexts::{ContextError, ContextInfo, Contexts, Surroundings};
pub use execution::{Execution, Failure, Limit, Limits, Loss, OnLoss, Order, Receipt, Update};
pub use history::{HistoryView, Past, PastCell};
pub use installed::Installed;
pub use kernel::{Event, Exit, Kernel, Launcher, StartError};
pub use meter::{Meter, Moved, ProcessMeter, Spent, Usage};
pub use outcome::Outcome;
pub use process::{Command, Inherited, Processes, Started};
