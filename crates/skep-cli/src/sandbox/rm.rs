//! `skep sandbox rm`

use clap::Args;
use serde_json::json;

use super::place::in_sandbox;
use super::{Among, kill, whole_id};
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_note};

pub(super) const EXAMPLES: &str = "\
Examples:
  skep sandbox rm i8f6:/tmp/cache    a file, or a directory with everything in it
  skep sandbox rm i8f6               the sandbox itself, as `kill` does";

/// Arguments of `skep sandbox rm`.
#[derive(Debug, Args)]
pub struct RmArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Files, or sandboxes
    #[arg(value_name = "SANDBOX[:PATH]", required = true)]
    places: Vec<String>,
    /// Remove files as this user
    #[arg(long, short)]
    user: Option<String>,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl RmArgs {
    pub(super) async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        // All are understood before anything is gone.
        let mut places = Vec::new();
        for place in &self.places {
            let (id, path) = in_sandbox(place)?;
            let whole = whole_id(&client, id, Among::Living).await?;
            places.push((whole, path));
        }
        let mut sandboxes = Vec::new();
        let mut removed = Vec::new();
        for (id, path) in places {
            let Some(path) = path else {
                sandboxes.push(id);
                continue;
            };
            let mut files = client.sandbox(&id).files();
            if let Some(user) = &self.user {
                files = files.as_user(user);
            }
            // The agent removes what is not there, too, as the SDKs expect it.
            files.stat(path).await?;
            files.remove(path).await?;
            if !self.output.json {
                print_note(&format!("removed {id}:{path}"));
            }
            removed.push(json!({ "sandboxID": id, "path": path, "removed": true }));
        }
        if self.output.json && !removed.is_empty() {
            print_json(&removed)?;
        }
        if sandboxes.is_empty() {
            return Ok(0);
        }
        let missing = kill::kill(&client, &sandboxes, self.output).await?;
        Ok(u8::from(missing > 0))
    }
}
