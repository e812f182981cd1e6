//! The node's metrics. Everything it counts is declared here.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use skep_isolation::{ChangeError, LaunchError};
use skep_telemetry::{Counter, Durations};
use skep_types::EndReason;

/// Metrics of the node since it started.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Time from the order of a sandbox until it could be told that it runs.
    pub create: Durations,
    /// Sandboxes of earlier servers that were taken over.
    pub adopted: Counter,
    /// Sandboxes that were paused.
    pub paused: Counter,
    /// Sandboxes that went on after a pause.
    pub resumed: Counter,
    /// Frozen sandboxes that were written to an image, so that they need no memory.
    pub stored: Counter,
    /// Images of paused sandboxes that were compressed.
    pub compressed: Counter,
    /// Number of sandboxes that could not be written to an image, by the step that failed. Held only for a
    /// look-up or a change.
    store_failures: Mutex<BTreeMap<String, u64>>,
    endings: [Counter; EndReason::ALL.len()],
    /// Number of failed launches by step. Steps are few, and failures are rare. Held only for a
    /// look-up or a change.
    failures: Mutex<BTreeMap<String, u64>>,
}

impl Metrics {
    /// Number of ended sandboxes, by reason.
    pub fn endings(&self) -> impl Iterator<Item = (EndReason, u64)> {
        let counts = self.endings.iter().map(Counter::get);
        EndReason::ALL.into_iter().zip(counts)
    }

    /// Number of failed launches, by step.
    pub fn launch_failures(&self) -> BTreeMap<String, u64> {
        self.failures.lock().clone()
    }

    /// Number of sandboxes that could not be written to an image, by the step that failed.
    pub fn store_failures(&self) -> BTreeMap<String, u64> {
        self.store_failures.lock().clone()
    }

    pub(crate) fn store_failed(&self, error: &ChangeError) {
        let step = match error {
            ChangeError::Unsupported(unsupported) => unsupported.to_string(),
            ChangeError::Unwritable { operation, .. }
            | ChangeError::Failed { operation, .. }
            | ChangeError::Damaged { operation, .. } => without_thing(operation),
        };
        *self.store_failures.lock().entry(step).or_default() += 1;
    }

    pub(crate) fn ended(&self, reason: EndReason) {
        let same = EndReason::ALL.into_iter().zip(&self.endings);
        for (_, counter) in same.filter(|(candidate, _)| *candidate == reason) {
            counter.add_one();
        }
    }

    pub(crate) fn launch_failed(&self, error: &LaunchError) {
        let step = match error {
            LaunchError::NoRoom(what) => format!("no free {what}"),
            LaunchError::Host { operation, .. } => without_thing(operation),
            LaunchError::Step { step, .. } => without_thing(step),
            LaunchError::VolumePlace { .. } => "place of a volume".to_owned(),
            LaunchError::AgentSilent(_) => "agent silent".to_owned(),
            LaunchError::AgentEnded(_) => "agent ended".to_owned(),
            LaunchError::Unsupported(unsupported) => unsupported.to_string(),
        };
        *self.failures.lock().entry(step).or_default() += 1;
    }
}

/// The step alone: what it was done to would make every failure one of its own kind.
fn without_thing(step: &str) -> String {
    let step = step.split_once('`').map_or(step, |(step, _)| step);
    step.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_step_and_endings_by_reason() {
        let metrics = Metrics::default();
        for path in ["a", "b"] {
            metrics.launch_failed(&LaunchError::Step {
                step: format!("mounting `{path}`"),
                source: "no".into(),
            });
        }
        assert_eq!(
            metrics.launch_failures(),
            [("mounting".to_owned(), 2)].into()
        );
        metrics.ended(EndReason::Timeout);
        let counted: Vec<_> = metrics.endings().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [(EndReason::Timeout, 1)]);
    }
}
