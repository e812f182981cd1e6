//! `skep key …`

use clap::Subcommand;
use serde_json::json;
use skep_client::{ApiKey, Client, CreatedApiKey};
use skep_wire::rest::KeyMask;

use crate::{
    CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_line, print_note,
    print_table,
};

/// Subcommands of `skep key`.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Create an API key; it is shown once
    #[command(after_help = "\
Examples:
  skep key create laptop
  skep key create ci --json")]
    Create {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Name of the key
        name: String,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List keys
    #[command(after_help = "\
Examples:
  skep key list
  skep key list --json")]
    List {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Revoke a key for good
    #[command(after_help = "\
Examples:
  skep key revoke laptop")]
    Revoke {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID or name of the key, as `skep key list` shows it
        key: String,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Replace a key by a new one of the same name, which is shown once
    ///
    /// Without a name it is the local operator's key, on the host itself: that needs root, no
    /// other key, and no server that runs.
    #[command(after_help = "\
Examples:
  sudo skep key rotate        the local operator's, also without a server
  skep key rotate ci          one of your team")]
    Rotate {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID or name of the key [default: the local operator's]
        key: Option<String>,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
}

impl KeyCommand {
    /// Does it, and returns the exit code.
    ///
    /// # Errors
    ///
    /// [`CliError`] with hints.
    pub async fn run(self, default: &DefaultServer) -> Result<u8, CliError> {
        match self {
            Self::Create {
                server,
                name,
                output,
            } => {
                let client = server.client(default)?;
                show(&client.api_keys().create(&name).await?, output)?;
            }
            Self::List { server, output } => {
                let keys: Vec<ApiKey> = server.client(default)?.api_keys().list().await?;
                if output.json {
                    print_json(&keys)?;
                } else {
                    let header = ["id", "name", "key", "created", "last used"];
                    print_table(&header, keys.iter().map(row).collect())?;
                }
            }
            Self::Revoke {
                server,
                key,
                output,
            } => {
                let client = server.client(default)?;
                let found = find(&client, &key).await?;
                client.api_keys().revoke(&found.id).await?;
                if output.json {
                    print_json(&json!({ "id": found.id, "name": found.name, "revoked": true }))?;
                } else {
                    print_note(&format!("revoked {} ({})", found.name, found.id));
                }
            }
            Self::Rotate {
                server,
                key,
                output,
            } => {
                let client = server.client(default)?;
                let name = key.unwrap_or_default();
                let old = find(&client, &name).await?;
                let new = client.api_keys().create(&old.name).await?;
                // Shown before the old one goes: it is what the caller has afterwards.
                show(&new, output)?;
                client.api_keys().revoke(&old.id).await?;
            }
        }
        Ok(0)
    }
}

fn show(key: &CreatedApiKey, output: OutputArgs) -> Result<(), CliError> {
    if output.json {
        return print_json(key);
    }
    print_note("keep it: it is not shown again");
    print_line(&key.key)
}

/// The key with this ID, or the only one with this name.
async fn find(client: &Client, text: &str) -> Result<ApiKey, CliError> {
    let keys = client.api_keys().list().await?;
    choose(keys, text)
}

fn choose(keys: Vec<ApiKey>, text: &str) -> Result<ApiKey, CliError> {
    if let Some(key) = keys.iter().find(|key| key.id == text) {
        return Ok(key.clone());
    }
    let mut named: Vec<_> = keys.into_iter().filter(|key| key.name == text).collect();
    match (named.pop(), named.len()) {
        (Some(key), 0) => Ok(key),
        (Some(_), more) => Err(CliError::input(
            format!("{} keys are called `{text}`", more + 1),
            "name one by its ID, which `skep key list` shows",
        )),
        (None, _) => Err(CliError::input(
            format!("there is no key `{text}`"),
            "`skep key list` shows the IDs and names of all",
        )),
    }
}

fn row(key: &ApiKey) -> Vec<String> {
    let KeyMask {
        prefix,
        masked_value_prefix,
        masked_value_suffix,
        ..
    } = &key.mask;
    let time = |time: jiff::Timestamp| time.strftime("%Y-%m-%d %H:%M:%S").to_string();
    vec![
        key.id.clone(),
        key.name.clone(),
        format!("{prefix}{masked_value_prefix}…{masked_value_suffix}"),
        time(key.created_at),
        key.last_used.map_or_else(|| "never".to_owned(), time),
    ]
}
