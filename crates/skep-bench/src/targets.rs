//! Targets of performance, as data, and their comparison with results.
//!
//! A host is fast or slow, quiet or noisy; a ratio of two things that were measured beside each
//! other on it stays. So most targets are ratios. One is judged only if all it needs was
//! measured in the same run.

use serde::Serialize;

use crate::measurement::{Measurement, Series};
use crate::{build, burst, compare, context, copies, density, files, pause, tti};

/// Something that we want to reach.
struct Target {
    measure: &'static str,
    value: Value,
    first_step: f64,
    goal: f64,
    unit: &'static str,
}

/// The quantity that is compared with the goal. Medians throughout.
#[derive(Clone, Copy)]
enum Value {
    /// One thing over another.
    Ratio(Series, Series),
    /// One thing less another, in milliseconds.
    Difference(Series, Series),
    /// Time in milliseconds.
    Milliseconds(Series),
    /// Memory in megabytes.
    Megabytes(Series),
}

const TARGETS: &[Target] = &[
    Target {
        measure: "run_code(\"1\") ÷ ipykernel over raw ZeroMQ",
        value: Value::Ratio(compare::CODE, compare::ZMQ),
        first_step: 1.3,
        goal: 0.35,
        unit: "×",
    },
    Target {
        measure: "run_code(\"1\") ÷ through a Jupyter server",
        value: Value::Ratio(compare::CODE, compare::JUPYTER),
        first_step: 1.0 / 6.0,
        goal: 1.0 / 30.0,
        unit: "×",
    },
    Target {
        measure: "create → first result ÷ ipykernel start → first result",
        value: Value::Ratio(compare::RESULT, compare::KERNEL),
        first_step: 1.0 / 15.0,
        goal: 1.0 / 40.0,
        unit: "×",
    },
    Target {
        measure: "create → ready, no interpreter ÷ bare namespaces",
        value: Value::Ratio(compare::READY, compare::NAMESPACES),
        first_step: 10.0,
        goal: 3.0,
        unit: "×",
    },
    Target {
        measure: "new context ÷ new kernel of a Jupyter server",
        value: Value::Ratio(compare::CONTEXT, compare::NEW_KERNEL),
        first_step: 1.0 / 20.0,
        goal: 1.0 / 100.0,
        unit: "×",
    },
    Target {
        measure: "checkpoint of a context",
        value: Value::Milliseconds(context::CHECKPOINT),
        first_step: 10.0,
        goal: 10.0,
        unit: "ms",
    },
    Target {
        measure: "rollback of a context",
        value: Value::Milliseconds(context::ROLLBACK),
        first_step: 10.0,
        goal: 10.0,
        unit: "ms",
    },
    Target {
        measure: "create − a request that does nothing",
        value: Value::Difference(tti::CREATE, tti::EMPTY),
        first_step: 10.0,
        goal: 3.0,
        unit: "ms",
    },
    Target {
        measure: "burst: all first results ÷ their number",
        value: Value::Milliseconds(burst::EACH),
        first_step: f64::INFINITY,
        goal: 12.0,
        unit: "ms",
    },
    Target {
        measure: "private memory of an idle sandbox",
        value: Value::Megabytes(density::PRIVATE),
        first_step: 25.0,
        goal: 8.0,
        unit: "MB",
    },
    Target {
        measure: "memory of the server with all idle sandboxes",
        value: Value::Megabytes(density::SERVER),
        first_step: 150.0,
        goal: 60.0,
        unit: "MB",
    },
    Target {
        measure: "pause, until the answer",
        value: Value::Milliseconds(pause::FREEZE),
        first_step: f64::INFINITY,
        goal: 5.0,
        unit: "ms",
    },
    Target {
        measure: "connect of a sandbox that is in memory, until the answer",
        value: Value::Milliseconds(pause::THAW),
        first_step: f64::INFINITY,
        goal: 5.0,
        unit: "ms",
    },
    Target {
        measure: "pause → safe on the disk ÷ CRIU alone, as much memory",
        value: Value::Ratio(pause::TO_DISK, pause::CRIU_DUMP),
        first_step: f64::INFINITY,
        goal: 1.2,
        unit: "×",
    },
    Target {
        measure: "connect of a sandbox that is on the disk ÷ CRIU alone",
        value: Value::Ratio(pause::RESUME, pause::CRIU_RESTORE),
        first_step: f64::INFINITY,
        goal: 1.2,
        unit: "×",
    },
    Target {
        measure: "fork, until the copy gives a result",
        value: Value::Milliseconds(copies::ONE),
        first_step: f64::INFINITY,
        goal: 150.0,
        unit: "ms",
    },
    Target {
        measure: "fork, many copies ÷ one",
        value: Value::Ratio(copies::MANY, copies::ONE),
        first_step: f64::INFINITY,
        goal: 2.0,
        unit: "×",
    },
    Target {
        measure: "upload ÷ `cp`",
        value: Value::Ratio(files::UPLOAD, files::COPY),
        first_step: f64::INFINITY,
        goal: 2.0,
        unit: "×",
    },
    Target {
        measure: "download ÷ `cp`",
        value: Value::Ratio(files::DOWNLOAD, files::COPY),
        first_step: f64::INFINITY,
        goal: 2.0,
        unit: "×",
    },
    Target {
        measure: "build, nothing cached ÷ buildah",
        value: Value::Ratio(build::COLD, build::RIVAL_COLD),
        first_step: 1.0,
        goal: 1.0,
        unit: "×",
    },
    Target {
        measure: "build, everything cached ÷ buildah",
        value: Value::Ratio(build::CACHED, build::RIVAL_CACHED),
        first_step: 1.0,
        goal: 1.0,
        unit: "×",
    },
    Target {
        measure: "build, last COPY changed ÷ buildah",
        value: Value::Ratio(build::CHANGED, build::RIVAL_CHANGED),
        first_step: 1.0,
        goal: 1.0,
        unit: "×",
    },
    Target {
        measure: "build, everything cached",
        value: Value::Milliseconds(build::CACHED),
        first_step: 100.0,
        goal: 100.0,
        unit: "ms",
    },
];

/// Degree to which a target is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reached {
    /// All of it.
    Target,
    /// The first step towards it.
    FirstStep,
    /// Neither the target nor the first step.
    No,
}

/// Comparison of a target with its measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// Name of the measured quantity.
    pub measure: &'static str,
    /// The measured value, from medians.
    pub value: f64,
    /// Final upper bound of the value.
    pub target: f64,
    /// First upper bound of the value; absent if it only has to work.
    pub first_step: Option<f64>,
    /// Unit of all these numbers.
    pub unit: &'static str,
    /// Degree to which it is reached.
    pub reached: Reached,
}

/// Judges every target for which enough was measured.
pub(crate) fn verdicts(measurements: &[Measurement]) -> Vec<Verdict> {
    let judge = |target: &Target| {
        let value = target.value.of(measurements)?;
        Some(Verdict {
            measure: target.measure,
            value,
            target: target.goal,
            first_step: Some(target.first_step).filter(|step| step.is_finite()),
            unit: target.unit,
            reached: if value <= target.goal {
                Reached::Target
            } else if value <= target.first_step {
                Reached::FirstStep
            } else {
                Reached::No
            },
        })
    };
    TARGETS.iter().filter_map(judge).collect()
}

impl Value {
    fn of(self, measurements: &[Measurement]) -> Option<f64> {
        let median = |series: Series| {
            let found = measurements
                .iter()
                .find(|measurement| measurement.id == series.id)?;
            Some(found.summary.p50)
        };
        match self {
            Self::Ratio(ours, theirs) => Some(median(ours)? / median(theirs)?),
            Self::Difference(whole, part) => Some((median(whole)? - median(part)?) * 1e3),
            Self::Milliseconds(series) => Some(median(series)? * 1e3),
            Self::Megabytes(series) => Some(median(series)? / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::Recorder;

    fn judge(ours: f64, theirs: Option<f64>) -> Vec<(f64, Reached)> {
        let mut recorder = Recorder::default();
        recorder.add(compare::READY, ours);
        if let Some(theirs) = theirs {
            recorder.add(compare::NAMESPACES, theirs);
        }
        let verdicts = verdicts(&recorder.finish());
        verdicts
            .iter()
            .map(|verdict| (verdict.value, verdict.reached))
            .collect()
    }

    #[test]
    fn a_ratio_is_judged_by_both_of_its_bounds() {
        assert_eq!(judge(6.0, Some(2.0)), [(3.0, Reached::Target)]);
        assert_eq!(judge(8.0, Some(2.0)), [(4.0, Reached::FirstStep)]);
        assert_eq!(judge(22.0, Some(2.0)), [(11.0, Reached::No)]);
    }

    #[test]
    fn what_was_measured_alone_is_not_judged() {
        assert_eq!(judge(6.0, None), []);
    }

    #[test]
    fn memory_and_time_are_judged_in_the_units_they_are_told_in() {
        let mut recorder = Recorder::default();
        recorder.add(density::PRIVATE, 7.5e6);
        recorder.add(burst::EACH, 0.013);
        let verdicts = verdicts(&recorder.finish());
        let told: Vec<_> = verdicts
            .iter()
            .map(|verdict| (verdict.value, verdict.unit))
            .collect();
        assert_eq!(told, [(13.0, "ms"), (7.5, "MB")]);
        // A burst whose first step is that it works has reached that.
        assert_eq!(verdicts[0].reached, Reached::FirstStep);
        assert_eq!(verdicts[0].first_step, None);
    }
}
