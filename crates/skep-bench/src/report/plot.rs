//! Bars of characters: what is measured in the same unit is drawn to the same scale.

use crate::measurement::{Measurement, Unit};
use crate::report::number::shown;

/// Characters of the longest bar.
const WIDTH: f64 = 48.0;
/// Eighths of a character.
const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Ratio between values above which the scale is logarithmic.
const FAR_APART: f64 = 50.0;

/// A bar to each median, and a light one on to the 95th percentile, unit by unit. A unit that was
/// measured once has nothing to be compared with and is left out.
pub(super) fn bars(measurements: &[Measurement]) -> String {
    let mut units: Vec<Unit> = Vec::new();
    for measurement in measurements {
        if !units.contains(&measurement.unit) && measurement.unit != Unit::Count {
            units.push(measurement.unit);
        }
    }
    let groups = units.into_iter().map(|unit| {
        let group = measurements
            .iter()
            .filter(|measurement| measurement.unit == unit);
        group.collect::<Vec<_>>()
    });
    let drawn = groups
        .filter(|group| group.len() > 1)
        .map(|group| draw(&group));
    drawn.collect::<Vec<_>>().join("\n")
}

fn draw(group: &[&Measurement]) -> String {
    let titles = group
        .iter()
        .map(|measurement| measurement.title.chars().count());
    let width = titles.max().unwrap_or_default();
    let scale = Scale::over(group);
    let mut text = scale.name().to_owned();
    for measurement in group {
        let summary = measurement.summary;
        let solid = bar(scale.length(summary.p50));
        let reach = eighths(scale.length(summary.p95)).div_ceil(8);
        let light = "░".repeat(reach.saturating_sub(solid.chars().count()));
        let value = shown(summary.p50, measurement.unit);
        let title = measurement.title;
        text.push_str(&format!("{title:<width$}  {solid}{light} {value}\n"));
    }
    text
}

/// Mapping from values to lengths of bars.
enum Scale {
    /// Twice as long is twice as much.
    Linear { longest: f64 },
    /// Each step is ten times as much, from this value on.
    Logarithmic { from: f64, steps: f64 },
}

impl Scale {
    fn over(group: &[&Measurement]) -> Self {
        let longest = group
            .iter()
            .map(|measurement| measurement.summary.p95)
            .fold(f64::MIN_POSITIVE, f64::max);
        let shortest = group
            .iter()
            .map(|measurement| measurement.summary.p50)
            .fold(f64::INFINITY, f64::min);
        if shortest <= 0.0 || longest / shortest < FAR_APART {
            return Self::Linear { longest };
        }
        let from = 10_f64.powf(shortest.log10().floor());
        Self::Logarithmic {
            from,
            steps: (longest / from).log10(),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Linear { .. } => "",
            Self::Logarithmic { .. } => "(logarithmic scale)\n",
        }
    }

    fn length(&self, value: f64) -> f64 {
        match self {
            Self::Linear { longest } => value / longest * WIDTH,
            Self::Logarithmic { from, steps } => (value / from).log10() / steps * WIDTH,
        }
    }
}

/// A bar of so many characters, to an eighth of one.
fn bar(length: f64) -> String {
    let eighths = eighths(length);
    format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a length between nothing and the width of a terminal"
)]
fn eighths(length: f64) -> usize {
    // A bar that is there can be seen.
    (length.clamp(0.0, WIDTH) * 8.0).round().max(1.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{Recorder, Series};

    #[test]
    fn bars_of_one_unit_have_one_scale() {
        let mut recorder = Recorder::default();
        for (id, samples) in [("a.long", [0.5, 1.0]), ("a.short", [0.25, 0.25])] {
            for sample in samples {
                recorder.add(Series::seconds(id, id), sample);
            }
        }
        recorder.add(Series::bytes("a.alone", "alone"), 1.0);
        let drawn = bars(&recorder.finish());
        let lengths: Vec<_> = drawn
            .lines()
            .map(|line| (line.matches('█').count(), line.matches('░').count()))
            .collect();
        assert_eq!(lengths, [(24, 24), (12, 0)]);
    }

    #[test]
    fn what_is_far_apart_is_drawn_on_a_logarithmic_scale() {
        let mut recorder = Recorder::default();
        for (id, sample) in [("a.short", 0.001), ("a.middle", 0.1), ("a.long", 10.0)] {
            recorder.add(Series::seconds(id, id), sample);
        }
        let drawn = bars(&recorder.finish());
        let lengths: Vec<_> = drawn
            .lines()
            .map(|line| line.matches('█').count())
            .collect();
        assert!(drawn.starts_with("(logarithmic scale)\n"));
        assert_eq!(lengths, [0, 0, 24, 48]);
    }

    #[test]
    fn the_shortest_bar_can_be_seen() {
        assert_eq!(bar(0.0), "▏");
        assert_eq!(bar(1.5), "█▌");
    }
}
