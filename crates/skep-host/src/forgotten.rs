//! Connections of sandboxes that have ended.
//!
//! The packet filter remembers a connection for minutes, or for days if the far end helps, and the
//! table is the host's. The next sandbox with the address would also have them counted as its own.
//! Telling the kernel to forget them takes it tens of milliseconds, whatever there is to forget, so
//! it is done for all that ended of late, and no kill waits for it.

use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use skep_telemetry::Chain;

use crate::slots::Slots;

/// Minimum interval between two flushes of connection-tracking entries.
const INTERVAL: Duration = Duration::from_secs(1);
/// The part of one processor's time that it takes at most.
const SHARE: u32 = 20;

/// Forgets connections of sandboxes that have ended, until `stop`.
pub(crate) async fn keep_forgetting(slots: Arc<Slots>, stop: impl Future<Output = ()>) {
    tokio::pin!(stop);
    let mut pause = INTERVAL;
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = &mut stop => return,
        }
        let began = Instant::now();
        let working = Arc::clone(&slots);
        let forgotten = tokio::task::spawn_blocking(move || forget(&working)).await;
        match forgotten.map_err(io::Error::other).flatten() {
            Ok(0) => {}
            Ok(count) => tracing::debug!(count, "connections of ended sandboxes are forgotten"),
            // They are forgotten in time.
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "cannot forget connections of ended sandboxes");
            }
        }
        pause = INTERVAL.max(began.elapsed() * SHARE);
    }
}

/// Removes the connection-tracking entries of slots that were given back. Blocks.
fn forget(slots: &Slots) -> io::Result<usize> {
    let held = slots.hold_remembered();
    if held.is_empty() {
        return Ok(0);
    }
    let senders: HashSet<_> = held.iter().map(|slot| slot.address()).collect();
    let forgotten =
        skep_linux::forget_connections(|connection| senders.contains(&connection.sender));
    slots.let_go(&held);
    forgotten
}
