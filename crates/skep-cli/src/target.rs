//! The server that a command talks to, and its key.

use std::path::Path;

use clap::Args;
use skep_client::Client;

use crate::listener::check_owner;
use crate::{CliError, FileError};

/// The server that a command talks to, and its key.
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
    /// operator of this host can read, and which only a server of the same user is sent.
    ///
    /// # Errors
    ///
    /// If there is no key, if it is not for whoever listens there, or the address is no URL.
    pub fn client(&self, local_key: &Path) -> Result<Client, CliError> {
        let key = match &self.api_key {
            Some(key) => key.clone(),
            None => std::fs::read_to_string(local_key)
                .map_err(FileError::on("read the key of this host in", local_key))
                .map_err(|error| error.hint("set E2B_API_KEY, or use `--api-key`"))?
                .trim()
                .to_owned(),
        };
        let client = Client::new(&self.server, &key)?;
        if self.api_key.is_none() {
            check_owner(&self.server, local_key)?;
        }
        Ok(client)
    }
}

/// The server that code runs on, if it is not to be the one of this host.
#[derive(Debug, Clone, Default, Args)]
pub struct ChosenServerArgs {
    /// URL of the server [default: the one on this host, or a temporary one]
    #[arg(long, value_name = "URL", env = "SKEP_SERVER")]
    server: Option<String>,

    /// API key [default: the local operator's key]
    #[arg(long, value_name = "KEY", env = "E2B_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
}

impl ChosenServerArgs {
    /// The server that was named.
    pub fn named(&self) -> Option<ServerArgs> {
        self.server.clone().map(|server| self.at(server))
    }

    /// The server at `url`, with the key that was given.
    pub fn at(&self, url: String) -> ServerArgs {
        ServerArgs {
            server: url,
            api_key: self.api_key.clone(),
        }
    }
}
