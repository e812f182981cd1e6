//! History of the number of sandboxes that a team ran. Counted from the database, so it costs
//! nothing until asked.

use std::time::Duration;

use jiff::Timestamp;
use skep_store::{Span, StoreError};

use crate::{Caller, Control};

/// The shortest time that a point stands for.
const SHORTEST_STEP: Duration = Duration::from_secs(5);

/// Limit on the number of points, however long the range.
const MOST_POINTS: u32 = 500;

/// Activity of a team during one step of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TeamPoint {
    /// Start of the step.
    pub at: Timestamp,
    /// The most sandboxes that ran at a time.
    pub concurrent: u32,
    /// Number of sandboxes started per second.
    pub start_rate: f64,
}

/// A range of time that does not end before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeRange {
    from: Timestamp,
    until: Timestamp,
}

/// A range that ends before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a range cannot end before it begins")]
pub struct BackwardRange;

impl TimeRange {
    /// The time from `from` to `until`.
    ///
    /// # Errors
    ///
    /// [`BackwardRange`].
    pub fn new(from: Timestamp, until: Timestamp) -> Result<Self, BackwardRange> {
        if from <= until {
            Ok(Self { from, until })
        } else {
            Err(BackwardRange)
        }
    }

    fn step(self) -> Duration {
        let length = Duration::try_from(self.until.duration_since(self.from)).unwrap_or_default();
        SHORTEST_STEP.max(length / MOST_POINTS)
    }
}

impl Control {
    /// History of the caller's team in a time, from its first sandbox in it on. Empty if there was
    /// none.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn team_metrics(
        &self,
        caller: &Caller,
        range: TimeRange,
    ) -> Result<Vec<TeamPoint>, StoreError> {
        let team = caller.team.id.clone();
        let sandboxes = self.inner.store.sandboxes();
        let spans = sandboxes.spans(team, range.from, range.until).await?;
        Ok(series(&spans, range))
    }
}

fn series(spans: &[Span], range: TimeRange) -> Vec<TeamPoint> {
    // Where two meet, the one that ends comes first: they did not run at the same time.
    let mut changes: Vec<(Timestamp, bool)> = Vec::with_capacity(2 * spans.len());
    for span in spans {
        changes.push((span.started_at, true));
        changes.extend(span.ended_at.map(|ended_at| (ended_at, false)));
    }
    changes.sort_unstable();
    let Some((first, _)) = changes.first() else {
        return Vec::new();
    };
    let step = range.step();
    let mut points = Vec::new();
    let mut changes = changes.iter().copied().peekable();
    let mut running = 0u32;
    let mut at = range.from;
    while at <= range.until {
        let next = at.checked_add(step).unwrap_or(Timestamp::MAX);
        let mut most = None;
        let mut starts = 0u32;
        while let Some((time, is_start)) = changes.next_if(|(time, _)| *time < next) {
            if time >= at {
                most = most.max(Some(running));
            }
            if is_start {
                running += 1;
            } else {
                running -= 1;
            }
            starts += u32::from(is_start && time >= at);
            most = most.max(Some(running));
        }
        if *first < next {
            points.push(TeamPoint {
                at,
                concurrent: most.unwrap_or(running),
                start_rate: f64::from(starts) / step.as_secs_f64(),
            });
        }
        at = next;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[track_caller]
    fn check(spans: &[(i64, Option<i64>)], until: i64, expected: &[(i64, u32, f64)]) {
        let spans: Vec<_> = spans
            .iter()
            .map(|(started, ended)| Span {
                started_at: at(*started),
                ended_at: ended.map(at),
            })
            .collect();
        let range = TimeRange::new(at(1000), at(until)).unwrap();
        let points: Vec<_> = series(&spans, range)
            .iter()
            .map(|point| (point.at.as_second(), point.concurrent, point.start_rate))
            .collect();
        assert_eq!(points, expected);
    }

    #[test]
    fn nothing_ran_so_nothing_is_told() {
        check(&[], 1010, &[]);
    }

    #[test]
    fn each_point_has_the_most_that_ran_at_a_time() {
        check(
            &[(1006, Some(1008)), (1007, None), (1008, Some(1016))],
            1015,
            &[(1005, 2, 0.6), (1010, 2, 0.0), (1015, 2, 0.0)],
        );
    }

    #[test]
    fn what_started_before_the_range_runs_in_it_and_does_not_start_again() {
        check(&[(900, None)], 1005, &[(1000, 1, 0.0), (1005, 1, 0.0)]);
        check(
            &[(900, Some(1002)), (901, Some(1002))],
            1005,
            &[(1000, 2, 0.0), (1005, 0, 0.0)],
        );
    }

    #[test]
    fn a_long_range_has_few_points() {
        let range = TimeRange::new(at(0), at(7 * 24 * 3600)).unwrap();
        let span = Span {
            started_at: at(10),
            ended_at: None,
        };
        let points = series(&[span], range);
        assert!((500..=501).contains(&points.len()), "{}", points.len());
    }
}
