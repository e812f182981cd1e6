//! Rate limit for log entries.

use std::time::{Duration, Instant};

/// Largest burst, in bytes.
const BURST: usize = 256 << 10;
/// Sustained rate, in bytes per second: more than a person can read.
const RATE: usize = 64 << 10;

/// Bytes that may be written now; they come back with time.
#[derive(Debug)]
pub(super) struct Budget {
    left: usize,
    /// Time up to which the refill has been credited.
    counted: Instant,
}

impl Budget {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            counted: now,
        }
    }

    /// Returns true if `bytes` would be within the budget.
    pub(super) fn admits(&mut self, now: Instant, bytes: usize) -> bool {
        self.refill(now);
        bytes <= self.left
    }

    /// Takes `bytes` out of the budget; `false` if there are not so many.
    pub(super) fn spend(&mut self, now: Instant, bytes: usize) -> bool {
        let admitted = self.admits(now, bytes);
        if admitted {
            self.left -= bytes;
        }
        admitted
    }

    fn refill(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.counted);
        // A short step would be rounded down to nothing, again and again.
        if since < Duration::from_millis(1) {
            return;
        }
        let milliseconds = usize::try_from(since.as_millis()).unwrap_or(usize::MAX);
        let back = milliseconds.saturating_mul(RATE) / 1000;
        self.left = self.left.saturating_add(back).min(BURST);
        self.counted = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_is_spent_comes_back_with_time_and_never_exceeds_a_burst() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        assert!(budget.spend(start, BURST));
        assert!(!budget.spend(start, 1));
        let later = start + Duration::from_millis(500);
        assert!(!budget.admits(later, RATE / 2 + 1));
        assert!(budget.spend(later, RATE / 2));
        let much_later = later + Duration::from_secs(3600);
        assert!(!budget.admits(much_later, BURST + 1));
        assert!(budget.admits(much_later, BURST));
    }
}
