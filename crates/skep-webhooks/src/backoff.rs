//! Time after which a delivery that failed is tried again.

use std::time::Duration;

/// Waits between attempts: each twice as long as the one before, and a quarter more or less, so that
/// receivers that come back are not met by all at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait.
    pub first: Duration,
    /// Attempts until a delivery is given up.
    pub attempts: u32,
}

impl Default for Backoff {
    /// Eleven attempts in an hour and a half, more or less; never in less than an hour.
    fn default() -> Self {
        Self {
            first: Duration::from_secs(5),
            attempts: 11,
        }
    }
}

impl Backoff {
    /// The wait after a delivery has failed for the `failed`th time; `None` if it is given up.
    /// `random` chooses among the waits that are as good as each other.
    pub fn wait(&self, failed: u32, random: u16) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        let doublings = failed.saturating_sub(1).min(20);
        let whole = self.first.saturating_mul(1 << doublings);
        // From three quarters to five quarters.
        let part = 0.75 + 0.5 * f64::from(random) / f64::from(u16::MAX);
        Some(whole.mul_f64(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(random: u16) -> Duration {
        let backoff = Backoff::default();
        (1..).map_while(|failed| backoff.wait(failed, random)).sum()
    }

    #[test]
    fn a_receiver_may_be_away_for_an_hour_whatever_chance_says() {
        assert!(total(0) > Duration::from_hours(1), "{:?}", total(0));
        assert!(total(u16::MAX) < Duration::from_hours(2));
    }

    #[test]
    fn each_wait_is_twice_the_one_before_and_the_last_attempt_has_none() {
        let backoff = Backoff::default();
        let seconds = |failed| Some(backoff.wait(failed, u16::MAX / 2 + 1)?.as_secs());
        let waits: Vec<_> = (1..=11).map(seconds).collect();
        let expected = [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560].map(Some);
        assert_eq!(waits[..10], expected);
        assert_eq!(waits[10], None);
    }
}
