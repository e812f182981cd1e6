//! Which server a command talks to, and as whom.

use std::path::Path;

use clap::Args;
use skep_client::Client;

use crate::CliError;

/// Which server a command talks to, and as whom.
#[derive(Debug, Clone, Args)]
pub struct ServerArgs {
    /// URL of the server
    #[arg(
        long,
        value_name = "URL",
        env = "SKEP_SERVER",
        default_value = "http://127.0.0.1:3000"
    )]
    server: String,

    /// API key [default: the local operator's key]
    #[arg(long, value_name = "KEY", env = "E2B_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
}

impl ServerArgs {
    /// A client of that server. Without a key the one in `local_key` is used, which only the
    /// operator of this machine can read.
    ///
    /// # Errors
    ///
    /// If there is no key, or the address is no URL.
    pub fn client(&self, local_key: &Path) -> Result<Client, CliError> {
        let key = match &self.api_key {
            Some(key) => key.clone(),
            None => std::fs::read_to_string(local_key)
                .map_err(|error| {
                    CliError::failure(error).hint(format!(
                        "no key was given and `{}` cannot be read; set E2B_API_KEY or use `--api-key`",
                        local_key.display()
                    ))
                })?
                .trim()
                .to_owned(),
        };
        Ok(Client::new(&self.server, &key)?)
    }
}
