//! Log lines that somebody else can cause as often as they like.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Lets one line pass in each period, and counts those that it does not.
#[derive(Debug)]
pub struct LogLimit {
    period: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    last: Option<Instant>,
    held_back: u64,
}

impl LogLimit {
    /// A limit of one line in each `period`.
    pub fn new(period: Duration) -> Self {
        Self {
            period,
            state: Mutex::default(),
        }
    }

    /// Returns the number of lines suppressed since the last one if a line may be written now, else
    /// `None`.
    pub fn admit(&self) -> Option<u64> {
        self.admit_at(Instant::now())
    }

    fn admit_at(&self, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        let is_early = |last: Instant| now.saturating_duration_since(last) < self.period;
        if state.last.is_some_and(is_early) {
            state.held_back += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_passes_in_each_period_and_says_how_many_did_not() {
        let limit = LogLimit::new(Duration::from_secs(10));
        let start = Instant::now();
        let at = |seconds| limit.admit_at(start + Duration::from_secs(seconds));
        assert_eq!(at(0), Some(0));
        assert_eq!(at(1), None);
        assert_eq!(at(9), None);
        assert_eq!(at(10), Some(2));
        assert_eq!(at(25), Some(0));
    }
}
