//! A meter without a kernel.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::meter::{Meter, Usage};

/// A meter that shows what a test wants to be seen.
#[derive(Debug, Default)]
pub struct FakeMeter {
    /// The usage to report.
    pub usage: Mutex<Usage>,
    /// The limit of memory that is set now.
    pub limit: Mutex<Option<u64>>,
    /// Number of calls of [`Meter::kill`].
    pub kills: AtomicU64,
}

impl FakeMeter {
    /// Every cell takes a millisecond.
    pub(super) fn work(&self) {
        let mut usage = self.usage.lock();
        usage.processor += Duration::from_millis(1);
    }
}

impl Meter for FakeMeter {
    fn usage(&self) -> Option<Usage> {
        Some(*self.usage.lock())
    }

    fn reset_peak(&self) {}

    fn is_sampled(&self) -> bool {
        false
    }

    fn limit_memory(&self, limit: Option<u64>) -> io::Result<()> {
        let used = self.usage().and_then(|usage| usage.memory).unwrap_or(0);
        if limit.is_some_and(|limit| limit < used) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        *self.limit.lock() = limit;
        Ok(())
    }

    fn kill(&self) {
        self.kills.fetch_add(1, Ordering::SeqCst);
    }
}
