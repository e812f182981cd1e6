//! Numbers as people read them.

use crate::measurement::Unit;

/// A number with its unit, to three digits.
pub(super) fn shown(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => match value {
            v if v < 1e-3 => format!("{} µs", digits(v * 1e6)),
            v if v < 1.0 => format!("{} ms", digits(v * 1e3)),
            v => format!("{} s", digits(v)),
        },
        Unit::Bytes => bytes(value),
        Unit::BytesPerSecond => format!("{}/s", bytes(value)),
        Unit::LinesPerSecond => match value {
            v if v < 1e3 => format!("{} lines/s", digits(v)),
            v if v < 1e6 => format!("{}k lines/s", digits(v / 1e3)),
            v => format!("{}M lines/s", digits(v / 1e6)),
        },
        Unit::ConnectionsPerSecond => format!("{}/s", digits(value)),
        Unit::PercentOfProcessor => format!("{value:.2} %"),
        Unit::Count => format!("{value:.0}"),
    }
}

fn bytes(value: f64) -> String {
    const KIBI: f64 = 1024.0;
    match value {
        v if v < KIBI => format!("{v:.0} B"),
        v if v < KIBI * KIBI => format!("{} KiB", digits(v / KIBI)),
        v if v < KIBI * KIBI * KIBI => format!("{} MiB", digits(v / KIBI / KIBI)),
        v => format!("{} GiB", digits(v / KIBI / KIBI / KIBI)),
    }
}

/// Three digits that count.
pub(super) fn digits(value: f64) -> String {
    match value {
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit_that_fits() {
        let seconds = |value| shown(value, Unit::Seconds);
        assert_eq!(seconds(0.000_412_3), "412 µs");
        assert_eq!(seconds(0.044_21), "44.2 ms");
        assert_eq!(seconds(1.303), "1.30 s");
        assert_eq!(shown(4.7 * 1024.0 * 1024.0, Unit::Bytes), "4.70 MiB");
        assert_eq!(shown(900.0, Unit::Bytes), "900 B");
        assert_eq!(shown(2.0 * 1024.0, Unit::BytesPerSecond), "2.00 KiB/s");
        assert_eq!(shown(123_456.0, Unit::LinesPerSecond), "123k lines/s");
        assert_eq!(shown(0.004, Unit::PercentOfProcessor), "0.00 %");
        assert_eq!(shown(100.0, Unit::Count), "100");
    }
}
