//! Numbers that are counted while the work is done, and their text for Prometheus.
//!
//! Each crate declares what it counts in one struct, see [`crate::metrics!`]; nothing is looked up by
//! name. Counting is one atomic addition.

use std::fmt::{Display, Write as _};
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

    /// Counts one more.
    pub fn add_one(&self) {
        self.add(1);
    }

    /// Counts so many more.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
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

    /// One more is there.
    pub fn enter(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One has gone; it was counted in before.
    pub fn leave(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    /// Sets the number to `count`, as one who knows them all says.
    pub fn set(&self, count: u64) {
        self.0.store(count, Ordering::Relaxed);
    }
}

/// A histogram of durations, in buckets that double from 16 µs.
#[derive(Debug, Default)]
pub struct Durations {
    buckets: [AtomicU64; Self::BUCKETS],
    sum_micros: AtomicU64,
}

impl Durations {
    const BUCKETS: usize = 20;

    /// Counts one that took so long.
    pub fn record(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let doublings = (micros / 16).checked_ilog2().map_or(0, |power| power + 1);
        let bucket = usize::try_from(doublings).map_or(usize::MAX, |bucket| bucket);
        self.buckets[bucket.min(Self::BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Iterates over the buckets: the upper bound of each, and the number of durations below it
    /// that are not in a smaller one. The last bucket has no bound.
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

/// Declares a struct of metrics, each with its name for Prometheus and its help text, and a method
/// `expose` that writes them. One without a name is not written.
///
/// Names with labels, which must follow each other, share the help text of the first:
/// `"requests_total{reason=\"idle\"}"`.
#[macro_export]
macro_rules! metrics {
    (
        $(#[$attribute:meta])*
        $visibility:vis struct $struct:ident {
            $( $field:ident: $kind:ident $(= $name:literal)?, $help:literal; )*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Default)]
        $visibility struct $struct {
            $( #[doc = $help] $visibility $field: $crate::$kind, )*
        }

        impl $struct {
            /// Writes the metrics for Prometheus.
            $visibility fn expose(&self, text: &mut $crate::Exposition) {
                $( $( $crate::Metric::expose(&self.$field, $name, $help, text); )? )*
            }
        }
    };
}

/// A number or numbers with a text for Prometheus.
pub trait Metric {
    /// Writes the metric under `name`, which may have labels.
    fn expose(&self, name: &str, help: &str, text: &mut Exposition);
}

impl Metric for Counter {
    fn expose(&self, name: &str, help: &str, text: &mut Exposition) {
        text.counter(name, help, self.get());
    }
}

impl Metric for Gauge {
    fn expose(&self, name: &str, help: &str, text: &mut Exposition) {
        text.gauge(name, help, self.get());
    }
}

impl Metric for Durations {
    fn expose(&self, name: &str, help: &str, text: &mut Exposition) {
        text.durations(name, help, self);
    }
}

/// Metrics as Prometheus reads them.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
    /// Name of the last metric that was introduced.
    last: String,
}

impl Exposition {
    /// A number that only grows. Its name ends with `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help, "counter");
        self.line(format_args!("{name} {value}"));
    }

    /// A number that goes up and down.
    pub fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.head(name, help, "gauge");
        self.line(format_args!("{name} {value}"));
    }

    /// Numbers of one kind that only grow, told apart by `label`.
    pub fn counters<L: Display>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) {
        self.head(name, help, "counter");
        self.labelled(name, label, values);
    }

    /// Numbers of one kind that go up and down, told apart by `label`.
    pub fn gauges<L: Display>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) {
        self.head(name, help, "gauge");
        self.labelled(name, label, values);
    }

    /// Writes a histogram of durations. The name ends with `_seconds`.
    pub fn durations(&mut self, name: &str, help: &str, durations: &Durations) {
        self.head(name, help, "histogram");
        let mut total = 0;
        for (bound, count) in durations.buckets() {
            total += count;
            match bound {
                Some(bound) => {
                    let bound = bound.as_secs_f64();
                    self.line(format_args!("{name}_bucket{{le=\"{bound}\"}} {total}"));
                }
                None => self.line(format_args!("{name}_bucket{{le=\"+Inf\"}} {total}")),
            }
        }
        let sum = durations.sum().as_secs_f64();
        self.line(format_args!("{name}_sum {sum}"));
        self.line(format_args!("{name}_count {total}"));
    }

    /// The text, with the media type `text/plain; version=0.0.4`.
    pub fn into_text(self) -> String {
        self.text
    }

    /// Introduces a metric, unless the last one was the same with another label.
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        let name = name.split('{').next().unwrap_or_default();
        if self.last != name {
            self.line(format_args!("# HELP {name} {help}"));
            self.line(format_args!("# TYPE {name} {kind}"));
            name.clone_into(&mut self.last);
        }
    }

    fn labelled<L: Display>(
        &mut self,
        name: &str,
        label: &str,
        values: impl IntoIterator<Item = (L, u64)>,
    ) {
        for (value, number) in values {
            // Escaped as the format asks, so that no value can end its own quotes.
            let value = value
                .to_string()
                .replace('\\', r"\\")
                .replace('"', r#"\""#)
                .replace('\n', r"\n");
            self.line(format_args!("{name}{{{label}=\"{value}\"}} {number}"));
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("writing to a string cannot fail");
    }
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

    crate::metrics! {
        /// Three of a kind.
        struct Three {
            idle: Counter = "gone_total{reason=\"idle\"}", "Those that have gone.";
            slow: Counter = "gone_total{reason=\"slow\"}", "Those that have gone.";
            hidden: Gauge, "Those that are there.";
        }
    }

    #[test]
    fn what_is_declared_is_written_and_labels_share_their_introduction() {
        let three = Three::default();
        three.slow.add_one();
        three.hidden.enter();
        let mut exposition = Exposition::default();
        three.expose(&mut exposition);
        assert_eq!(
            exposition.into_text(),
            "# HELP gone_total Those that have gone.\n# TYPE gone_total counter\n\
             gone_total{reason=\"idle\"} 0\ngone_total{reason=\"slow\"} 1\n"
        );
    }

    #[test]
    fn buckets_are_counted_up_and_labels_are_quoted() {
        let mut exposition = Exposition::default();
        exposition.counters("a_total", "As.", "kind", [("x\"y", 3)]);
        assert_eq!(
            exposition.into_text(),
            "# HELP a_total As.\n# TYPE a_total counter\na_total{kind=\"x\\\"y\"} 3\n"
        );
        let durations = Durations::default();
        durations.record(Duration::from_micros(20));
        durations.record(Duration::from_secs(3600));
        let mut exposition = Exposition::default();
        exposition.durations("b_seconds", "Bs.", &durations);
        let text = exposition.into_text();
        for line in [
            "b_seconds_bucket{le=\"0.000016\"} 0",
            "b_seconds_bucket{le=\"0.000032\"} 1",
            "b_seconds_bucket{le=\"+Inf\"} 2",
            "b_seconds_count 2",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
