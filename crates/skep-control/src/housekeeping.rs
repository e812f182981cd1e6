//! Retention of ended sandboxes and of their logs, of snapshots, and of builds.

use std::collections::HashMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use skep_store::StoreError;
use skep_telemetry::Chain;
use skep_types::{SandboxId, TeamId, fair_share};

use crate::Control;

/// Interval between two searches for old records.
const INTERVAL: Duration = Duration::from_mins(10);
/// Age at which a build that was requested and never started has failed. Clients that give up after
/// the request are many.
const WAITING_TIMEOUT: SignedDuration = SignedDuration::from_mins(40);
/// Number of records deleted in one transaction, so that nobody waits long behind it.
const BATCH: u32 = 500;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The ended sandboxes that are remembered, and what else is kept for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Days for which one is remembered.
    pub days: u32,
    /// Limit on their number, of all teams.
    pub count: u32,
    /// Limit on the size of their logs together, in MiB.
    pub log_mib: u32,
    /// Days for which a snapshot is kept; `None` is until somebody forgets it.
    pub snapshot_days: Option<u32>,
    /// Days for which results of steps, uploads and failed builds are kept since they were last used;
    /// `None` is for ever.
    pub build_days: Option<u32>,
    /// Days for which a version of a template is kept that no tag means and nothing uses; `None` is
    /// until its template is deleted.
    pub version_days: Option<u32>,
}

impl Control {
    /// Forgets ended sandboxes that are older or more than `retention` says, and their logs, from
    /// now until [`Control::finish`].
    pub fn keep_house(&self, retention: Retention) {
        let control = self.clone();
        let stop = self.inner.tasks.stopping();
        self.inner.tasks.spawn("forget old records", async move {
            loop {
                control.forget_old(retention).await;
                tokio::select! {
                    () = tokio::time::sleep(INTERVAL) => {}
                    () = stop.cancelled() => return,
                }
            }
        });
    }

    async fn forget_old(&self, retention: Retention) {
        let resting = self.on_backend(|volumes| {
            volumes.rest();
            Ok(())
        });
        if let Err(error) = resting.await {
            tracing::warn!(error = %Chain(&error), "idle volumes stay mounted");
        }
        match self.forget_records(retention).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "forgot old sandboxes"),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "old sandboxes are not forgotten");
            }
        }
        match self.fail_waiting_builds().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "failed builds that never started"),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "builds that never started go on waiting");
            }
        }
        self.forget_builds(retention).await;
        match self.forget_events().await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "forgot old events"),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "old events are not forgotten");
            }
        }
        let forgetting = self.inner.store.keys().forget_expired(Timestamp::now());
        if let Err(error) = forgetting.recorded().await {
            tracing::warn!(error = %Chain(&error), "expired keys are not forgotten");
        }
        match self.forget_old_snapshots(retention).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "forgot old snapshots"),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "old snapshots are not forgotten");
            }
        }
        match self.forget_logs(retention).await {
            Ok(0) => {}
            Ok(count) => tracing::info!(count, "forgot logs of ended sandboxes"),
            Err(error) => {
                tracing::warn!(error = %Chain(error.as_ref()), "logs of ended sandboxes are not forgotten");
            }
        }
    }

    /// Fails builds that were requested and never started.
    async fn fail_waiting_builds(&self) -> Result<usize, StoreError> {
        let now = Timestamp::now();
        let before = now.checked_sub(WAITING_TIMEOUT).unwrap_or(Timestamp::MIN);
        let reason = "the build was requested and never started";
        let failing = self.inner.store.builds().fail_waiting(before, reason, now);
        failing.recorded().await
    }

    /// Forgets snapshots that are older than they may be.
    async fn forget_old_snapshots(&self, retention: Retention) -> Result<usize, StoreError> {
        let Some(days) = retention.snapshot_days else {
            return Ok(0);
        };
        let age = SignedDuration::from_hours(24 * i64::from(days));
        let before = Timestamp::now().checked_sub(age).unwrap_or(Timestamp::MIN);
        let mut forgotten = 0;
        loop {
            let pruning = self.inner.store.checkpoints().prune(before, BATCH);
            let records = pruning.recorded().await?;
            if records.is_empty() {
                return Ok(forgotten);
            }
            forgotten += records.len();
            self.forget_recorded(records).await;
        }
    }

    async fn forget_records(&self, retention: Retention) -> Result<usize, StoreError> {
        let age = SignedDuration::from_hours(24 * i64::from(retention.days));
        let before = Timestamp::now().checked_sub(age).unwrap_or(Timestamp::MIN);
        let sandboxes = self.inner.store.sandboxes();
        let mut forgotten = 0;
        loop {
            let pruning = sandboxes.prune(before, retention.count, BATCH);
            let ids = pruning.recorded().await?;
            if ids.is_empty() {
                return Ok(forgotten);
            }
            forgotten += ids.len();
            for id in ids {
                self.inner.nodes.forget_log(id).await;
            }
        }
    }

    /// Forgets logs of ended sandboxes until those that are left have the size that is allowed.
    async fn forget_logs(&self, retention: Retention) -> Result<usize, BoxError> {
        let most = u64::from(retention.log_mib) << 20;
        let kept = self.inner.nodes.kept_logs().await?;
        let sizes: HashMap<_, _> = kept.into_iter().collect();
        if sizes.values().sum::<u64>() <= most {
            return Ok(0);
        }
        let owners = self.inner.store.sandboxes().ended_by_age().await?;
        let forgotten = beyond_a_fair_share(&owners, &sizes, most);
        for id in &forgotten {
            self.inner.nodes.forget_log(id.clone()).await;
        }
        Ok(forgotten.len())
    }
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
        let sizes: HashMap<_, _> = owners
            .iter()
            .map(|(id, _)| id.clone())
            .zip([1, 10, 10, 1, 10])
            .collect();
        let ids = |range: &[usize]| range.iter().map(|index| owners[*index].0.clone()).collect();
        let forgotten: Vec<SandboxId> = ids(&[1, 2]);
        assert_eq!(beyond_a_fair_share(&owners, &sizes, 15), forgotten);
        assert_eq!(beyond_a_fair_share(&owners, &sizes, 32), []);
        assert_eq!(beyond_a_fair_share(&owners, &sizes, 0).len(), 5);
    }
}
