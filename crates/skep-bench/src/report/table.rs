//! Numbers in columns.

use crate::measurement::Measurement;
use crate::report::number::{digits, shown};
use crate::targets::{Reached, Verdict};

/// Number of samples from which on one in twenty, or in a hundred, can be told from the largest.
const FEWEST_FOR_P95: usize = 20;
const FEWEST_FOR_P99: usize = 100;

/// Every measurement in a row.
pub(super) fn measurements(measurements: &[Measurement]) -> String {
    let header = ["", "n", "p50", "p95", "p99", "min", "max"];
    let rows = measurements.iter().map(|measurement| {
        let summary = measurement.summary;
        // Of fewer samples a percentile is only the largest again.
        let if_enough = |value: f64, fewest: usize| (summary.count >= fewest).then_some(value);
        let numbers = [
            Some(summary.p50),
            if_enough(summary.p95, FEWEST_FOR_P95),
            if_enough(summary.p99, FEWEST_FOR_P99),
            Some(summary.min),
            Some(summary.max),
        ];
        let mut row = vec![measurement.title.to_owned(), summary.count.to_string()];
        let told = |value: f64| shown(value, measurement.unit);
        row.extend(numbers.map(|value| value.map_or_else(|| "-".to_owned(), told)));
        row
    });
    columns(&header, rows.collect())
}

/// Every target in a row.
pub(super) fn targets(verdicts: &[Verdict]) -> String {
    let header = ["target", "measured", "first step", "target", "reached"];
    let rows = verdicts.iter().map(|verdict| {
        let told = |value: f64| bound(value, verdict.unit);
        vec![
            verdict.measure.to_owned(),
            told(verdict.value),
            verdict
                .first_step
                .map_or_else(|| "works".to_owned(), |step| format!("≤ {}", told(step))),
            format!("≤ {}", told(verdict.target)),
            match verdict.reached {
                Reached::Target => "target",
                Reached::FirstStep => "first step",
                Reached::No => "no",
            }
            .to_owned(),
        ]
    });
    columns(&header, rows.collect())
}

/// A small ratio reads better the other way round.
fn bound(value: f64, unit: &str) -> String {
    if unit == "×" && value > 0.0 && value < 0.2 {
        return format!("1/{}", digits(1.0 / value));
    }
    format!("{} {unit}", digits(value))
}

/// The first column to the left, the others to the right.
fn columns(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let header: Vec<String> = header.iter().map(|name| name.to_uppercase()).collect();
    let all: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
    let width = |column: usize| {
        let lengths = all.iter().filter_map(|row| row.get(column));
        lengths
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let mut text = String::new();
    for row in &all {
        let cells = row.iter().enumerate().map(|(column, cell)| match column {
            0 => format!("{cell:<0$}", width(0)),
            _ => format!("{cell:>0$}", width(column)),
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{Recorder, Series};

    #[test]
    fn a_table_reads_well_without_lines_or_colour() {
        let mut recorder = Recorder::default();
        for sample in [0.001, 0.002, 0.003] {
            recorder.add(Series::seconds("a.b", "create → ready"), sample);
        }
        recorder.add(Series::bytes("a.c", "memory"), 2048.0);
        insta::assert_snapshot!(measurements(&recorder.finish()), @r"
                        N       P50  P95  P99       MIN       MAX
        create → ready  3   2.00 ms    -    -   1.00 ms   3.00 ms
        memory          1  2.00 KiB    -    -  2.00 KiB  2.00 KiB
        ");
    }

    #[test]
    fn small_ratios_are_told_as_fractions() {
        assert_eq!(bound(0.05, "×"), "1/20.0");
        assert_eq!(bound(0.35, "×"), "0.35 ×");
        assert_eq!(bound(0.05, "ms"), "0.05 ms");
    }
}
