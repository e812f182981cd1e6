//! `skep sandbox info`

use clap::Args;
use skep_client::SandboxRecord;

use super::{id, list};
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_table};

/// Arguments of `skep sandbox info`.
#[derive(Debug, Args)]
pub struct InfoArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// ID of the sandbox
    id: String,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl InfoArgs {
    pub(super) async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let record = id::record(&self.server.client(default)?, &self.id).await?;
        if self.output.json {
            print_json(&record)?;
        } else {
            print_table(&["field", "value"], rows(&record))?;
        }
        Ok(0)
    }
}

fn rows(record: &SandboxRecord) -> Vec<Vec<String>> {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows: Vec<_> = list::fields(record)
        .into_iter()
        .map(|(name, value)| row(name, value))
        .collect();
    let limits = format!(
        "{} CPUs, {} MiB memory, {} MiB disk",
        record.cpu_count, record.memory_mb, record.disk_size_mb
    );
    rows.push(row("limits", limits));
    for (key, value) in &record.metadata {
        rows.push(row(&format!("metadata {key}"), value.clone()));
    }
    rows
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_end_of_an_ended_sandbox_is_past_and_the_zone_is_told() {
        let record = |state: &str| -> SandboxRecord {
            serde_json::from_value(json!({
                "sandboxID": "i1", "templateID": "t", "alias": "base", "state": state,
                "createdAt": "2026-01-02T03:04:05Z", "startedAt": "2026-01-02T03:04:05Z",
                "endAt": "2026-01-02T06:16:05Z", "cpuCount": 1, "memoryMB": 512, "diskSizeMB": 1,
            }))
            .unwrap()
        };
        let end = |state: &str| rows(&record(state))[4].join(" ");
        assert_eq!(end("ended"), "ended (utc) 2026-01-02 06:16:05");
        assert_eq!(end("running"), "ends (utc) 2026-01-02 06:16:05");
        assert_eq!(end("paused"), "paused (utc) 2026-01-02 06:16:05");
    }
}
