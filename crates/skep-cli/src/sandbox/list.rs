//! `skep sandbox list`

use clap::Args;
use skep_client::{Client, SandboxRecord, SandboxRecordState};

use super::{id, moment};
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_note, print_table};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep sandbox list                  the sandboxes that run
  skep sandbox list --all            ended ones too, and why each ended
  skep sandbox list --json | jq -r '.[].sandboxID'";

/// Number of sandboxes that `--all` shows unless told otherwise.
const USUAL_LIMIT: usize = 50;

const HEADER: &[&str] = &[
    "id",
    "template",
    "state",
    "started (utc)",
    "end (utc)",
    "reason",
    "memory peak",
    "cpu",
];

/// Arguments of `skep sandbox list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// The server to ask
    #[command(flatten)]
    pub(super) server: ServerArgs,
    /// Include ended sandboxes, with the reason why each ended
    #[arg(long)]
    pub(super) all: bool,
    /// Show at most so many, the newest first [default: 50 with `--all`]
    #[arg(long, value_name = "N")]
    pub(super) limit: Option<usize>,
    /// Format of the output
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl ListArgs {
    /// True if JSON is asked for.
    pub fn json(&self) -> bool {
        self.output.json
    }

    pub(super) async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        self.show(&client).await
    }

    /// Shows the sandboxes of a server.
    pub(super) async fn show(&self, client: &Client) -> Result<u8, CliError> {
        let usual = if self.all { USUAL_LIMIT } else { usize::MAX };
        let limit = self.limit.unwrap_or(usual);
        let sandboxes = client.sandboxes();
        // One more than is shown tells whether there are more.
        let mut records = sandboxes
            .newest_records(self.all, limit.saturating_add(1))
            .await?;
        let has_more = records.len() > limit;
        records.truncate(limit);
        if self.output.json {
            print_json(&records)?;
        } else if records.is_empty() {
            print_note(if self.all {
                "no sandboxes yet"
            } else {
                "no sandboxes are running"
            });
        } else {
            print_table(HEADER, records.iter().map(row).collect())?;
        }
        if has_more {
            print_note(&format!(
                "there are more than {limit}; `--limit` shows them"
            ));
        }
        Ok(0)
    }
}

fn row(record: &SandboxRecord) -> Vec<String> {
    fields(record).into_iter().map(|(_, value)| value).collect()
}

/// Description of a sandbox, in a table or one by one.
pub(super) fn fields(record: &SandboxRecord) -> Vec<(&'static str, String)> {
    let dash = || "-".to_owned();
    let time = |time: Option<jiff::Timestamp>| time.map_or_else(dash, moment);
    let usage = record.usage.as_ref();
    let ends = if record.state == SandboxRecordState::Paused {
        "paused (utc)"
    } else if id::is_over(record) {
        "ended (utc)"
    } else {
        "ends (utc)"
    };
    vec![
        ("id", record.sandbox_id.clone()),
        ("template", record.alias.clone()),
        ("state", state(record.state).to_owned()),
        ("started (utc)", time(record.started_at)),
        (ends, time(record.end_at)),
        ("reason", record.end_reason.clone().unwrap_or_else(dash)),
        (
            "memory peak",
            usage.map_or_else(dash, |usage| mebibytes(usage.memory_peak_bytes)),
        ),
        (
            "cpu",
            usage.map_or_else(dash, |usage| format!("{:.2} s", usage.cpu_seconds)),
        ),
    ]
}

fn state(state: SandboxRecordState) -> &'static str {
    match state {
        SandboxRecordState::Starting => "starting",
        SandboxRecordState::Running => "running",
        SandboxRecordState::Paused => "paused",
        SandboxRecordState::Stopping => "stopping",
        SandboxRecordState::Stuck => "stuck",
        SandboxRecordState::Ended => "ended",
    }
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1024 * 1024))
}
