//! What is done now and then, in the background.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use skep_node::Node;
use skep_store::{Store, StoreError};
use skep_telemetry::Chain;
use tokio_util::sync::CancellationToken;

use crate::config::Records;

/// How often old records are looked for.
const INTERVAL: Duration = Duration::from_secs(600);
/// How many records go in one transaction, so that nobody waits long behind it.
const BATCH: u32 = 500;

/// Forgets ended sandboxes that are older or more than `records` says, until `stop`.
pub(crate) async fn forget_old_records(
    store: Store,
    node: Node,
    records: Records,
    stop: CancellationToken,
) {
    loop {
        match forget(&store, &node, records).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "forgot old sandboxes"),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "old sandboxes are not forgotten");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn forget(store: &Store, node: &Node, records: Records) -> Result<usize, StoreError> {
    let age = SignedDuration::from_hours(24 * i64::from(records.days));
    let before = Timestamp::now().checked_sub(age).unwrap_or(Timestamp::MIN);
    let mut forgotten = 0;
    loop {
        let pruning = store.sandboxes().prune(before, records.count, BATCH);
        let ids = pruning.recorded().await?;
        if ids.is_empty() {
            return Ok(forgotten);
        }
        forgotten += ids.len();
        for id in ids {
            node.forget_log(&id).await;
        }
    }
}
