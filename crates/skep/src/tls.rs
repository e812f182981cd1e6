//! Certificates: of an authority of our own, or those of the configuration.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::ServerConfig;
use skep_cli::CliError;
use skep_proxy::{CertificateSource, Certificates, LocalCa};

use crate::config::Config;

/// The domain of a server with an authority of its own, unless the configuration has one.
/// The SDKs and browsers lead `*.localhost` to this host without asking anybody; programs
/// that ask the system need the DNS that is printed beside it.
const LOCAL_DOMAIN: &str = "skep.localhost";
/// Interval between two checks whether certificates have changed.
const GLANCE: Duration = Duration::from_hours(1);

/// TLS as the frontend needs it.
#[derive(Debug)]
pub(crate) struct Tls {
    config: Arc<ServerConfig>,
    domain: String,
    authority: Option<PathBuf>,
}

impl Tls {
    pub(crate) fn domain(&self) -> &str {
        &self.domain
    }

    pub(crate) fn authority(&self) -> Option<PathBuf> {
        self.authority.clone()
    }

    pub(crate) fn into_config(self) -> Arc<ServerConfig> {
        self.config
    }
}

/// TLS if the configuration or `--tls` asks for it.
///
/// # Errors
///
/// If a certificate cannot be read or made.
pub(crate) fn open(
    config: &Config,
    local: bool,
    address: SocketAddr,
) -> Result<Option<Tls>, CliError> {
    let now = SystemTime::now();
    let (source, domain, authority) = match (&config.tls, local) {
        (Some(files), _) => {
            let domain = config.domain.clone().ok_or_else(|| {
                CliError::input(
                    "`tls` is configured without `domain`",
                    "set `domain` to the name that the certificate is for",
                )
            })?;
            let (chain, key) = (files.certificate.clone(), files.key.clone());
            (CertificateSource::Files { chain, key }, domain, None)
        }
        (None, true) => {
            let domain = config
                .domain
                .clone()
                .unwrap_or_else(|| LOCAL_DOMAIN.to_owned());
            let folder = config.data_dir.join("tls");
            let authority = LocalCa::open(&folder, &domain, now).map_err(CliError::failure)?;
            let certificate = authority.certificate_file().to_owned();
            (
                CertificateSource::Local(Box::new(authority)),
                domain,
                Some(certificate),
            )
        }
        (None, false) => return Ok(None),
    };
    let certificates = Certificates::load(source, now).map_err(CliError::failure)?;
    let server = certificates.server_config().map_err(CliError::failure)?;
    tracing::debug!(%address, domain, "serving TLS");
    // It ends with the process.
    drop(skep_telemetry::spawn(
        "certificates",
        certificates.keep_fresh(GLANCE),
    ));
    Ok(Some(Tls {
        config: server,
        domain,
        authority,
    }))
}
