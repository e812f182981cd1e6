//! Samples as dots on a logarithmic scale, one row for each measurement.

use crate::measurement::{Measurement, Unit};
use crate::report::number::shown;

const ROW: f64 = 26.0;
const LEFT: f64 = 380.0;
const PLOT: f64 = 560.0;
const RIGHT: f64 = 100.0;
const TOP: f64 = 64.0;
const BETWEEN: f64 = 44.0;

/// A picture with a group of rows, and a scale, for each unit.
pub(super) fn strips(title: &str, measurements: &[Measurement]) -> String {
    let mut units: Vec<Unit> = Vec::new();
    for measurement in measurements {
        if !units.contains(&measurement.unit) {
            units.push(measurement.unit);
        }
    }
    let mut body = String::new();
    let mut y = 24.0;
    for line in title.lines() {
        body.push_str(&text(16.0, y, "start", line));
        y += 18.0;
    }
    y = TOP + 20.0;
    for unit in units {
        let group: Vec<_> = measurements
            .iter()
            .filter(|measurement| measurement.unit == unit)
            .collect();
        y = draw(&mut body, &group, unit, y) + BETWEEN;
    }
    let width = LEFT + PLOT + RIGHT;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" viewBox=\"0 0 {width} {y}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

/// Draws the rows of one unit from `y` on; where they end.
fn draw(body: &mut String, group: &[&Measurement], unit: Unit, mut y: f64) -> f64 {
    let scale = Scale::over(group);
    let bottom = y + ROW * group.len() as f64;
    for decade in scale.decades() {
        let x = scale.x(decade);
        body.push_str(&format!(
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#ddd\"/>\n"
        ));
        body.push_str(&text(x, bottom + 16.0, "middle", &shown(decade, unit)));
    }
    for measurement in group {
        let middle = y + ROW / 2.0;
        body.push_str(&text(LEFT - 12.0, middle + 4.0, "end", measurement.title));
        for sample in &measurement.samples {
            let x = scale.x(*sample);
            body.push_str(&format!(
                "<circle cx=\"{x:.1}\" cy=\"{middle:.1}\" r=\"3\" fill=\"#3465a4\" fill-opacity=\"0.25\"/>\n"
            ));
        }
        let median = scale.x(measurement.summary.p50);
        let (from, to) = (middle - 9.0, middle + 9.0);
        body.push_str(&format!(
            "<line x1=\"{median:.1}\" y1=\"{from:.1}\" x2=\"{median:.1}\" y2=\"{to:.1}\" stroke=\"#cc0000\" stroke-width=\"2\"/>\n"
        ));
        let value = shown(measurement.summary.p50, unit);
        body.push_str(&text(LEFT + PLOT + 12.0, middle + 4.0, "start", &value));
        y += ROW;
    }
    bottom
}

fn text(x: f64, y: f64, anchor: &str, text: &str) -> String {
    let text = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n")
}

/// Logarithmic scale from the power of ten below the smallest sample to the one above the largest.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn over(group: &[&Measurement]) -> Self {
        let samples = || {
            group
                .iter()
                .flat_map(|measurement| &measurement.samples)
                .copied()
        };
        // Nothing has no place on a logarithmic scale; it is drawn at its left end.
        let positive = samples().filter(|sample| *sample > 0.0);
        let smallest = positive.fold(f64::INFINITY, f64::min);
        let largest = samples().fold(0.0, f64::max);
        if largest <= 0.0 {
            return Self {
                low: 0.0,
                high: 1.0,
            };
        }
        let low = smallest.log10().floor();
        Self {
            low,
            high: largest.log10().ceil().max(low + 1.0),
        }
    }

    fn x(&self, sample: f64) -> f64 {
        let position = (sample.log10() - self.low) / (self.high - self.low);
        LEFT + PLOT * position.clamp(0.0, 1.0)
    }

    fn decades(&self) -> Vec<f64> {
        let mut decades = Vec::new();
        let mut power = self.low;
        while power <= self.high {
            decades.push(10_f64.powf(power));
            power += 1.0;
        }
        decades
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{Recorder, Series};

    fn picture() -> String {
        let mut recorder = Recorder::default();
        for sample in [0.001, 0.02] {
            recorder.add(Series::seconds("a.b", "a < b & c"), sample);
        }
        recorder.add(Series::new("a.idle", "idle", Unit::PercentOfProcessor), 0.0);
        strips("title", &recorder.finish())
    }

    #[test]
    fn every_sample_is_a_dot_in_the_picture() {
        let picture = picture();
        assert_eq!(picture.matches("<circle").count(), 3);
        assert!(picture.contains("a &lt; b &amp; c"));
        assert!(!picture.contains("NaN") && !picture.contains("inf"));
    }

    #[test]
    fn decades_enclose_the_samples() {
        let mut recorder = Recorder::default();
        for sample in [0.002, 0.3] {
            recorder.add(Series::seconds("a.b", "b"), sample);
        }
        let measured = recorder.finish();
        let scale = Scale::over(&measured.iter().collect::<Vec<_>>());
        assert_eq!((scale.low, scale.high), (-3.0, 0.0));
        assert!((scale.x(0.001) - LEFT).abs() < 1e-9);
        assert!((scale.x(1.0) - LEFT - PLOT).abs() < 1e-9);
    }
}
