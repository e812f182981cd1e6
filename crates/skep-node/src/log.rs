//! The log of a sandbox, as its agent wrote it.

use skep_agent_protocol::log as written;
use skep_types::{LogEntry, LogLevel};

/// Parses a log, in the order of time. The sandbox wrote it, so a line may be anything; one that
/// is no entry is left out.
pub(crate) fn entries(text: &[u8]) -> Vec<LogEntry> {
    let mut entries: Vec<_> = text
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice::<written::LogEntry>(line).ok())
        .map(|entry| LogEntry {
            at: entry.timestamp,
            level: level(entry.level),
            message: entry.message,
            fields: entry.fields,
        })
        .collect();
    entries.sort_by_key(|entry| entry.at);
    entries
}

fn level(level: written::LogLevel) -> LogLevel {
    match level {
        written::LogLevel::Debug => LogLevel::Debug,
        written::LogLevel::Info => LogLevel::Info,
        written::LogLevel::Warn => LogLevel::Warn,
        written::LogLevel::Error => LogLevel::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_and_what_is_none_is_left_out() {
        let text =
            br#"{"timestamp":"2026-01-01T00:00:02Z","level":"warn","message":"second","fields":{}}
not an entry
{"timestamp":"2026-01-01T00:00:01Z","level":"info","message":"first","fields":{"pid":"7"}}
"#;
        let entries = entries(text);
        let messages: Vec<_> = entries.iter().map(|entry| &entry.message).collect();
        assert_eq!(messages, ["first", "second"]);
        assert_eq!(entries[0].fields["pid"], "7");
        assert_eq!(entries[1].level, LogLevel::Warn);
    }
}
