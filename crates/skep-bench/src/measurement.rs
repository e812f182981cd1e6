//! Series of samples, in the order in which they were first measured.

use serde::Serialize;

use crate::samples::Summary;

/// Units of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Seconds of wall-clock time.
    Seconds,
    /// Bytes of memory.
    Bytes,
    /// Throughput of data.
    BytesPerSecond,
    /// Throughput of lines.
    LinesPerSecond,
    /// Connections that are opened, used and closed.
    ConnectionsPerSecond,
    /// Processor time, in hundredths of one processor.
    PercentOfProcessor,
    /// A number of things.
    Count,
}

/// A quantity that is measured again and again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Series {
    /// Name in the JSON: `part.what`.
    pub(crate) id: &'static str,
    /// Name for people.
    pub(crate) title: &'static str,
    pub(crate) unit: Unit,
}

impl Series {
    pub(crate) const fn new(id: &'static str, title: &'static str, unit: Unit) -> Self {
        Self { id, title, unit }
    }

    pub(crate) const fn seconds(id: &'static str, title: &'static str) -> Self {
        Self::new(id, title, Unit::Seconds)
    }

    pub(crate) const fn bytes(id: &'static str, title: &'static str) -> Self {
        Self::new(id, title, Unit::Bytes)
    }
}

/// A series and its samples.
#[derive(Debug, Clone, Serialize)]
pub struct Measurement {
    /// Name for programs: `part.what`.
    pub id: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// Unit of the samples.
    pub unit: Unit,
    /// The samples in a few numbers.
    pub summary: Summary,
    /// All samples, in the order they were taken.
    pub samples: Vec<f64>,
}

/// Collects samples while a part is measured.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    series: Vec<(Series, Vec<f64>)>,
    warming_up: bool,
}

impl Recorder {
    /// Sets whether samples are dropped, because a round only warms things up.
    pub(crate) fn warm_up(&mut self, warming_up: bool) {
        self.warming_up = warming_up;
    }

    pub(crate) fn add(&mut self, series: Series, sample: f64) {
        if self.warming_up {
            return;
        }
        match self
            .series
            .iter_mut()
            .find(|(known, _)| known.id == series.id)
        {
            Some((_, samples)) => samples.push(sample),
            None => self.series.push((series, vec![sample])),
        }
    }

    pub(crate) fn add_bytes(&mut self, series: Series, bytes: u64) {
        self.add(series, bytes as f64);
    }

    pub(crate) fn finish(self) -> Vec<Measurement> {
        let measured = |(series, samples): (Series, Vec<f64>)| Measurement {
            id: series.id,
            title: series.title,
            unit: series.unit,
            summary: Summary::of(&samples).expect("a series begins with a sample"),
            samples,
        };
        self.series.into_iter().map(measured).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_leaves_no_trace_and_series_keep_their_order() {
        const FIRST: Series = Series::seconds("a.first", "first");
        const SECOND: Series = Series::bytes("a.second", "second");
        let mut recorder = Recorder::default();
        recorder.warm_up(true);
        recorder.add(SECOND, 9.0);
        recorder.warm_up(false);
        for sample in [1.0, 2.0] {
            recorder.add(FIRST, sample);
            recorder.add(SECOND, sample);
        }
        let measured = recorder.finish();
        let shape: Vec<_> = measured
            .iter()
            .map(|measurement| (measurement.id, measurement.samples.as_slice()))
            .collect();
        assert_eq!(
            shape,
            [("a.first", &[1.0, 2.0][..]), ("a.second", &[1.0, 2.0][..])]
        );
    }
}
