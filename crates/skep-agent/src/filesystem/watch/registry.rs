//! Watches that are asked from time to time instead of streamed.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Watch;
use super::memory::Memory;
use crate::sandbox::identifier;

/// Largest number of watchers; they live until their caller removes them.
const MAX_WATCHERS: usize = 512;

#[derive(Debug, Default)]
pub(crate) struct Watchers {
    /// Protects the list only.
    watchers: Mutex<HashMap<String, Registered>>,
    memory: Arc<Memory>,
}

#[derive(Debug)]
struct Registered {
    watch: Arc<Watch>,
    _stop: DropGuard,
}

impl Watchers {
    /// Keeps a watch; answers the name by which it can be asked. `None` if there are too many.
    pub(super) fn add(&self, watch: Arc<Watch>) -> Option<String> {
        let mut watchers = self.watchers.lock();
        if watchers.len() >= MAX_WATCHERS {
            return None;
        }
        let id = format!("w{}", identifier::random(20));
        let stop = CancellationToken::new();
        skep_telemetry::spawn("watcher", absorb(Arc::clone(&watch), stop.clone()));
        watchers.insert(
            id.clone(),
            Registered {
                watch,
                _stop: stop.drop_guard(),
            },
        );
        Some(id)
    }

    /// Returns the memory budget of all watches, those that are streamed included.
    pub(super) fn memory(&self) -> Arc<Memory> {
        Arc::clone(&self.memory)
    }

    pub(super) fn find(&self, id: &str) -> Option<Arc<Watch>> {
        self.watchers
            .lock()
            .get(id)
            .map(|registered| Arc::clone(&registered.watch))
    }

    /// Ends a watch; answers whether there was one.
    pub(super) fn remove(&self, id: &str) -> bool {
        self.watchers.lock().remove(id).is_some()
    }
}

/// Interprets changes as they come, so that new directories are watched in time.
async fn absorb(watch: Arc<Watch>, stop: CancellationToken) {
    loop {
        tokio::select! {
            changed = watch.changed() => {
                if changed.is_err() || watch.absorb().await.is_err() {
                    return;
                }
            }
            () = stop.cancelled() => return,
        }
    }
}
