//! The time by which deliveries are due.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;

/// Longest sleep. The clock may be set meanwhile, and sleeps do not know.
const LONGEST_SLEEP: Duration = Duration::from_mins(1);

/// A clock that can be waited for. Tests have one of their own.
pub trait Clock: fmt::Debug + Send + Sync {
    /// The time.
    fn now(&self) -> Timestamp;

    /// Waits until that time, or for a while: whoever waits looks again.
    fn reached(&self, at: Timestamp) -> BoxFuture<'static, ()>;
}

/// The clock of this host.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn reached(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let left = at.duration_since(self.now());
        let left = Duration::try_from(left).unwrap_or(Duration::ZERO);
        Box::pin(tokio::time::sleep(left.min(LONGEST_SLEEP)))
    }
}
