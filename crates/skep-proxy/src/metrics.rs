//! What the proxy counts. Everything it counts is declared here.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn add_one(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A number of things that are there now.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(crate) fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How long something took, in buckets that double from 16 µs.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; Self::BUCKETS],
    sum_micros: AtomicU64,
}

impl Durations {
    const BUCKETS: usize = 20;

    pub(crate) fn record(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let doublings = (micros / 16).checked_ilog2().map_or(0, |power| power + 1);
        let bucket = (doublings as usize).min(Self::BUCKETS - 1);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// For each bucket its upper bound and how many took less than that, the smaller ones not
    /// counted in. The last bucket has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        self.buckets.iter().enumerate().map(|(index, count)| {
            let bound = (index + 1 < Self::BUCKETS).then(|| Duration::from_micros(16 << index));
            (bound, count.load(Ordering::Relaxed))
        })
    }

    /// The sum of all.
    pub fn sum(&self) -> Duration {
        Duration::from_micros(self.sum_micros.load(Ordering::Relaxed))
    }
}

/// What the proxy has seen and done since it started.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Client connections that are open.
    pub connections_open: Gauge,
    /// Client connections ever accepted.
    pub connections_accepted: Counter,
    /// Client connections turned away because there were too many.
    pub connections_refused: Counter,
    /// Client connections closed because they were idle or too slow to say what they want.
    pub connections_expired: Counter,
    /// TLS handshakes that failed.
    pub handshakes_failed: Counter,
    /// Requests handed to the API.
    pub api_requests: Counter,
    /// Requests for sandboxes.
    pub sandbox_requests: Counter,
    /// Requests for sandboxes that are being served.
    pub sandbox_requests_open: Gauge,
    /// Requests the proxy answered itself, with an error.
    pub refusals: Counter,
    /// Connections made to sandboxes.
    pub upstream_connected: Counter,
    /// Requests that found a kept connection to their sandbox.
    pub upstream_reused: Counter,
    /// Connections made through an agent to a service on its loopback.
    pub upstream_tunnelled: Counter,
    /// Clients that left before their answer was complete.
    pub hangups: Counter,
    /// Requests that were cut because their sandbox ended.
    pub cut_by_end: Counter,
    /// From the arrival of a request's head until a connection to its sandbox was at hand.
    pub time_to_upstream: Durations,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_lies_below_the_bound_of_its_bucket() {
        for micros in [0, 15, 16, 17, 1_000, 999_999, u64::MAX] {
            let durations = Durations::default();
            durations.record(Duration::from_micros(micros));
            let (bound, _) = durations.buckets().find(|(_, count)| *count == 1).unwrap();
            assert!(bound.is_none_or(|bound| Duration::from_micros(micros) < bound));
        }
    }
}
