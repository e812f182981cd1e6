//! `skep webhook …`

use clap::Subcommand;
use serde_json::json;
use skep_wire::rest::{
    EVENT_TYPE_PREFIX, EVENT_TYPES, NewWebhook, UpdateWebhook, Webhook, WebhookDelivery,
};

use crate::secret::value;
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_note, print_table};

/// Subcommands of `skep webhook`.
#[derive(Debug, Subcommand)]
pub enum WebhookCommand {
    /// Make a webhook; the secret that signs is asked for, or read from standard input
    #[command(after_help = "\
Examples:
  skep webhook create https://example.com/hook
  openssl rand -hex 32 | tee secret | skep webhook create https://example.com/hook --event killed")]
    Create {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Address that events are sent to, by POST
        url: String,
        /// Name, for people
        #[arg(long, default_value = "webhook")]
        name: String,
        /// Only events of this type: created, paused, resumed, updated, checkpointed or killed; may
        /// be repeated
        #[arg(long = "event", value_name = "TYPE")]
        events: Vec<String>,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List webhooks, without their secrets
    #[command(after_help = "\
Examples:
  skep webhook list
  skep webhook list --json")]
    List {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Let a webhook be sent events again, what has waited included
    #[command(after_help = "\
Examples:
  skep webhook enable 7d0c…")]
    Enable {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the webhook, as `skep webhook list` shows it
        webhook: String,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Send a webhook nothing, and keep no new events for it
    #[command(after_help = "\
Examples:
  skep webhook disable 7d0c…")]
    Disable {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the webhook, as `skep webhook list` shows it
        webhook: String,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Delete a webhook, and what waits for it
    #[command(after_help = "\
Examples:
  skep webhook delete 7d0c…")]
    Delete {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the webhook, as `skep webhook list` shows it
        webhook: String,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List the newest deliveries to a webhook, and what became of them
    #[command(after_help = "\
Examples:
  skep webhook deliveries 7d0c… --limit 100")]
    Deliveries {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the webhook, as `skep webhook list` shows it
        webhook: String,
        /// Number of deliveries to show
        #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List the newest deliveries that were given up, of all webhooks
    #[command(after_help = "\
Examples:
  skep webhook dead-letters --json")]
    DeadLetters {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Number of deliveries to show
        #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=100))]
        limit: u32,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Send what was given up of a webhook again
    #[command(after_help = "\
Examples:
  skep webhook redeliver 7d0c…")]
    Redeliver {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the webhook, as `skep webhook list` shows it
        webhook: String,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
}

impl WebhookCommand {
    /// Does it, and returns the exit code.
    ///
    /// # Errors
    ///
    /// [`CliError`] with hints.
    pub async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        match self {
            Self::Create {
                server,
                url,
                name,
                events,
                output,
            } => {
                let client = server.client(default)?;
                let webhook = NewWebhook {
                    signature_secret: value("the webhook's secret").await?,
                    name,
                    url,
                    events: types(events),
                    enabled: None,
                };
                let made = client.webhooks().create(&webhook).await?;
                tell(&made, output, &format!("{} is sent events", made.id))?;
            }
            Self::List { server, output } => {
                let webhooks = server.client(default)?.webhooks().list().await?;
                if output.json {
                    print_json(&webhooks)?;
                } else {
                    let header = ["id", "name", "enabled", "url", "events"];
                    print_table(&header, webhooks.iter().map(row).collect())?;
                }
            }
            Self::Enable {
                server,
                webhook,
                output,
            } => switch(&server, default, &webhook, true, output).await?,
            Self::Disable {
                server,
                webhook,
                output,
            } => switch(&server, default, &webhook, false, output).await?,
            Self::Delete {
                server,
                webhook,
                output,
            } => {
                server.client(default)?.webhooks().delete(&webhook).await?;
                if output.json {
                    print_json(&json!({ "webhook": webhook, "deleted": true }))?;
                } else {
                    print_note(&format!("deleted {webhook}"));
                }
            }
            Self::Deliveries {
                server,
                webhook,
                limit,
                output,
            } => {
                let client = server.client(default)?;
                let page = client.webhooks().deliveries(&webhook, limit).await?;
                show(&page.data, output)?;
            }
            Self::DeadLetters {
                server,
                limit,
                output,
            } => {
                let client = server.client(default)?;
                show(&client.webhooks().dead_letters(limit).await?.data, output)?;
            }
            Self::Redeliver {
                server,
                webhook,
                output,
            } => {
                let client = server.client(default)?;
                let count = client.webhooks().redeliver(&webhook).await?;
                if output.json {
                    print_json(&json!({ "webhook": webhook, "redelivered": count }))?;
                } else {
                    print_note(&format!("{count} are sent again"));
                }
            }
        }
        Ok(0)
    }
}

async fn switch(
    server: &ServerArgs,
    default: &DefaultServer,
    webhook: &str,
    enabled: bool,
    output: OutputArgs,
) -> Result<(), CliError> {
    let update = UpdateWebhook {
        enabled: Some(enabled),
        ..UpdateWebhook::default()
    };
    let client = server.client(default)?;
    let changed = client.webhooks().update(webhook, &update).await?;
    let word = if enabled { "is" } else { "is not" };
    tell(&changed, output, &format!("{webhook} {word} sent events"))
}

fn tell(webhook: &Webhook, output: OutputArgs, note: &str) -> Result<(), CliError> {
    if output.json {
        return print_json(webhook);
    }
    print_note(note);
    Ok(())
}

fn types(events: Vec<String>) -> Vec<String> {
    let all = || EVENT_TYPES.map(str::to_owned).to_vec();
    let words = if events.is_empty() { all() } else { events };
    let whole = |word: &String| format!("{EVENT_TYPE_PREFIX}{}", short(word));
    words.iter().map(whole).collect()
}

fn short(kind: &str) -> &str {
    kind.strip_prefix(EVENT_TYPE_PREFIX).unwrap_or(kind)
}

fn row(webhook: &Webhook) -> Vec<String> {
    let events: Vec<&str> = webhook.events.iter().map(|kind| short(kind)).collect();
    vec![
        webhook.id.clone(),
        webhook.name.clone(),
        if webhook.enabled { "yes" } else { "no" }.to_owned(),
        webhook.url.clone(),
        events.join(" "),
    ]
}

fn show(deliveries: &[WebhookDelivery], output: OutputArgs) -> Result<(), CliError> {
    if output.json {
        return print_json(&deliveries);
    }
    let header = [
        "recorded", "webhook", "event", "sandbox", "status", "attempts", "last",
    ];
    print_table(&header, deliveries.iter().map(delivery).collect())
}

fn delivery(delivery: &WebhookDelivery) -> Vec<String> {
    let last = delivery.attempts.last().map(|attempt| {
        let status = attempt.status_code.map(|status| status.to_string());
        status.or_else(|| attempt.error_class.clone())
    });
    let recorded = delivery.created_at.strftime("%Y-%m-%d %H:%M:%S");
    vec![
        recorded.to_string(),
        delivery.webhook_id.clone(),
        short(&delivery.event_type).to_owned(),
        delivery.sandbox_id.clone(),
        delivery.status.clone(),
        delivery.attempts.len().to_string(),
        last.flatten().unwrap_or_default(),
    ]
}
