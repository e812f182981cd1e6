//! Deadlines that a jump of the wall clock does not move.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

/// The end of a sandbox's life.
///
/// Timers follow the monotonic clock. The wall time is only what people are told, and the
/// time since boot is what a restarted server finds its way back by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    pub(crate) instant: Instant,
    /// Time that callers see, to the microsecond.
    pub wall: Timestamp,
}

impl Deadline {
    /// `lifetime` from now.
    pub fn after(lifetime: Duration) -> Self {
        Self::counted_from(wall_now(), lifetime)
    }

    /// `lifetime` from now, where the wall clock's now has been read already.
    pub(crate) fn counted_from(now: Timestamp, lifetime: Duration) -> Self {
        let wall = now
            .checked_add(SignedDuration::try_from(lifetime).unwrap_or(SignedDuration::MAX))
            .unwrap_or(Timestamp::MAX);
        Self {
            instant: Instant::now() + lifetime,
            wall,
        }
    }

    /// A deadline that an earlier server of the same boot had set.
    pub(crate) fn restored(since_boot: Duration, wall: Timestamp) -> Self {
        let left = since_boot.saturating_sub(time_since_boot());
        Self {
            instant: Instant::now() + left,
            wall,
        }
    }

    /// Time that is left until then.
    pub(crate) fn left(&self) -> Duration {
        self.instant.saturating_duration_since(Instant::now())
    }

    /// The deadline on the clock that a restart of the server does not reset.
    pub(crate) fn since_boot(&self) -> Duration {
        time_since_boot() + self.left()
    }
}

/// The wall clock, cut to what the wire carries, so that a client that echoes a time it was
/// given compares equal.
pub(crate) fn wall_now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
}

fn time_since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_deadline_has_the_time_left_that_it_had() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let _entered = runtime.enter();
        let before = Deadline::after(Duration::from_secs(60));
        let after = Deadline::restored(before.since_boot(), before.wall);
        let drift = after.instant.max(before.instant) - after.instant.min(before.instant);
        assert!(drift < Duration::from_millis(50), "{drift:?}");
        assert_eq!(after.wall, before.wall);
    }
}
