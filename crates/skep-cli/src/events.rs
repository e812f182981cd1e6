//! `skep events`

use clap::Args;
use skep_wire::rest::{EVENT_TYPE_PREFIX, SandboxEvent};

use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json_line, print_line};

/// Arguments of `skep events`.
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// The server to ask
    #[command(flatten)]
    server: ServerArgs,
    /// Only events of this sandbox
    #[arg(long, value_name = "ID")]
    sandbox: Option<String>,
    /// Only events of this type: created, paused, resumed, updated, checkpointed or killed; may be
    /// repeated
    #[arg(long = "type", value_name = "TYPE")]
    types: Vec<String>,
    /// Number of events to show
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    limit: u32,
    /// Shows events as they happen, until it is interrupted
    #[arg(long, short)]
    follow: bool,
    /// Format of the output
    #[command(flatten)]
    output: OutputArgs,
}

impl EventsArgs {
    /// Shows events, and returns the exit code.
    ///
    /// # Errors
    ///
    /// [`CliError`] with hints.
    pub async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        let client = self.server.client(default)?;
        let mut events = client.events().types(self.types);
        if let Some(sandbox) = self.sandbox {
            events = events.of(sandbox);
        }
        if !self.follow {
            for event in events.list(self.limit).await? {
                show(&event, self.output)?;
            }
            return Ok(0);
        }
        let mut feed = events.follow().await?;
        while let Some(event) = feed.next().await? {
            show(&event, self.output)?;
        }
        Ok(0)
    }
}

fn show(event: &SandboxEvent, output: OutputArgs) -> Result<(), CliError> {
    if output.json {
        return print_json_line(event);
    }
    let time = event.timestamp.strftime("%Y-%m-%d %H:%M:%S");
    let kind = event
        .kind
        .strip_prefix(EVENT_TYPE_PREFIX)
        .unwrap_or(&event.kind);
    let data = &event.event_data;
    let reason = data.end_reason.as_ref().map(|reason| format!(": {reason}"));
    let lived = data.execution.as_ref().map(|execution| {
        let seconds = execution.execution_time / 1000;
        format!(" after {seconds} s")
    });
    print_line(&format!(
        "{time}  {}  {kind}{}{}",
        event.sandbox_id,
        reason.unwrap_or_default(),
        lived.unwrap_or_default(),
    ))
}
