//! Logs of builds: lines that are counted, and read by their number.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use rusqlite::{Connection, Row, params};
use skep_types::{BuildId, BuildLogEntry, BuildPhase, LogLevel};

use crate::{Store, StoreError, column};

/// Limit on the lines of one build. What comes after them is not kept.
const MOST_LINES: usize = 50_000;

/// A line in the log of a build.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Time at which it was logged.
    pub at: Timestamp,
    /// The line.
    pub entry: BuildLogEntry,
}

/// Selection of lines.
#[derive(Debug, Clone, Copy)]
pub struct LogFilter {
    /// Only lines of this level and above.
    pub level: LogLevel,
    /// Number of lines that pass and are left out: from the start, or from the end if the order is
    /// reversed.
    pub offset: u32,
    /// Only lines that were logged then or later; before, if the order is reversed.
    pub from: Option<Timestamp>,
    /// True for the newest first.
    pub is_reversed: bool,
    /// Limit on the number of lines.
    pub limit: u32,
}

/// The log of a build that is under way.
///
/// Lines are put into a buffer, and whatever has gathered in it is written at once. So a build that
/// prints much has one write in the queue at a time, as every other.
#[derive(Debug)]
pub struct BuildLog {
    store: Store,
    build: BuildId,
    buffer: Arc<Mutex<Buffer>>,
}

#[derive(Debug, Default)]
struct Buffer {
    lines: Vec<LogLine>,
    /// Number of lines that were ever put in.
    count: usize,
    /// True if a write is queued that has not taken the lines yet.
    is_queued: bool,
}

impl BuildLog {
    pub(super) fn new(store: Store, build: BuildId) -> Self {
        Self {
            store,
            build,
            buffer: Arc::default(),
        }
    }

    /// Adds a line.
    pub fn append(&self, line: LogLine) {
        let mut buffer = self.buffer.lock();
        buffer.count += 1;
        if buffer.count > MOST_LINES {
            return;
        }
        let is_last = buffer.count == MOST_LINES;
        buffer.lines.push(if is_last { cut(line.at) } else { line });
        if std::mem::replace(&mut buffer.is_queued, true) {
            return;
        }
        drop(buffer);
        self.write();
    }

    fn write(&self) {
        let (buffer, build) = (Arc::clone(&self.buffer), self.build);
        // A write is run again if its transaction fails, and must not lose what it has taken.
        let taken = Mutex::new(Vec::new());
        let operation = "record the log of a build";
        let receipt = self.store.write_retained(operation, move |connection| {
            let mut taken = taken.lock();
            let mut buffer = buffer.lock();
            taken.append(&mut buffer.lines);
            buffer.is_queued = false;
            drop(buffer);
            insert(connection, build, &taken).map_err(|source| StoreError::of(operation, source))
        });
        // Nobody waits for it; the writer logs a failure.
        drop(receipt);
    }
}

fn cut(at: Timestamp) -> LogLine {
    LogLine {
        at,
        entry: BuildLogEntry {
            level: LogLevel::Warn,
            phase: None,
            message: format!("the log has {MOST_LINES} lines; the rest is not kept"),
        },
    }
}

fn insert(connection: &Connection, build: BuildId, lines: &[LogLine]) -> rusqlite::Result<()> {
    let build = build.to_string();
    let next: i64 = connection
        .prepare_cached("SELECT coalesce(max(position) + 1, 0) FROM build_logs WHERE build = ?1")?
        .query_row([&build], |row| row.get(0))?;
    let mut insert = connection.prepare_cached(
        "INSERT INTO build_logs (build, position, at, level, phase, message)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (position, LogLine { at, entry }) in (next..).zip(lines) {
        insert.execute(params![
            build,
            position,
            column::micros(*at),
            level_text(entry.level),
            entry.phase.map(phase_text),
            entry.message,
        ])?;
    }
    Ok(())
}

pub(super) fn read(
    connection: &Connection,
    build: BuildId,
    filter: LogFilter,
) -> rusqlite::Result<Vec<LogLine>> {
    let levels = [
        LogLevel::Debug,
        LogLevel::Info,
        LogLevel::Warn,
        LogLevel::Error,
    ];
    let word = |level: LogLevel| (level >= filter.level).then_some(level_text(level));
    let [debug, info, warn, error] = levels.map(word);
    let sql = if filter.is_reversed {
        "SELECT * FROM build_logs WHERE build = ?1 AND level IN (?2, ?3, ?4, ?5)
         AND (?6 IS NULL OR at <= ?6) ORDER BY position DESC LIMIT ?7 OFFSET ?8"
    } else {
        "SELECT * FROM build_logs WHERE build = ?1 AND level IN (?2, ?3, ?4, ?5)
         AND (?6 IS NULL OR at >= ?6) ORDER BY position LIMIT ?7 OFFSET ?8"
    };
    connection
        .prepare_cached(sql)?
        .query_map(
            params![
                build.to_string(),
                debug,
                info,
                warn,
                error,
                filter.from.map(column::micros),
                filter.limit,
                filter.offset,
            ],
            read_line,
        )?
        .collect()
}

fn read_line(row: &Row<'_>) -> rusqlite::Result<LogLine> {
    let level: String = row.get("level")?;
    let phase: Option<String> = row.get("phase")?;
    Ok(LogLine {
        at: column::time(row, "at")?,
        entry: BuildLogEntry {
            level: level_of(&level),
            phase: phase.as_deref().and_then(phase_of),
            message: row.get("message")?,
        },
    })
}

fn level_text(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
    }
}

fn level_of(text: &str) -> LogLevel {
    match text {
        "debug" => LogLevel::Debug,
        "warn" => LogLevel::Warn,
        "error" => LogLevel::Error,
        _ => LogLevel::Info,
    }
}

pub(super) fn phase_text(phase: BuildPhase) -> String {
    match phase {
        BuildPhase::Base => "base".to_owned(),
        BuildPhase::Step(number) => number.to_string(),
        BuildPhase::Finalize => "finalize".to_owned(),
    }
}

pub(super) fn phase_of(text: &str) -> Option<BuildPhase> {
    match text {
        "base" => Some(BuildPhase::Base),
        "finalize" => Some(BuildPhase::Finalize),
        number => number.parse().ok().map(BuildPhase::Step),
    }
}
