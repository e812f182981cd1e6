//! Resource usage of sandboxes, sampled when somebody asks.
//!
//! Nothing is sampled in between, so a sandbox that nobody looks at costs nothing. The first
//! point is the average since its start; each further one is the average since the point
//! before, however short that is.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use skep_types::{Resources, SandboxId, Usage};

use crate::control::now;
use crate::registry::Entry;
use crate::{Caller, Control};

/// Limit on the points that are kept of one sandbox. The oldest go first.
const KEPT: usize = 1000;

/// Two questions within this time get the same answer.
const SHORTEST_STEP: Duration = Duration::from_millis(100);

/// Resource usage of a sandbox at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricPoint {
    /// Time of the sample.
    pub at: Timestamp,
    /// Processor time since the point before, in percent of one processor.
    pub cpu_used_percent: f64,
    /// Cumulative counters at that time.
    pub usage: Usage,
    /// Limits that the usage compares with.
    pub resources: Resources,
}

/// Range of points in a query; both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricRange {
    /// Start of the range; `None` is the start of the sandbox.
    pub from: Option<Timestamp>,
    /// End of the range; `None` is now.
    pub until: Option<Timestamp>,
}

/// The points of one sandbox, and what the next is measured against.
#[derive(Debug, Default)]
pub(crate) struct History {
    points: VecDeque<MetricPoint>,
    /// Time of the last point, on a monotonic clock.
    taken: Option<Instant>,
}

impl Control {
    /// The points of a sandbox of the caller's team, the oldest first, with one of now if the
    /// range includes it. Empty if there is no such sandbox.
    pub async fn metrics(
        &self,
        caller: &Caller,
        id: &SandboxId,
        range: MetricRange,
    ) -> Vec<MetricPoint> {
        let Some(entry) = self.inner.registry.find(&caller.team.id, id) else {
            return Vec::new();
        };
        if range.until.is_none_or(|until| until >= now()) {
            self.sample(&entry).await;
        }
        let wanted = |point: &&MetricPoint| {
            range.from.is_none_or(|from| point.at >= from)
                && range.until.is_none_or(|until| point.at <= until)
        };
        let history = entry.history.lock();
        history.points.iter().filter(wanted).cloned().collect()
    }

    /// Current usage of a sandbox of the caller's team; `None` if there is no such sandbox.
    pub async fn latest_metric(&self, caller: &Caller, id: &SandboxId) -> Option<MetricPoint> {
        let entry = self.inner.registry.find(&caller.team.id, id)?;
        self.sample(&entry).await;
        let history = entry.history.lock();
        history.points.back().cloned()
    }

    async fn sample(&self, entry: &Entry) {
        let fresh = |taken: Instant| taken.elapsed() < SHORTEST_STEP;
        if entry.history.lock().taken.is_some_and(fresh) {
            return;
        }
        let Some(status) = self.published(entry).await else {
            return;
        };
        let Ok(usage) = self.inner.nodes.usage(entry.order.id.clone()).await else {
            return;
        };
        let mut history = entry.history.lock();
        // Somebody else may have asked while the host answered.
        if history.taken.is_some_and(fresh) {
            return;
        }
        history.add(
            now(),
            Instant::now(),
            status.started_at,
            usage,
            entry.order.resources,
        );
    }
}

impl History {
    fn add(
        &mut self,
        at: Timestamp,
        taken: Instant,
        started_at: Timestamp,
        usage: Usage,
        resources: Resources,
    ) {
        let since_start = Duration::try_from(at.duration_since(started_at)).unwrap_or_default();
        let (time, cpu) = match (self.taken, self.points.back()) {
            (Some(last_taken), Some(last)) => (
                taken.duration_since(last_taken),
                usage.cpu_time.saturating_sub(last.usage.cpu_time),
            ),
            (None, _) | (_, None) => (since_start, usage.cpu_time),
        };
        let cpu_used_percent = if time.is_zero() {
            0.0
        } else {
            100.0 * cpu.as_secs_f64() / time.as_secs_f64()
        };
        if self.points.len() == KEPT {
            self.points.pop_front();
        }
        self.points.push_back(MetricPoint {
            at,
            cpu_used_percent,
            usage,
            resources,
        });
        self.taken = Some(taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(milliseconds: u64) -> Usage {
        Usage {
            cpu_time: Duration::from_millis(milliseconds),
            ..Usage::default()
        }
    }

    #[test]
    fn the_first_point_is_the_average_since_the_start_and_the_next_since_the_first() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let start = Instant::now();
        let mut history = History::default();
        let resources = Resources::default();
        history.add(at(1010), start, at(1000), used(5_000), resources);
        // The wall clock jumps an hour in between, which changes nothing.
        let later = start + Duration::from_millis(500);
        history.add(at(4610), later, at(1000), used(6_000), resources);
        let percents: Vec<_> = (history.points.iter())
            .map(|point| point.cpu_used_percent)
            .collect();
        assert_eq!(percents, [50.0, 200.0]);
    }

    #[test]
    fn the_oldest_points_make_room() {
        let mut history = History::default();
        let start = Instant::now();
        for second in 0..1500i64 {
            let at = Timestamp::from_second(second).unwrap();
            history.add(at, start, at, used(0), Resources::default());
        }
        assert_eq!(history.points.len(), KEPT);
        assert_eq!(history.points[0].at, Timestamp::from_second(500).unwrap());
    }
}
