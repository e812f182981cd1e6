//! Memory budget shared by all watches of the agent.
//!
//! Code in the sandbox decides how many directories there are, how long their names are and how
//! often something happens in them; how much of the agent's memory that takes is decided here.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes that watches may take. A directory or an event takes some 200.
const MAX_BYTES: usize = 8 << 20;

/// The bytes that are left for watches.
#[derive(Debug)]
pub(crate) struct Memory {
    left: AtomicUsize,
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(MAX_BYTES)
    }
}

impl Memory {
    pub(super) fn new(bytes: usize) -> Self {
        Self {
            left: AtomicUsize::new(bytes),
        }
    }

    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }
}

/// A part of it, which is given back when this is dropped.
#[derive(Debug)]
pub(super) struct Share {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Share {
    pub(super) fn new(memory: &Arc<Memory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            bytes: 0,
        }
    }

    /// Takes more; answers whether there was enough.
    #[must_use]
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let left = &self.memory.left;
        let taken = left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
            left.checked_sub(bytes)
        });
        if taken.is_ok() {
            self.bytes += bytes;
        }
        taken.is_ok()
    }

    /// Gives some of it back.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.memory.left.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Hands all of it over.
    pub(super) fn take(&mut self) -> Self {
        let nothing = Self::new(&self.memory);
        std::mem::replace(self, nothing)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back_by_whoever_has_it_last() {
        let memory = Arc::new(Memory::new(100));
        let (mut some, mut other) = (Share::new(&memory), Share::new(&memory));
        assert!(some.grow(60));
        assert!(!other.grow(41));
        assert!(other.grow(40));
        other.shrink(30);
        let handed_over = some.take();
        drop(some);
        assert_eq!(memory.left(), 30);
        drop(handed_over);
        other.shrink(1000);
        assert_eq!(memory.left(), 100);
    }
}
