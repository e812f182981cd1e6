//! `skep secret …`

use std::collections::BTreeMap;
use std::io::{self, Read as _};

use clap::{Args, Subcommand};
use serde_json::json;
use skep_wire::rest::{NewSecret, Secret, UpdateSecret};

use crate::terminal::Terminal;
use crate::{CliError, DefaultServer, OutputArgs, ServerArgs, print_json, print_note, print_table};

/// Longest value, with the end of line that a pipe may add to it.
const LONGEST_VALUE: u64 = 64 * 1024 + 2;

/// Subcommands of `skep secret`.
#[derive(Debug, Subcommand)]
pub enum SecretCommand {
    /// Keep a secret; its value is asked for, or read from standard input
    #[command(after_help = "\
Examples:
  skep secret create github-token
  pass show github | skep secret create github-token --metadata owner=ci")]
    Create {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Name: letters, digits, - and _
        name: String,
        /// Remarks beside it
        #[command(flatten)]
        beside: Beside,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List secrets, without their values
    #[command(after_help = "\
Examples:
  skep secret list
  skep secret list --json")]
    List {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Give a secret another value, which the next request gets
    #[command(after_help = "\
Examples:
  skep secret update github-token < token.txt")]
    Update {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Name or ID of the secret, as `skep secret list` shows it
        secret: String,
        /// Remarks beside it; without any, they stay
        #[command(flatten)]
        beside: Beside,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Delete a secret for good: requests that would carry it fail
    #[command(after_help = "\
Examples:
  skep secret delete github-token")]
    Delete {
        /// The server to ask
        #[command(flatten)]
        server: ServerArgs,
        /// Name or ID of the secret, as `skep secret list` shows it
        secret: String,
        /// Format of the output
        #[command(flatten)]
        output: OutputArgs,
    },
}

/// Key-value pairs beside a secret.
#[derive(Debug, Args)]
pub struct Beside {
    /// A pair beside the secret, which is not secret; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    metadata: Vec<(String, String)>,
}

impl Beside {
    fn pairs(self) -> Option<BTreeMap<String, String>> {
        (!self.metadata.is_empty()).then(|| self.metadata.into_iter().collect())
    }
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').ok_or("it has no `=`")?;
    Ok((pair.0.to_owned(), pair.1.to_owned()))
}

impl SecretCommand {
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
                beside,
                output,
            } => {
                let client = server.client(default)?;
                let secret = NewSecret {
                    value: value(&name).await?,
                    name,
                    metadata: beside.pairs(),
                };
                tell(&client.secrets().create(&secret).await?, output)?;
            }
            Self::List { server, output } => {
                let secrets = server.client(default)?.secrets().list().await?;
                if output.json {
                    print_json(&secrets)?;
                } else {
                    let header = ["name", "id", "version", "updated", "metadata"];
                    print_table(&header, secrets.iter().map(row).collect())?;
                }
            }
            Self::Update {
                server,
                secret,
                beside,
                output,
            } => {
                let client = server.client(default)?;
                let update = UpdateSecret {
                    value: value(&secret).await?,
                    metadata: beside.pairs(),
                };
                tell(&client.secrets().update(&secret, &update).await?, output)?;
            }
            Self::Delete {
                server,
                secret,
                output,
            } => {
                server.client(default)?.secrets().delete(&secret).await?;
                if output.json {
                    print_json(&json!({ "secret": secret, "deleted": true }))?;
                } else {
                    print_note(&format!("deleted {secret}"));
                }
            }
        }
        Ok(0)
    }
}

fn tell(secret: &Secret, output: OutputArgs) -> Result<(), CliError> {
    if output.json {
        return print_json(secret);
    }
    print_note(&format!(
        "{} has its value, version {}; use it as ${{e2b.secrets.{}}} in a header rule",
        secret.name, secret.current_version, secret.name
    ));
    Ok(())
}

/// The value, typed where nobody sees it or read from a pipe. Arguments are seen by everybody on the
/// host, so it is none.
pub(crate) async fn value(name: &str) -> Result<String, CliError> {
    let terminal = Terminal::open().map_err(CliError::failure)?;
    let text = match terminal {
        Some(terminal) => asked(&terminal, name).await,
        None => {
            let mut text = String::new();
            let mut input = io::stdin().lock().take(LONGEST_VALUE);
            input.read_to_string(&mut text).map(|_| text)
        }
    };
    let text = text.map_err(CliError::failure)?;
    // One end of line is the terminal's or the pipe's.
    let value = text.strip_suffix('\n').unwrap_or(&text);
    let value = value.strip_suffix('\r').unwrap_or(value);
    if value.is_empty() {
        return Err(CliError::input(
            "the value is empty".to_owned(),
            "type it, or pipe it: `pass show x | skep …`",
        ));
    }
    Ok(value.to_owned())
}

async fn asked(terminal: &Terminal, name: &str) -> io::Result<String> {
    let hidden = terminal.hide()?;
    terminal
        .show(format!("value of {name}: ").as_bytes())
        .await?;
    let mut typed = Vec::new();
    while !typed.contains(&b'\n') {
        let more = terminal.read().await?;
        if more.is_empty() {
            break;
        }
        typed.extend(more);
    }
    drop(hidden);
    String::from_utf8(typed).map_err(io::Error::other)
}

fn row(secret: &Secret) -> Vec<String> {
    let pairs: Vec<String> = secret
        .metadata
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    vec![
        secret.name.clone(),
        secret.secret_id.clone(),
        secret.current_version.to_string(),
        secret.updated_at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        pairs.join(" "),
    ]
}
