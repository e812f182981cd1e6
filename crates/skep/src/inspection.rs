//! Parts that look into requests of sandboxes whose rules say so: authority, trust and edge.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::SystemTime;

use skep_admin::front_door::FrontDoor;
use skep_cli::CliError;
use skep_config::Config;
use skep_control::Control;
use skep_domain::EgressCa;
use skep_egress::{Edge, Inspection};
use skep_packages::PackageSettings;
use skep_types::DomainName;

use crate::wiring::ControlHeaderValues;

/// Directory of the authority in the data directory.
const DIRECTORY: &str = "egress-ca";

/// The authority that such sandboxes trust, and its certificate.
///
/// # Errors
///
/// If it can neither be read nor made.
pub(crate) fn authority(config: &Config) -> Result<(Arc<EgressCa>, Arc<str>), CliError> {
    let directory = config.data_dir.join(DIRECTORY);
    let authority = EgressCa::open(&directory, SystemTime::now()).map_err(CliError::failure)?;
    let file = authority.certificate_file();
    let certificate = fs::read_to_string(file).map_err(|error| {
        CliError::failure(error).hint(format!("cannot read `{}`", file.display()))
    })?;
    Ok((Arc::new(authority), certificate.into()))
}

/// All that proxies need, once there is somebody who knows secrets, and a door that others come in by.
///
/// # Errors
///
/// If the authority of the door's own certificate cannot be read.
pub(crate) fn complete(
    authority: Arc<EgressCa>,
    control: &Control,
    door: &FrontDoor,
    address: SocketAddr,
    host: &PackageSettings,
) -> Result<Inspection, CliError> {
    let mut roots = host.ca_bundle().unwrap_or("").to_owned();
    // Ports of other sandboxes are hosts like others, by this server's own certificate perhaps.
    if let Some(own) = door.trust() {
        let own = fs::read_to_string(&own.authority).map_err(CliError::failure)?;
        roots.push('\n');
        roots.push_str(&own);
    }
    let domain = DomainName::new(door.domain()).as_str().parse().ok();
    let edge = domain.filter(|_| door.speaks_tls());
    // Whoever listens everywhere listens here, too.
    let here = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    };
    let address = SocketAddr::new(here, address.port());
    Ok(Inspection {
        authority,
        roots: roots.into(),
        values: Arc::new(ControlHeaderValues(control.downgrade())),
        edge: edge.map(|domain| Edge { domain, address }),
    })
}
