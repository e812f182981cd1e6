//! `skep key …`

use std::path::Path;

use clap::Subcommand;
use skep_client::{ApiKey, CreatedApiKey};
use skep_wire::rest::KeyMask;

use crate::{CliError, OutputArgs, ServerArgs, print_json, print_line, print_note, print_table};

/// Subcommands of `skep key`.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Create an API key; it is shown once
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
    List {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Revoke a key
    Revoke {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// ID of the key, as `skep key list` shows it
        id: String,
    },
}

impl KeyCommand {
    /// Does it, and returns the exit code.
    ///
    /// # Errors
    ///
    /// [`CliError`] with hints.
    pub async fn run(self, local_key: &Path) -> Result<u8, CliError> {
        match self {
            Self::Create {
                server,
                name,
                output,
            } => {
                let client = server.client(local_key)?;
                let key: CreatedApiKey = client.api_keys().create(&name).await?;
                if output.json {
                    print_json(&key);
                } else {
                    print_note("keep it: it is not shown again");
                    print_line(&key.key);
                }
            }
            Self::List { server, output } => {
                let keys: Vec<ApiKey> = server.client(local_key)?.api_keys().list().await?;
                if output.json {
                    print_json(&keys);
                } else {
                    let header = ["id", "name", "key", "created", "last used"];
                    print_table(&header, keys.iter().map(row).collect());
                }
            }
            Self::Revoke { server, id } => {
                server.client(local_key)?.api_keys().revoke(&id).await?;
                print_note(&format!("revoked {id}"));
            }
        }
        Ok(0)
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
