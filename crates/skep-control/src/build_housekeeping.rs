//! Retention of builds, and of what they leave.

use std::time::{Duration, SystemTime};

use jiff::{SignedDuration, Timestamp};
use skep_store::{BuildRetention, StoreError};
use skep_telemetry::Chain;

use crate::{CollectError, Control, Retention};

/// Time between the moment from which nobody can ask for a version and its end: spares and zygotes
/// that were made of it are gone by then, and whoever had just found it has a record.
const LAST_USE: SignedDuration = SignedDuration::from_hours(2);

const DAY: Duration = Duration::from_hours(24);

/// Failure to remove what builds have left.
#[derive(Debug, thiserror::Error)]
enum HousekeepingError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Collect(#[from] CollectError),
    #[error("cannot look at uploads")]
    Uploads(#[source] std::io::Error),
}

impl Control {
    /// Forgets builds, versions, layers, results of steps and uploads that nobody needs and that are
    /// older than they may be.
    pub(crate) async fn forget_builds(&self, retention: Retention) {
        if let Err(error) = self.forget_build_records(retention).await {
            tracing::warn!(error = %Chain(&error), "old builds are not forgotten");
            // What the record says is needed may be more than it is, and never less.
        }
        let Some(days) = retention.build_days else {
            return;
        };
        let age = DAY.saturating_mul(days);
        let before = SystemTime::now().checked_sub(age);
        match self.collect(before.unwrap_or(SystemTime::UNIX_EPOCH)).await {
            Ok(0) => {}
            Ok(bytes) => tracing::info!(bytes, "removed what old builds had left"),
            Err(error) => {
                tracing::warn!(error = %Chain(&error), "what old builds have left is not removed");
            }
        }
    }

    async fn forget_build_records(&self, retention: Retention) -> Result<(), StoreError> {
        let now = Timestamp::now();
        let ago = |age: SignedDuration| now.checked_sub(age).unwrap_or(Timestamp::MIN);
        let days_ago = |days: u32| ago(SignedDuration::from_hours(24 * i64::from(days)));
        let limits = BuildRetention {
            now,
            failed_before: retention.build_days.map(days_ago),
            untagged_before: retention.version_days.map(days_ago),
            removed_before: ago(LAST_USE),
        };
        let pruned = self.inner.store.builds().prune(limits).recorded().await?;
        if pruned.removed + pruned.forgotten > 0 {
            let (removed, forgotten) = (pruned.removed, pruned.forgotten);
            tracing::info!(removed, forgotten, "forgot old builds");
        }
        Ok(())
    }

    /// Removes files that were not used since `before`, and that nothing in the record needs. Returns
    /// the bytes.
    async fn collect(&self, before: SystemTime) -> Result<u64, HousekeepingError> {
        let needed = self.inner.store.builds().layers().await?;
        let layers = self.inner.builds.collect(needed, before).await?;
        let uploads = self.inner.uploads.forget_unused(before).await;
        Ok(layers + uploads.map_err(HousekeepingError::Uploads)?)
    }
}
