//! Remains of sandboxes that could not be removed and have no owner who would try again.
//!
//! Launches that failed, zygotes that ended, and what an earlier server left: when something of
//! one cannot be removed, it is remembered here and tried again until it is gone. Its slots are
//! nobody else's until then.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use skep_telemetry::{Chain, Gauge};
use skep_types::SandboxId;
use tokio::sync::Notify;

use crate::lease::ReleaseError;
use crate::leases::Leases;
use crate::slots::TakenSlot;

/// Delay before the first retry; it doubles up to the other.
const FIRST_REST: Duration = Duration::from_secs(1);
const LONGEST_REST: Duration = Duration::from_mins(1);

/// The remains that are still to be removed.
#[derive(Debug, Default)]
pub(crate) struct Leftovers {
    /// Held only for a look-up or a change.
    left: Mutex<HashMap<SandboxId, Vec<TakenSlot>>>,
    added: Notify,
    /// Number of sandboxes with remains, as a metric.
    pub(crate) count: Arc<Gauge>,
}

impl Leftovers {
    /// Remembers what is left of a sandbox, with the slots that are still its own.
    pub(crate) fn add(&self, id: &SandboxId, slots: Vec<TakenSlot>, error: &ReleaseError) {
        tracing::error!(
            sandbox = %id, error = %Chain(error),
            "something of a sandbox is left; it is tried again until it is gone"
        );
        let mut left = self.left.lock();
        if !left.contains_key(id) {
            self.count.enter();
        }
        left.entry(id.clone()).or_default().extend(slots);
        drop(left);
        self.added.notify_one();
    }

    /// Forgets what is gone, and gives its slots back.
    fn remove(&self, id: &SandboxId) {
        if self.left.lock().remove(id).is_some() {
            self.count.leave();
        }
    }
}

/// Tries again and again until nothing is left, or `stop` says that the server stops.
pub(crate) async fn retry(leases: Arc<Leases>, stop: impl Future<Output = ()>) {
    let mut stop = pin!(stop);
    let mut rest = FIRST_REST;
    loop {
        let pause = async {
            if leases.leftovers.left.lock().is_empty() {
                leases.leftovers.added.notified().await;
                rest = FIRST_REST;
            }
            tokio::time::sleep(rest).await;
        };
        tokio::select! {
            biased;
            () = &mut stop => return,
            () = pause => {}
        }
        let trying = Arc::clone(&leases);
        let tried = tokio::task::spawn_blocking(move || try_all(&trying)).await;
        if let Err(panic) = tried {
            tracing::error!(error = %Chain(&panic), "removing what is left panicked");
        }
        rest = (rest * 2).min(LONGEST_REST);
    }
}

fn try_all(leases: &Leases) {
    let all: Vec<_> = (leases.leftovers.left.lock().iter())
        .map(|(id, slots)| (id.clone(), slots.first().map(TakenSlot::slot)))
        .collect();
    for (id, slot) in all {
        let deadline = Instant::now() + leases.config.kill_deadline;
        match leases.remove(&id, slot, deadline) {
            Ok(()) => {
                tracing::info!(sandbox = %id, "nothing of it is left any more");
                leases.unregister(&id);
                // With its slots, and not before everything is gone: the next sandbox in a slot has
                // its address and its ids.
                leases.leftovers.remove(&id);
            }
            Err(error) => {
                tracing::debug!(sandbox = %id, error = %Chain(&error), "something is still left");
            }
        }
    }
}
