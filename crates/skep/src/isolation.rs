//! The isolation backend of this host.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use skep_admin::start_error;
use skep_agents::HttpAgents;
use skep_checkpoint::{Criu, ImageKey};
use skep_cli::{CliError, ExitKind};
use skep_egress::Inspection;
use skep_host::{PageOut, ProxyCommand, resolvers_in};
use skep_install::AgentBuild;
use skep_isolation::VolumeMounts;
use skep_native::{CheckpointConfig, Native, NativeConfig, ZygoteConfig};
use skep_telemetry::Chain;

use crate::config::{Config, Network, Pause, Pool};
use crate::serve::Ends;

/// This very program, whatever has become of the file it was started from: an upgrade replaces
/// that while the server runs, and a launcher of another version might not understand it.
const THIS: &str = "/proc/self/exe";
/// The executable of a sandbox, if this one was built with it inside.
const AGENT: Option<AgentBuild> = include!(concat!(env!("OUT_DIR"), "/guest.rs"));
/// The port of a resolver.
const DNS: u16 = 53;

/// Makes this host ready for sandboxes.
///
/// # Errors
///
/// If it cannot hold them; `skep doctor` says more.
pub(crate) async fn open(
    config: &Config,
    ends: Ends,
    volumes: Arc<dyn VolumeMounts>,
) -> Result<(Native, Arc<OnceLock<Inspection>>), CliError> {
    let agent = match ends {
        Ends::BySignal => agent(&config.data_dir),
        // It starts one sandbox, and its data goes with it: a copy would cost more than it saves.
        Ends::WithStandardInput => None,
    };
    let executable = agent.clone().unwrap_or_else(|| THIS.into());
    let mut native = NativeConfig::new(&config.data_dir, executable);
    native.host.resolvers = resolvers(&config.network)?;
    // The agent is a smaller program, without the proxy.
    native.host.egress_proxy = Some(ProxyCommand::new(THIS));
    let speed = u64::from(config.limits.disk_mib_per_second) << 20;
    native.host.ready_parts = config.pool.disks as usize;
    native.host.disk_bytes_per_second = Some(speed).filter(|speed| *speed > 0);
    let policy = config.admission.policy();
    native.host.disk_reserve = policy.enabled.then_some(policy.disk_reserve);
    native.volumes = Some(volumes);
    native.zygotes = zygotes(&config.pool)?;
    native.checkpoints = checkpoints(config).await;
    native.image_key = image_key(&config.pause)?;
    native.host.page_out = match (config.pause.page_out, &native.image_key) {
        (false, _) => PageOut::Never,
        // Swap on a disk would hold in plain what is encrypted beside it.
        (true, Some(_)) => PageOut::ToMemory,
        (true, None) => PageOut::ToSwap,
    };
    if config.mirror.enabled {
        native.host.gateway_ports = vec![config.mirror.port];
    }
    native.host.allowed_ranges = allowed_ranges(&config.network)?;
    // What it takes comes later: those who know secrets need the sandboxes that are here.
    let inspection = Arc::clone(&native.host.inspection);
    let started = Native::start(native).await.map_err(start_error)?;
    // Not before: only now is it sure that no other server uses the directory.
    if let (Some(_), Some(build)) = (agent, AGENT) {
        prune_agents(&config.data_dir, build.id);
    }
    Ok((started, inspection))
}

/// CRIU, if this host has one that is new enough, or one was fetched for it.
async fn checkpoints(config: &Config) -> Option<CheckpointConfig> {
    let fetched = Criu::fetched_in(&config.cache_dir);
    let directory = config.data_dir.join("criu");
    let finding = move || Criu::find(&fetched, &directory);
    match tokio::task::spawn_blocking(finding).await {
        Ok(Ok(criu)) => {
            tracing::debug!(
                version = criu.version(),
                "memory of sandboxes can be written to disk"
            );
            let agents = Arc::new(HttpAgents);
            Some(CheckpointConfig { criu, agents })
        }
        Ok(Err(error)) => {
            tracing::info!(error = %Chain(&error), "memory of sandboxes is not written to disk");
            None
        }
        Err(panic) => {
            tracing::error!(error = %Chain(&panic), "looking for criu panicked");
            None
        }
    }
}

/// The key by which images are encrypted, if the operator has one.
fn image_key(pause: &Pause) -> Result<Option<ImageKey>, CliError> {
    let named = pause.encryption_key_file.as_deref();
    let Some(path) = named.filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(None);
    };
    let key = ImageKey::read(path).map_err(|error| CliError {
        kind: ExitKind::Input,
        ..CliError::failure(error).hint(
            "make a key with `(umask 077; openssl rand -hex 32 > FILE)` and name the file in `pause.encryption_key_file`",
        )
    })?;
    Ok(Some(key))
}

/// The file of the agent that this executable was built with, if it has one inside and the data
/// directory can hold it.
fn agent(data_dir: &Path) -> Option<PathBuf> {
    let installed = skep_install::install_agent(data_dir, AGENT.as_ref()?);
    installed
        .inspect_err(|error| {
            tracing::warn!(
                error = %Chain(error),
                "no agent in the data directory; sandboxes execute the server's own file, which \
                 takes more memory"
            );
        })
        .ok()
}

fn prune_agents(data_dir: &Path, current: &str) {
    match skep_install::prune_agents(data_dir, current) {
        Ok(0) => {}
        Ok(removed) => tracing::info!(removed, "removed agents of earlier servers"),
        Err(error) => tracing::warn!(error = %Chain(&error), "cannot remove old agents"),
    }
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
