//! Periodic background work.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use skep_node::Node;
use skep_store::{Store, StoreError};
use skep_telemetry::Chain;
use skep_types::{SandboxId, TeamId, fair_share};
use tokio_util::sync::CancellationToken;

use crate::config::Records;

/// Interval between two searches for old records.
const INTERVAL: Duration = Duration::from_secs(600);
/// Number of records deleted in one transaction, so that nobody waits long behind it.
const BATCH: u32 = 500;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

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
        match forget_logs(&store, &node, records).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "forgot logs of ended sandboxes"),
            Err(error) => {
                tracing::warn!(error = %Chain(error.as_ref()), "logs of ended sandboxes are not forgotten");
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

/// Forgets logs of ended sandboxes until those that are left have the size that is configured.
async fn forget_logs(store: &Store, node: &Node, records: Records) -> Result<usize, BoxError> {
    let most = u64::from(records.log_mib) << 20;
    let sizes: HashMap<_, _> = node.kept_logs().await?.into_iter().collect();
    if sizes.values().sum::<u64>() <= most {
        return Ok(0);
    }
    let owners = store.sandboxes().ended_by_age().await?;
    let forgotten = beyond_a_fair_share(&owners, &sizes, most);
    for id in &forgotten {
        node.forget_log(id).await;
    }
    Ok(forgotten.len())
}

/// The logs to forget, the oldest of the teams that have the most, so that at most `most` bytes
/// are left.
fn beyond_a_fair_share(
    owners: &[(SandboxId, TeamId)],
    sizes: &HashMap<SandboxId, u64>,
    most: u64,
) -> Vec<SandboxId> {
    let mut bytes: HashMap<&TeamId, u64> = HashMap::new();
    for (id, team) in owners {
        *bytes.entry(team).or_default() += sizes.get(id).copied().unwrap_or_default();
    }
    let share = fair_share(bytes.values().copied().collect(), most);
    let mut forgotten = Vec::new();
    for (id, team) in owners {
        let size = sizes.get(id).copied().unwrap_or_default();
        if let Some(left) = bytes
            .get_mut(team)
            .filter(|left| **left > share && size > 0)
        {
            *left -= size;
            forgotten.push(id.clone());
        }
    }
    forgotten
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_team_that_logs_much_loses_its_own_logs_and_nobody_elses() {
        let (alice, mallory) = (TeamId::random(), TeamId::random());
        let teams = [&alice, &mallory, &mallory, &alice, &mallory];
        let owners: Vec<_> = teams
            .into_iter()
            .map(|team| (SandboxId::random(), team.clone()))
            .collect();
        let sizes = owners
            .iter()
            .map(|(id, _)| id.clone())
            .zip([1, 10, 10, 1, 10]);
        let sizes: HashMap<_, _> = sizes.collect();
        let ids = |range: &[usize]| range.iter().map(|index| owners[*index].0.clone()).collect();
        let forgotten: Vec<SandboxId> = ids(&[1, 2]);
        assert_eq!(beyond_a_fair_share(&owners, &sizes, 15), forgotten);
        assert_eq!(beyond_a_fair_share(&owners, &sizes, 32), []);
        assert_eq!(beyond_a_fair_share(&owners, &sizes, 0).len(), 5);
    }
}
