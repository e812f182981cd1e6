//! Sweeps of volumes that are in use already.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::Content;

/// Sweeps at a time. What sandboxes have left may be much, and the disk is everybody's.
const MOST: usize = 2;

/// Sweeps that wait or go on. Clones are the same. The lock is held for an entry.
#[derive(Debug, Clone, Default)]
pub(super) struct Sweeps(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Volumes that wait, each once: those that nobody has any more are gone from here, too.
    waiting: VecDeque<Weak<Content>>,
    /// Threads that sweep.
    threads: usize,
}

/// A thread that sweeps, and counts until this is dropped.
struct Counted {
    sweeps: Sweeps,
    counts: bool,
}

impl Sweeps {
    /// Has a volume swept, now or after others. Until its turn it is let go of if nobody else uses it.
    pub(super) fn begin(&self, content: &Arc<Content>) {
        let mut state = self.0.lock();
        state.waiting.retain(|waiting| waiting.strong_count() > 0);
        state.waiting.push_back(Arc::downgrade(content));
        if state.threads >= MOST {
            return;
        }
        state.threads += 1;
        drop(state);
        let counted = Counted {
            sweeps: self.clone(),
            counts: true,
        };
        let thread = std::thread::Builder::new().name("volume sweep".into());
        if let Err(error) = thread.spawn(move || counted.run()) {
            tracing::warn!(%error, "no volume is swept until one is opened again");
        }
    }
}

impl Counted {
    fn run(mut self) {
        while let Some(content) = self.next() {
            if let Err(error) = content.sweep() {
                tracing::warn!(%error, "what was deleted in a volume is left until it is next opened");
            }
        }
    }

    fn next(&mut self) -> Option<Arc<Content>> {
        let mut state = self.sweeps.0.lock();
        while let Some(waiting) = state.waiting.pop_front() {
            if let Some(content) = waiting.upgrade() {
                return Some(content);
            }
        }
        // In the same breath, so that whoever comes next starts another thread.
        state.threads -= 1;
        self.counts = false;
        None
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.counts {
            self.sweeps.0.lock().threads -= 1;
        }
    }
}
