//! The mirror of package registries, for the sandboxes of this server.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use skep_cli::CliError;
use skep_config::{Config, Offline};
use skep_mirror::{Access, Mirror, MirrorOptions, Registries, Registry, Sandboxes};
use skep_native::Native;
use skep_packages::{MirrorPlace, PackageSettings};
use tokio::net::TcpListener;

/// Starts the mirror, if the operator wants one. It reaches registries as `host` does.
///
/// # Errors
///
/// If it cannot listen at the gateway, or a registry cannot be one.
pub async fn start(
    config: &Config,
    isolation: &Arc<Native>,
    host: &PackageSettings,
) -> Result<Option<Mirror>, CliError> {
    if !config.mirror.enabled {
        return Ok(None);
    }
    let place = address(config, isolation);
    let listener = TcpListener::bind(place).await.map_err(|error| {
        let hint = format!(
            "the package mirror cannot listen on {place}; `mirror.port` takes another port"
        );
        CliError::failure(error).hint(hint)
    })?;
    let options = MirrorOptions {
        listener,
        registries: registries(config, host),
        certificates: host.ca_bundle().map(str::to_owned),
        directory: config.data_dir.join("mirror"),
        cache_bytes: u64::from(config.mirror.cache_mib.get()) << 20,
        freshness: Duration::from_mins(config.mirror.index_minutes.into()),
        sandboxes: Arc::new(LocalSandboxes {
            isolation: Arc::clone(isolation),
            offline: config.mirror.offline,
        }),
    };
    let mirror = Mirror::start(options).await;
    let hint = "docs/reference/configuration.md has the keys of `[mirror]`";
    mirror
        .map(Some)
        .map_err(|error| CliError::failure(error).hint(hint))
}

/// Package settings for sandboxes: those of this host, if the operator shares them, and the mirror in the
/// place of its registries, if there is one.
pub fn settings(
    config: &Config,
    isolation: &Native,
    host: PackageSettings,
) -> Option<PackageSettings> {
    let shared = config.share_host_package_settings.then_some(host);
    if !config.mirror.enabled {
        return shared;
    }
    let place = MirrorPlace::new(address(config, isolation));
    let settings = shared.unwrap_or_else(PackageSettings::none);
    Some(settings.through(&place))
}

fn address(config: &Config, isolation: &Native) -> SocketAddr {
    SocketAddr::from((isolation.gateway(), config.mirror.port))
}

fn registries(config: &Config, host: &PackageSettings) -> Registries {
    let mirror = &config.mirror;
    let named = [
        mirror.pypi.as_deref(),
        mirror.npm.as_deref(),
        mirror.debian.as_deref(),
        mirror.debian_security.as_deref(),
    ];
    let found = host.registries().with(named);
    let registry = |found: skep_packages::Registry| Registry {
        url: found.url,
        authorization: found.authorization,
    };
    Registries {
        pypi: registry(found.pypi),
        npm: registry(found.npm),
        debian: registry(found.debian),
        debian_security: registry(found.debian_security),
    }
}

/// The sandboxes of this server, which have of a registry what they could reach of it themselves.
#[derive(Debug)]
struct LocalSandboxes {
    isolation: Arc<Native>,
    offline: Offline,
}

impl Sandboxes for LocalSandboxes {
    fn access(&self, address: Ipv4Addr, registry: &str) -> Access {
        let Some(egress) = self.isolation.egress_at(address) else {
            return Access::Nothing;
        };
        if egress.names().include(registry) {
            return Access::Everything;
        }
        match self.offline {
            Offline::Nothing => Access::Nothing,
            Offline::Cached => Access::Cached,
            Offline::Everything => Access::Everything,
        }
    }
}
