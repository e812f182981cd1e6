//! `skep console`

use clap::Args;
use serde_json::json;

use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_line, print_note};

/// Arguments of `skep console`.
#[derive(Debug, Clone, Args)]
pub struct ConsoleArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl ConsoleArgs {
    /// Does it, and returns the exit code.
    ///
    /// # Errors
    ///
    /// [`CliError`] with hints.
    pub async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let link = self.server.client(default)?.console_link().await?;
        if self.output.json {
            print_json(&json!({ "url": link }))?;
        } else {
            print_line(&link)?;
            print_note("opens the console once, within a minute");
        }
        Ok(0)
    }
}
