//! `skep sandbox kill`

use clap::Args;
use serde_json::json;
use skep_client::Client;

use super::{Among, whole_id};
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_note};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep sandbox kill i8f6             the sandbox whose ID begins so
  skep sandbox kill --all            all of your team";

/// Arguments of `skep sandbox kill`.
#[derive(Debug, Args)]
pub struct KillArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// IDs of the sandboxes
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    ids: Vec<String>,
    /// Kill all sandboxes of the team
    #[arg(long)]
    all: bool,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl KillArgs {
    pub(super) async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let ids = if self.all {
            let running = client.sandboxes().list().await?;
            running
                .into_iter()
                .map(|sandbox| sandbox.sandbox_id)
                .collect()
        } else {
            let mut ids = Vec::new();
            for text in &self.ids {
                ids.push(whole_id(&client, text, Among::All).await?);
            }
            ids
        };
        if ids.is_empty() && !self.output.json {
            print_note("no sandboxes are running");
        }
        let missing = kill(&client, &ids, self.output).await?;
        // Whoever wants all gone does not mind one that went by itself.
        Ok(u8::from(missing > 0 && !self.all))
    }
}

/// Kills sandboxes, tells of each, and counts those that did not run.
pub(super) async fn kill(
    client: &Client,
    ids: &[String],
    output: OutputArgs,
) -> Result<usize, CliError> {
    let mut told = Vec::new();
    for id in ids {
        let killed = match client.sandbox(id).kill().await {
            Ok(()) => true,
            Err(error) if error.is_not_found() => false,
            Err(error) => return Err(error.into()),
        };
        if !output.json {
            let what = if killed { "killed" } else { "not running:" };
            print_note(&format!("{what} {id}"));
        }
        told.push((id, killed));
    }
    if output.json {
        let row = |(id, killed): &(&String, bool)| json!({ "sandboxID": id, "killed": killed });
        print_json(&told.iter().map(row).collect::<Vec<_>>())?;
    }
    Ok(told.iter().filter(|(_, killed)| !killed).count())
}
