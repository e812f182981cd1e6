//! Queries on logs of sandboxes.

use std::time::Duration;

use jiff::Timestamp;
use skep_store::StoreError;
use skep_types::{LogEntry, LogLevel, LoggedRequest, SandboxId};

use crate::{Caller, Control};

/// Length of the time that a page covers from its cursor.
const WINDOW: Duration = Duration::from_hours(7 * 24);

/// Selection of log entries.
#[derive(Debug, Clone)]
pub struct LogQuery {
    /// Start, in the direction below; `None` is the end that the direction starts at.
    pub cursor: Option<Timestamp>,
    /// Direction of reading.
    pub direction: LogDirection,
    /// Limit on the number of entries.
    pub limit: usize,
    /// Lowest level of the entries.
    pub level: LogLevel,
    /// Text that the entries contain.
    pub search: Option<String>,
}

/// Directions in which a log is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogDirection {
    /// Reads from the cursor on, the oldest first.
    Forward,
    /// Back from the cursor, the newest first.
    Backward,
}

impl Control {
    /// Log entries of a sandbox of the caller's team, also if it has ended. Empty if there is no
    /// such sandbox.
    ///
    /// # Errors
    ///
    /// [`StoreError`] if it cannot be found out whose the sandbox was.
    pub async fn logs(
        &self,
        caller: &Caller,
        id: &SandboxId,
        query: &LogQuery,
    ) -> Result<Vec<LogEntry>, StoreError> {
        let team = &caller.team.id;
        let ours = match self.inner.registry.find(team, id) {
            Some(_) => true,
            None => {
                let record = self.inner.store.sandboxes().find(id.clone()).await?;
                record.is_some_and(|record| record.order.team == *team)
            }
        };
        if !ours {
            return Ok(Vec::new());
        }
        let entries = self.inner.nodes.logs(id.clone()).await;
        Ok(select(entries, query))
    }

    /// Requests of a running sandbox of the caller's team to hosts that it reaches by name, the oldest
    /// first, from the one that follows the number `after`. Empty if there is no such sandbox.
    pub async fn requests(
        &self,
        caller: &Caller,
        id: &SandboxId,
        after: u64,
    ) -> Vec<LoggedRequest> {
        if self.inner.registry.find(&caller.team.id, id).is_none() {
            return Vec::new();
        }
        let mut requests = self.inner.nodes.requests(id.clone()).await;
        requests.retain(|request| request.number > after);
        requests
    }
}

/// The entries that the query asks for, of `entries` in the order of time.
fn select(entries: Vec<LogEntry>, query: &LogQuery) -> Vec<LogEntry> {
    let search = query.search.as_deref().unwrap_or_default();
    let wanted = |entry: &LogEntry| {
        entry.level >= query.level
            && entry.message.contains(search)
            && query.cursor.is_none_or(|cursor| {
                let (first, last) = match query.direction {
                    LogDirection::Forward => {
                        (cursor, cursor.checked_add(WINDOW).unwrap_or(Timestamp::MAX))
                    }
                    LogDirection::Backward => {
                        (cursor.checked_sub(WINDOW).unwrap_or(Timestamp::MIN), cursor)
                    }
                };
                first <= entry.at && entry.at <= last
            })
    };
    let entries = entries.into_iter().filter(wanted);
    match query.direction {
        LogDirection::Forward => entries.take(query.limit).collect(),
        LogDirection::Backward => {
            let mut entries: Vec<_> = entries.collect();
            entries.reverse();
            entries.truncate(query.limit);
            entries
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[track_caller]
    fn check(query: LogQuery, expected: &[&str]) {
        let entry = |second, level, message: &str| LogEntry {
            at: at(second),
            level,
            message: message.to_owned(),
            fields: BTreeMap::new(),
        };
        let entries = vec![
            entry(1, LogLevel::Debug, "one"),
            entry(2, LogLevel::Info, "two"),
            entry(3, LogLevel::Error, "three"),
            entry(4, LogLevel::Info, "four"),
            entry(1_000_000, LogLevel::Info, "eleven days later"),
        ];
        let selected = select(entries, &query);
        let messages: Vec<_> = selected
            .iter()
            .map(|entry| entry.message.as_str())
            .collect();
        assert_eq!(messages, expected);
    }

    fn all(direction: LogDirection) -> LogQuery {
        LogQuery {
            cursor: None,
            direction,
            limit: 1000,
            level: LogLevel::Debug,
            search: None,
        }
    }

    #[test]
    fn a_log_is_read_in_both_directions() {
        use LogDirection::{Backward, Forward};
        let everything = ["one", "two", "three", "four", "eleven days later"];
        check(all(Forward), &everything);
        check(
            LogQuery {
                cursor: Some(at(2)),
                limit: 2,
                ..all(Forward)
            },
            &["two", "three"],
        );
        check(
            LogQuery {
                cursor: Some(at(3)),
                ..all(Backward)
            },
            &["three", "two", "one"],
        );
        check(
            LogQuery {
                cursor: Some(at(1)),
                ..all(Forward)
            },
            &["one", "two", "three", "four"],
        );
    }

    #[test]
    fn a_log_is_filtered_by_level_and_text() {
        let forward = || all(LogDirection::Forward);
        check(
            LogQuery {
                level: LogLevel::Warn,
                ..forward()
            },
            &["three"],
        );
        check(
            LogQuery {
                search: Some("o".to_owned()),
                ..forward()
            },
            &["one", "two", "four"],
        );
    }
}
