//! The server that a command talks to, and its key.

use std::path::{Path, PathBuf};

use clap::Args;
use skep_client::Client;

use crate::listener::check_owner;
use crate::{CliError, FileError};

/// The server that a command talks to when none is named, and whose key it uses then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefaultServer {
    /// URL that the environment or the configuration of this host says.
    pub url: String,
    /// File with the key of this host, which only its operator can read.
    pub local_key: PathBuf,
}

/// The server that a command talks to, and its key.
#[derive(Debug, Clone, Default, Args)]
pub struct ServerArgs {
    /// URL of the server [default: E2B_API_URL, or the configured address of this host]
    #[arg(long, value_name = "URL", env = "SKEP_SERVER")]
    server: Option<String>,

    /// API key [default: the local operator's key]
    #[arg(long, value_name = "KEY", env = "E2B_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
}

impl ServerArgs {
    /// A client of that server. Without a key the one of this host is used, which only its
    /// operator can read, and which only a server of the same user is sent.
    ///
    /// # Errors
    ///
    /// If there is no key, if it is not for whoever listens there, or the address is no URL.
    pub fn client(&self, default: &DefaultServer) -> Result<Client, CliError> {
        let server = with_scheme(self.server.as_deref().unwrap_or(&default.url));
        client(&server, self.api_key.as_deref(), &default.local_key)
    }
}

/// The server that code runs on, if it is not to be the one of this host.
#[derive(Debug, Clone, Default, Args)]
pub struct ChosenServerArgs {
    /// URL of the server [default: E2B_API_URL, the one on this host, or a temporary one]
    #[arg(long, value_name = "URL", env = "SKEP_SERVER")]
    server: Option<String>,

    /// API key [default: the local operator's key]
    #[arg(long, value_name = "KEY", env = "E2B_API_KEY", hide_env_values = true)]
    api_key: Option<String>,
}

impl ChosenServerArgs {
    /// A client of the server that was named; `None` if none was.
    ///
    /// # Errors
    ///
    /// As [`ServerArgs::client`].
    pub fn named(&self, local_key: &Path) -> Option<Result<Client, CliError>> {
        let server = self.server.as_ref()?;
        Some(self.at(server, local_key))
    }

    /// A client of the server at `url`, with the key that was given or that of this host.
    ///
    /// # Errors
    ///
    /// As [`ServerArgs::client`].
    pub fn at(&self, url: &str, local_key: &Path) -> Result<Client, CliError> {
        client(&with_scheme(url), self.api_key.as_deref(), local_key)
    }
}

/// The URL that somebody means who writes `host:port`.
fn with_scheme(server: &str) -> String {
    if server.contains("://") {
        server.to_owned()
    } else {
        format!("http://{server}")
    }
}

fn client(server: &str, api_key: Option<&str>, local_key: &Path) -> Result<Client, CliError> {
    // An address that is none is told before a key is missed.
    let stranger = Client::new(server, api_key.unwrap_or_default())?;
    if api_key.is_some() {
        return Ok(stranger);
    }
    Ok(Client::direct(server, &key_of_host(server, local_key)?)?)
}

/// The key of this host, for a server of the user whose it is.
///
/// # Errors
///
/// If it cannot be read, or somebody else listens at `server`.
pub fn key_of_host(server: &str, local_key: &Path) -> Result<String, CliError> {
    check_owner(server, local_key)?;
    let key = std::fs::read_to_string(local_key)
        .map_err(FileError::on("read the key of this host in", local_key))
        .map_err(|error| error.hint("set E2B_API_KEY, or use `--api-key`"))?;
    Ok(key.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_scheme_is_plain_http() {
        assert_eq!(with_scheme("127.0.0.1:3000"), "http://127.0.0.1:3000");
        assert_eq!(with_scheme("https://a.test"), "https://a.test");
    }

    #[test]
    fn a_server_that_is_named_comes_before_the_default() {
        let default = DefaultServer {
            url: "http://127.0.0.1:3544".to_owned(),
            local_key: PathBuf::new(),
        };
        let client = |server: Option<&str>| {
            let args = ServerArgs {
                server: server.map(str::to_owned),
                api_key: Some("e2b_0".to_owned()),
            };
            format!("{:?}", args.client(&default).unwrap())
        };
        assert!(client(None).contains("127.0.0.1:3544"));
        assert!(client(Some("skep.test:80")).contains("skep.test"));
    }
}
