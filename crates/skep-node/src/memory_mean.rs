//! Average memory usage of a sandbox.

use std::time::{Duration, Instant};

/// The average of straight lines between the moments at which somebody looked.
///
/// Nobody looks for its sake: there is a look when the sandbox is taken over, one whenever
/// somebody asks, and one at the end. So it is as fine as the looks are.
#[derive(Debug, Default)]
pub(crate) struct MemoryMean {
    /// Bytes times nanoseconds.
    area: u128,
    time: Duration,
    last: Option<(Instant, u64)>,
}

impl MemoryMean {
    /// Takes in what was used at one moment, and says what was used on average until then.
    pub(crate) fn look(&mut self, at: Instant, bytes: u64) -> u64 {
        if let Some((before, then)) = self.last {
            let time = at.saturating_duration_since(before);
            self.area += (u128::from(then) + u128::from(bytes)) * time.as_nanos() / 2;
            self.time += time;
        }
        self.last = Some((at, bytes));
        let mean = self.area.checked_div(self.time.as_nanos());
        mean.map_or(bytes, |mean| u64::try_from(mean).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_count_for_as_long_as_they_are_apart() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut mean = MemoryMean::default();
        assert_eq!(mean.look(at(0), 100), 100);
        assert_eq!(mean.look(at(0), 100), 100);
        // From 100 to 300 in one second, then 300 for three.
        assert_eq!(mean.look(at(1), 300), 200);
        assert_eq!(mean.look(at(4), 300), 275);
    }

    #[test]
    fn no_amount_is_too_much() {
        let start = Instant::now();
        let mut mean = MemoryMean::default();
        mean.look(start, u64::MAX);
        let years = start + Duration::from_hours(24 * 3650);
        assert_eq!(mean.look(years, u64::MAX), u64::MAX);
    }
}
