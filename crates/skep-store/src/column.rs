//! Encoding of values in columns.
//!
//! Times are whole microseconds since 1970, because that is what clients see and echo back;
//! durations are whole microseconds; ids are their text.

use std::str::FromStr;
use std::time::Duration;

use jiff::Timestamp;
use rusqlite::Row;
use rusqlite::types::Type;
use skep_types::HttpsPorts;

pub(crate) fn micros(time: Timestamp) -> i64 {
    time.as_microsecond()
}

pub(crate) fn duration_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// Sizes and counts above what SQLite can hold are kept as the largest it can.
pub(crate) fn count(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(crate) fn time(row: &Row<'_>, column: &str) -> rusqlite::Result<Timestamp> {
    let micros: i64 = row.get(column)?;
    Timestamp::from_microsecond(micros).map_err(|error| unreadable(column, error))
}

pub(crate) fn optional_time(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<Timestamp>> {
    let micros: Option<i64> = row.get(column)?;
    micros
        .map(|micros| {
            Timestamp::from_microsecond(micros).map_err(|error| unreadable(column, error))
        })
        .transpose()
}

pub(crate) fn duration(row: &Row<'_>, column: &str) -> rusqlite::Result<Duration> {
    Ok(Duration::from_micros(size(row, column)?))
}

pub(crate) fn size(row: &Row<'_>, column: &str) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|error| unreadable(column, error))
}

pub(crate) fn parsed<T>(row: &Row<'_>, column: &str) -> rusqlite::Result<T>
where
    T: FromStr,
    T::Err: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let text: String = row.get(column)?;
    word(column, &text)
}

pub(crate) fn word<T>(column: &str, text: &str) -> rusqlite::Result<T>
where
    T: FromStr,
    T::Err: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    text.parse().map_err(|error| unreadable(column, error))
}

/// Port numbers, separated by commas; nothing if there are none.
pub(crate) fn ports(ports: &HttpsPorts) -> Option<String> {
    let numbers: Vec<String> = ports.iter().map(|port| port.to_string()).collect();
    (!numbers.is_empty()).then(|| numbers.join(","))
}

pub(crate) fn read_ports(row: &Row<'_>, column: &str) -> rusqlite::Result<HttpsPorts> {
    let text: Option<String> = row.get(column)?;
    let numbers = text.iter().flat_map(|text| text.split(','));
    let ports: rusqlite::Result<Vec<u16>> = numbers.map(|number| word(column, number)).collect();
    ports.map(HttpsPorts::from_record)
}

pub(crate) fn unreadable(
    column: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(
        0,
        Type::Text,
        format!("column `{column}`: {}", error.into()).into(),
    )
}
