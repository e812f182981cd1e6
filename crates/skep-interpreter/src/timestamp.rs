//! Moments as the contract writes them: `2026-11-15T17:52:18.228274+00:00`.

use jiff::Timestamp;

/// Writes microseconds since 1970. A moment nobody can have meant is now.
pub(crate) fn written(microseconds: Option<i64>) -> String {
    let moment = microseconds
        .and_then(|microseconds| Timestamp::from_microsecond(microseconds).ok())
        .unwrap_or_else(Timestamp::now);
    let format = if moment.as_microsecond() % 1_000_000 == 0 {
        "%Y-%m-%dT%H:%M:%S+00:00"
    } else {
        "%Y-%m-%dT%H:%M:%S.%6f+00:00"
    };
    moment.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_seconds_have_no_fraction() {
        assert_eq!(
            written(Some(1_794_765_138_228_274)),
            "2026-11-15T17:52:18.228274+00:00"
        );
        assert_eq!(
            written(Some(1_794_765_138_000_000)),
            "2026-11-15T17:52:18+00:00"
        );
        assert_eq!(written(Some(1_000_005)), "1970-01-01T00:00:01.000005+00:00");
    }

    #[test]
    fn a_senseless_moment_is_now() {
        for senseless in [Some(i64::MAX), None] {
            assert!(written(senseless).as_str() > "2026");
        }
    }
}
