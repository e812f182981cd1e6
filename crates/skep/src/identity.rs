//! Issuer of identity tokens of sandboxes.

use std::time::Duration;

use skep_cli::CliError;
use skep_config::Config;
use skep_control::{Control, IssuerError};

const DAY: Duration = Duration::from_hours(24);

/// Tells control the issuer that the operator named, or else the API at `url`.
///
/// # Errors
///
/// If the issuer is no URL.
pub(crate) fn issue(config: &Config, control: &Control, url: &str) -> Result<(), CliError> {
    let named = config
        .identity
        .issuer
        .as_deref()
        .filter(|issuer| !issuer.is_empty());
    let issuer = named.unwrap_or(url).parse().map_err(|error: IssuerError| {
        CliError::input(
            format!("`identity.issuer` cannot be used: {error}"),
            "write it as in `https://api.sandboxes.example.com`",
        )
    })?;
    control.issue_identity(issuer, DAY * config.identity.key_days.get());
    Ok(())
}
