//! The isolation backend of this machine.

use std::net::SocketAddr;

use skep_cli::CliError;
use skep_native::{Native, NativeConfig, resolvers_in};

use crate::config::{Config, Network};

/// The port of a resolver.
const DNS: u16 = 53;

/// Makes this machine ready for sandboxes.
///
/// # Errors
///
/// If it cannot hold them; `skep doctor` says more.
pub(crate) async fn open(config: &Config) -> Result<Native, CliError> {
    let executable = std::env::current_exe().map_err(CliError::failure)?;
    let mut native = NativeConfig::new(&config.data_dir, executable);
    native.resolvers = resolvers(&config.network)?;
    native.allowed_ranges = allowed_ranges(&config.network)?;
    Native::start(native).await.map_err(|error| {
        CliError::failure(error).hint("`skep doctor` says what this machine lacks")
    })
}

fn resolvers(network: &Network) -> Result<Vec<SocketAddr>, CliError> {
    if !network.dns_upstreams.is_empty() {
        return Ok(network
            .dns_upstreams
            .iter()
            .map(|ip| SocketAddr::new(*ip, DNS))
            .collect());
    }
    match std::fs::read_to_string("/etc/resolv.conf") {
        Ok(text) => Ok(resolvers_in(&text)),
        Err(error) => Err(CliError::failure(error).hint(
            "cannot read /etc/resolv.conf; name resolvers with `network.dns_upstreams` in skep.toml",
        )),
    }
}

fn allowed_ranges(network: &Network) -> Result<Vec<ipnet::Ipv4Net>, CliError> {
    let parse = |text: &String| {
        text.parse().map_err(|_| {
            CliError::input(
                format!("`{text}` in `network.allow` is not an IPv4 range"),
                "write it as address/prefix, such as 10.1.2.0/24",
            )
        })
    };
    network.allow.iter().map(parse).collect()
}
