//! `skep sandbox logs`

use std::time::Duration;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use skep_client::{Client, LogEntry, LogLevel, LogQuery};

use super::{Among, id, runs, whole_id};
use crate::{
    CliError, DefaultServer, OutputArgs, ServerArgs, print_json_line, print_line, print_note,
};

/// Polling interval of a followed log.
const INTERVAL: Duration = Duration::from_millis(400);
/// The most that is asked for at once.
const PAGE: usize = 1000;

/// Arguments of `skep sandbox logs`.
#[derive(Debug, Args)]
pub struct LogArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// ID of the sandbox
    id: String,
    /// Follow until the sandbox ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Show only entries of at least this level
    #[arg(long, value_name = "LEVEL", default_value = "debug")]
    pub(crate) level: Level,
    /// Show only entries that contain this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) search: Option<String>,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl LogArgs {
    pub(super) async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let id = whole_id(&client, &self.id, Among::All).await?;
        logs(&client, &id, &self).await
    }
}

/// Severity of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Level {
    /// All entries
    Debug,
    /// Expected events
    Info,
    /// Oddities, such as standard error
    Warn,
    /// Failures alone
    Error,
}

impl From<Level> for LogLevel {
    fn from(level: Level) -> Self {
        match level {
            Level::Debug => Self::Debug,
            Level::Info => Self::Info,
            Level::Warn => Self::Warn,
            Level::Error => Self::Error,
        }
    }
}

/// Position of the last entry shown: entries come in the order of time, and several may have the
/// same.
#[derive(Debug, Default, PartialEq, Eq)]
struct LogPosition {
    at: Option<Timestamp>,
    /// Number of entries of that time that were shown.
    shown: usize,
}

impl LogPosition {
    /// The entries of a page that were not shown yet; the next page starts after them.
    fn advance(&mut self, page: Vec<LogEntry>) -> Vec<LogEntry> {
        let mut same = 0;
        let mut fresh = Vec::new();
        for entry in page {
            match self.at {
                Some(at) if entry.timestamp < at => {}
                Some(at) if entry.timestamp == at => {
                    same += 1;
                    if same > self.shown {
                        self.shown = same;
                        fresh.push(entry);
                    }
                }
                Some(_) | None => {
                    self.at = Some(entry.timestamp);
                    (self.shown, same) = (1, 1);
                    fresh.push(entry);
                }
            }
        }
        fresh
    }
}

async fn logs(client: &Client, id: &str, args: &LogArgs) -> Result<u8, CliError> {
    let mut position = LogPosition::default();
    let mut shown = 0;
    loop {
        // Asked before the entries, so that the last ones of a sandbox that ends are shown.
        let runs = args.follow && runs(client, id).await?;
        shown += show_new(client, id, args, &mut position).await?;
        if !runs {
            break;
        }
        tokio::time::sleep(INTERVAL).await;
    }
    if shown == 0 && !args.output.json {
        // A mistyped id is told apart from a quiet sandbox.
        id::record(client, id).await?;
        print_note("it has said nothing");
    }
    Ok(0)
}

async fn show_new(
    client: &Client,
    id: &str,
    args: &LogArgs,
    position: &mut LogPosition,
) -> Result<usize, CliError> {
    let mut shown = 0;
    loop {
        let query = LogQuery {
            level: Some(args.level.into()),
            search: args.search.as_deref(),
            since: position.at.map(Timestamp::as_millisecond),
            limit: None,
        };
        let page = client.sandbox(id).logs(&query).await?;
        let full = page.len() == PAGE;
        let fresh = position.advance(page);
        for entry in &fresh {
            if args.output.json {
                print_json_line(entry)?;
            } else {
                print_line(&render(entry))?;
            }
        }
        shown += fresh.len();
        // A page without anything new would be the same for ever.
        if !full || fresh.is_empty() {
            return Ok(shown);
        }
    }
}

/// An entry for people. The letter behind the time is the zone.
fn render(entry: &LogEntry) -> String {
    let level = match entry.level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error => "error",
    };
    let time = entry.timestamp.strftime("%Y-%m-%d %H:%M:%S%.3fZ");
    let fields: String = entry
        .fields
        .iter()
        .filter(|(name, _)| *name != "logger")
        .map(|(name, value)| format!(" {name}={value}"))
        .collect();
    let line = format!("{time} {level:5} {}{fields}", entry.message);
    crate::output::printable(&line)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn entry(second: i64, message: &str) -> LogEntry {
        LogEntry {
            timestamp: Timestamp::from_second(second).unwrap(),
            message: message.to_owned(),
            level: LogLevel::Warn,
            fields: BTreeMap::from([
                ("logger".to_owned(), "process".to_owned()),
                ("pid".to_owned(), "7".to_owned()),
            ]),
        }
    }

    #[test]
    fn every_entry_is_shown_once_however_the_pages_overlap() {
        let pages = [
            vec![entry(1, "a"), entry(1, "b")],
            vec![entry(1, "a"), entry(1, "b"), entry(1, "c")],
            vec![entry(1, "a"), entry(1, "b"), entry(1, "c"), entry(2, "d")],
            vec![entry(2, "d")],
        ];
        let mut position = LogPosition::default();
        let shown: Vec<_> = pages
            .into_iter()
            .flat_map(|page| position.advance(page))
            .map(|entry| entry.message)
            .collect();
        assert_eq!(shown, ["a", "b", "c", "d"]);
    }

    #[test]
    fn an_entry_is_a_line_that_moves_no_cursor() {
        let line = render(&entry(1, "a \"ré\" \u{1b}[31m"));
        let expected = r#"1970-01-01 00:00:01.000Z warn  a "ré" \u{1b}[31m pid=7"#;
        assert_eq!(line, expected);
    }
}
