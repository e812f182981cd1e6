//! Samples, and their summary in a few numbers.

use serde::Serialize;

/// A few numbers that stand for many samples.
///
/// A percentile is the smallest sample that so many of a hundred do not exceed: always a value
/// that was measured, never one between two.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// Number of samples.
    pub count: usize,
    /// The smallest sample.
    pub min: f64,
    /// Half of them are not above it.
    pub p50: f64,
    /// Ninety-five of a hundred are not above it.
    pub p95: f64,
    /// Ninety-nine of a hundred are not above it.
    pub p99: f64,
    /// The largest sample.
    pub max: f64,
    /// Their sum, shared out evenly.
    pub mean: f64,
}

impl Summary {
    /// Sums `samples` up; `None` if there are none.
    pub(crate) fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self {
            count: sorted.len(),
            min,
            p50: percentile(&sorted, 50),
            p95: percentile(&sorted, 95),
            p99: percentile(&sorted, 99),
            max,
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
        })
    }
}

/// The smallest of `sorted` that at least `percent` of a hundred do not exceed.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted[rank - 1]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_hundred_samples_have_the_percentiles_one_expects() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let expected = Summary {
            count: 100,
            min: 1.0,
            p50: 50.0,
            p95: 95.0,
            p99: 99.0,
            max: 100.0,
            mean: 50.5,
        };
        assert_eq!(Summary::of(&samples), Some(expected));
    }

    #[test]
    fn nothing_measured_is_nothing_said() {
        assert_eq!(Summary::of(&[]), None);
    }

    proptest! {
        #[test]
        fn percentiles_are_samples_in_order(samples in prop::collection::vec(0.0..1e9_f64, 1..200)) {
            let summary = Summary::of(&samples).unwrap();
            let Summary { min, p50, p95, p99, max, .. } = summary;
            prop_assert!(min <= p50 && p50 <= p95 && p95 <= p99 && p99 <= max);
            for value in [min, p50, p95, p99, max] {
                prop_assert!(samples.contains(&value));
            }
            prop_assert!(min <= summary.mean * (1.0 + 1e-9) && summary.mean <= max * (1.0 + 1e-9));
        }

        #[test]
        fn so_many_samples_do_not_exceed_a_percentile(
            samples in prop::collection::vec(0.0..100.0_f64, 1..200),
            percent in 1_usize..=100,
        ) {
            let mut sorted = samples;
            sorted.sort_by(f64::total_cmp);
            let value = percentile(&sorted, percent);
            let not_above = sorted.iter().filter(|sample| **sample <= value).count();
            let below = sorted.iter().filter(|sample| **sample < value).count();
            prop_assert!(not_above * 100 >= percent * sorted.len());
            prop_assert!(below * 100 < percent * sorted.len());
        }

        #[test]
        fn the_order_of_samples_does_not_matter(samples in prop::collection::vec(0.0..1e3_f64, 1..50)) {
            let mut turned = samples.clone();
            turned.reverse();
            let (one, other) = (Summary::of(&samples).unwrap(), Summary::of(&turned).unwrap());
            prop_assert_eq!((one.p50, one.p95, one.p99), (other.p50, other.p95, other.p99));
        }
    }
}
