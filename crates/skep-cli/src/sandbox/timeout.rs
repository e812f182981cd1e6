//! `skep sandbox timeout`

use std::time::Duration;

use clap::Args;
use serde_json::json;

use super::{Among, moment, whole_id};
use crate::run::duration;
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_note};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep sandbox timeout i8f6 30m      it ends in half an hour";

/// Arguments of `skep sandbox timeout`.
#[derive(Debug, Args)]
pub struct TimeoutArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// ID of the sandbox
    id: String,
    /// Time until it ends, such as 30, 90s, 5m or 1h 30m
    #[arg(value_name = "TIME", value_parser = duration)]
    timeout: Duration,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl TimeoutArgs {
    pub(super) async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let id = whole_id(&client, &self.id, Among::Living).await?;
        let sandbox = client.sandbox(&id);
        sandbox.set_timeout(self.timeout).await?;
        // The server may have cut it to what the team may have.
        let end = sandbox.info().await?.listed.end_at;
        if self.output.json {
            print_json(&json!({ "sandboxID": id, "endAt": end }))?;
        } else {
            print_note(&format!("{id} ends {} UTC", moment(end)));
        }
        Ok(0)
    }
}
