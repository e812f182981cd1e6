//! The isolation backend of this host.

use std::net::SocketAddr;

use skep_cli::{CliError, ExitKind};
use skep_host::{InstanceError, StartError, resolvers_in};
use skep_native::{Native, NativeConfig, ZygoteConfig};

use crate::config::{Config, Network, Pool};

/// This very program, whatever has become of the file it was started from: an upgrade replaces
/// that while the server runs, and a launcher of another version might not understand it.
const EXECUTABLE: &str = "/proc/self/exe";
/// The port of a resolver.
const DNS: u16 = 53;

/// Makes this host ready for sandboxes.
///
/// # Errors
///
/// If it cannot hold them; `skep doctor` says more.
pub(crate) async fn open(config: &Config) -> Result<Native, CliError> {
    let mut native = NativeConfig::new(&config.data_dir, EXECUTABLE);
    native.host.resolvers = resolvers(&config.network)?;
    let speed = u64::from(config.limits.disk_mib_per_second) << 20;
    native.host.ready_parts = config.pool.disks as usize;
    native.host.disk_bytes_per_second = Some(speed).filter(|speed| *speed > 0);
    native.zygotes = zygotes(&config.pool)?;
    native.host.allowed_ranges = allowed_ranges(&config.network)?;
    Native::start(native).await.map_err(start_error)
}

fn zygotes(pool: &Pool) -> Result<Option<ZygoteConfig>, CliError> {
    let most = pool.most_zygotes;
    if !(1..=ZygoteConfig::MOST).contains(&most) {
        return Err(CliError::input(
            format!(
                "`pool.most_zygotes` is {most}, not 1 to {}",
                ZygoteConfig::MOST
            ),
            "for no zygotes at all, set `pool.zygotes` to false",
        ));
    }
    Ok(pool.zygotes.then(|| ZygoteConfig {
        most,
        ..ZygoteConfig::default()
    }))
}

fn start_error(error: StartError) -> CliError {
    let (kind, hint) = match &error {
        StartError::Instance(InstanceError::DataInUse(_)) => (
            ExitKind::Input,
            "stop the other server first, or choose another directory with `--data-dir`",
        ),
        StartError::Instance(InstanceError::AllTaken | InstanceError::File { .. })
        | StartError::Cgroups(_)
        | StartError::Firewall(_)
        | StartError::Dns { .. }
        | StartError::Host { .. } => (
            ExitKind::Failure,
            "`skep doctor` says what this machine lacks",
        ),
    };
    CliError {
        kind,
        ..CliError::failure(error).hint(hint)
    }
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
