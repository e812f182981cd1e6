//! Checkpoints of contexts, as others see them, and the errors of copying a context.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use crate::contexts::ContextError;
use crate::kernel::Exit;

/// Largest number of checkpoints of one context.
pub(crate) const MAX_OF_CONTEXT: usize = 16;

/// Largest number of checkpoints in a sandbox. Each is a process with a cgroup of its own.
pub(crate) const MAX_OF_SANDBOX: usize = 32;

/// A state of a context that can be gone back to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointInfo {
    /// Id of the checkpoint, unique within its context.
    pub id: String,
    /// The checkpoint that its state descends from.
    pub parent: Option<String>,
    /// Time at which it was made.
    pub created: SystemTime,
    /// True if the context's present state descends from this one directly.
    pub is_current: bool,
    /// The end of its process, after which it cannot be gone back to.
    pub lost: Option<Exit>,
}

/// Reasons for which a context is not forked, checkpointed or rolled back.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// There is no such context, it has no kernel, or there are too many contexts.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// Its kernel cannot be copied, whatever it does.
    #[error("contexts of language {language} cannot be forked: their kernel does not copy itself")]
    Unsupported {
        /// The language of the context.
        language: String,
    },
    /// It runs code, and is copied between executions only.
    #[error("the kernel runs code; ask again when that has ended")]
    Busy,
    /// Something in the kernel would be missing in a copy.
    #[error("the context cannot be copied now: {reason}")]
    Refused {
        /// Reason in the words of the kernel.
        reason: String,
    },
    /// There are too many checkpoints already.
    #[error("there are {limit} checkpoints {place} already; delete one")]
    TooMany {
        /// Largest number of them.
        limit: usize,
        /// True if the context or the sandbox has too many.
        place: &'static str,
    },
    /// The context has no such checkpoint.
    #[error("checkpoint {id} not found")]
    NotFound {
        /// Id that the caller asked for.
        id: String,
    },
    /// The process of the checkpoint has ended, and its state with it.
    #[error("checkpoint {id} is lost: its process has ended")]
    Lost {
        /// Id of the checkpoint.
        id: String,
        /// Exit status of its process.
        exit: Exit,
    },
    /// There was no copy in time.
    #[error("the kernel did not copy itself in time")]
    Silent,
    /// The kernel ended before it was copied.
    #[error("the kernel ended before it was copied")]
    Ended,
    /// The copy is not what a kernel forks, or there is no room for its process.
    #[error("the copy of the kernel cannot be used")]
    Process(#[source] io::Error),
}

/// Counts the checkpoints of a sandbox.
#[derive(Debug, Clone, Default)]
pub(crate) struct CheckpointPermits(Arc<AtomicUsize>);

/// A place among the checkpoints of a sandbox, which is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct CheckpointPermit(Arc<AtomicUsize>);

impl CheckpointPermits {
    pub(crate) fn take(&self) -> Option<CheckpointPermit> {
        let more = |taken: usize| (taken < MAX_OF_SANDBOX).then_some(taken + 1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .ok()?;
        Some(CheckpointPermit(Arc::clone(&self.0)))
    }
}

impl Drop for CheckpointPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_given_back_is_taken_again() {
        let places = CheckpointPermits::default();
        let mut taken: Vec<CheckpointPermit> = std::iter::from_fn(|| places.take()).collect();
        assert_eq!(taken.len(), MAX_OF_SANDBOX);
        taken.pop();
        assert!(places.take().is_some());
    }
}
