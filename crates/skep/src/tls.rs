//! The domain that the configuration or `--tls` asks for.

use std::time::SystemTime;

use skep_cli::CliError;
use skep_domain::{Domain, LOCAL_DOMAIN};

use crate::config::Config;

/// Opens the domain that the server shows certificates for, if it speaks TLS.
///
/// # Errors
///
/// If a certificate cannot be read or made.
pub(crate) fn open(config: &Config, local: bool) -> Result<Option<Domain>, CliError> {
    let now = SystemTime::now();
    let opened = match (&config.tls, &config.domain) {
        (Some(files), Some(name)) => {
            let (chain, key) = (files.certificate.clone(), files.key.clone());
            Domain::from_files(name, chain, key, now)
        }
        (Some(_), None) => {
            return Err(CliError::input(
                "`tls` is configured without `domain`",
                "set `domain` to the name that the certificate is for",
            ));
        }
        (None, name) if local => {
            let name = name.as_deref().unwrap_or(LOCAL_DOMAIN);
            Domain::local(name, &config.data_dir.join("tls"), now)
        }
        (None, _) => return Ok(None),
    };
    let domain = opened.map_err(CliError::failure)?;
    tracing::debug!(domain = domain.name(), "serving TLS");
    // It ends with the process.
    drop(skep_telemetry::spawn("certificates", domain.keep_fresh()));
    Ok(Some(domain))
}
