//! Counting the bytes of a rule, and holding them back.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::message::Pace;

/// Bytes that may pass at once, however slow the rule is.
const LEAST_BURST: u64 = 16 * 1024;
/// Bytes after which the server hears what was spent.
const TOLD_EVERY: u64 = 64 * 1024;

/// The bytes of a rule, in both directions.
#[derive(Debug, Default)]
pub(super) struct Meter(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    rule: String,
    spent: u64,
    untold: u64,
    bytes: Option<u64>,
    per_second: Option<u64>,
    /// Bytes that may pass now. Below zero after a large piece, until time has made up for it.
    allowance: i128,
    counted: Option<Instant>,
}

/// The reason for which nothing may pass now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    /// Later something may.
    For(Duration),
    /// Nothing may any more.
    Spent,
}

impl Meter {
    /// Takes new limits over, and what the server knows of.
    pub(super) fn set(&self, pace: &Pace) {
        let mut state = self.0.lock();
        state.rule.clone_from(&pace.rule);
        state.spent = state.spent.max(pace.spent);
        state.bytes = pace.bytes;
        state.per_second = pace.bytes_per_second;
    }

    /// Says whether something may pass now.
    pub(super) fn may_pass(&self, now: Instant) -> Result<(), Held> {
        let mut state = self.0.lock();
        if state.bytes.is_some_and(|most| state.spent >= most) {
            return Err(Held::Spent);
        }
        let Some(per_second) = state.per_second else {
            return Ok(());
        };
        let most = i128::from(per_second.max(LEAST_BURST));
        let grown = match state.counted.replace(now) {
            Some(before) => {
                let elapsed = now.saturating_duration_since(before).as_nanos();
                let nanos = i128::try_from(elapsed).unwrap_or(i128::MAX / i128::from(u64::MAX));
                let grown = nanos * i128::from(per_second) / NANOS;
                if grown == 0 {
                    // What has grown by less than a byte is not lost.
                    state.counted = Some(before);
                }
                grown
            }
            None => most,
        };
        state.allowance = (state.allowance + grown).min(most);
        if state.allowance > 0 {
            return Ok(());
        }
        let nanos = (1 - state.allowance) * NANOS / i128::from(per_second);
        let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
        Err(Held::For(
            Duration::from_nanos(nanos).max(Duration::from_millis(1)),
        ))
    }

    /// Counts what has passed. What is to be told to the server comes back.
    pub(super) fn passed(&self, bytes: usize) -> Option<(String, u64)> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        let mut state = self.0.lock();
        state.spent = state.spent.saturating_add(bytes);
        state.untold = state.untold.saturating_add(bytes);
        if state.per_second.is_some() {
            state.allowance -= i128::from(bytes);
        }
        (state.untold >= TOLD_EVERY)
            .then(|| (state.rule.clone(), std::mem::take(&mut state.untold)))
    }

    /// Bytes that are left to be told to the server.
    pub(super) fn rest(&self) -> Option<(String, u64)> {
        let mut state = self.0.lock();
        let untold = std::mem::take(&mut state.untold);
        (untold > 0).then(|| (state.rule.clone(), untold))
    }
}

const NANOS: i128 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn pace(bytes: Option<u64>, bytes_per_second: Option<u64>) -> Pace {
        Pace {
            rule: "a.test".to_owned(),
            spent: 10,
            bytes,
            bytes_per_second,
        }
    }

    #[test]
    fn bytes_that_were_spent_before_count() {
        let (meter, now) = (Meter::default(), Instant::now());
        meter.set(&pace(Some(100), None));
        assert_eq!(meter.passed(89), None);
        assert_eq!(meter.may_pass(now), Ok(()));
        assert_eq!(meter.rest(), Some(("a.test".to_owned(), 89)));
        assert_eq!(meter.rest(), None);
        assert_eq!(meter.passed(1), None);
        assert_eq!(meter.may_pass(now), Err(Held::Spent));
        // The owner allows more.
        meter.set(&pace(Some(200), None));
        assert_eq!(meter.may_pass(now), Ok(()));
    }

    #[test]
    fn a_second_has_its_bytes_however_they_come() {
        let (meter, begin) = (Meter::default(), Instant::now());
        meter.set(&pace(None, Some(100_000)));
        let (mut now, mut passed) = (begin, 0);
        while passed < 1_000_000 {
            match meter.may_pass(now) {
                Ok(()) => {
                    drop(meter.passed(7_000));
                    passed += 7_000;
                }
                Err(Held::For(wait)) => now += wait,
                Err(Held::Spent) => panic!("it has no limit"),
            }
        }
        let took = now - begin;
        // The first second's were there at once.
        assert!(
            (Duration::from_secs(8)..Duration::from_secs(10)).contains(&took),
            "{took:?}"
        );
    }
}
