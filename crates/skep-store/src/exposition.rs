//! The store's metrics in Prometheus' format: names and help, beside what is counted.

use skep_telemetry::Exposition;

use crate::Store;

impl Store {
    /// Writes the metrics of the database.
    pub fn expose(&self, text: &mut Exposition) {
        let metrics = self.metrics();
        text.gauge(
            "skep_store_queue",
            "Writes to the database that wait.",
            metrics.queued.get(),
        );
        text.counter(
            "skep_store_refused_total",
            "Writes to the database that were refused because too many waited.",
            metrics.refused.get(),
        );
        text.gauge(
            "skep_store_failing",
            "1 while the disk does not take the database.",
            u64::from(metrics.is_failing()),
        );
        text.gauge(
            "skep_store_retained",
            "Writes that the disk did not take and that are tried again.",
            metrics.retained.get(),
        );
        text.counter(
            "skep_store_failures_total",
            "Transactions that the disk did not take.",
            metrics.failed.get(),
        );
        text.durations(
            "skep_store_commit_seconds",
            "Transactions of the database.",
            &metrics.commits,
        );
    }
}
