//! Passwords of owners' proxies, sealed in the record and opened for one connection at a time.

use skep_seal::Zeroizing;
use skep_telemetry::Chain;
use skep_types::{EgressProxy, Redacted, TeamId};

use crate::fill::FillError;
use crate::vault::SecretValue;
use crate::{Caller, Control, SecretError};

/// The one thing that a sealed password opens for: whoever changes the record sends it to no other host.
fn context(team: &TeamId, proxy: &EgressProxy) -> String {
    let username = proxy.username().unwrap_or_default();
    format!("egress-proxy/{team}/{}/{username}", proxy.address())
}

impl Control {
    /// Seals the password of a proxy for sandboxes of the caller's team. Without one nothing is done.
    ///
    /// # Errors
    ///
    /// [`SecretError`] if the key of the vault cannot be had.
    pub async fn seal_egress_proxy(
        &self,
        caller: &Caller,
        proxy: EgressProxy,
        password: Option<Redacted<String>>,
    ) -> Result<EgressProxy, SecretError> {
        let Some(password) = password else {
            return Ok(proxy);
        };
        let context = context(&caller.team.id, &proxy);
        let value = SecretValue::of_bytes(password.reveal().as_bytes());
        let sealed = self.inner.vault.seal(&context, &value).await?;
        Ok(proxy.with_sealed_password(Some(hex::encode(sealed))))
    }

    /// The password of a proxy of a team's sandbox; empty if it has none.
    pub(crate) async fn proxy_password(
        &self,
        team: &TeamId,
        proxy: &EgressProxy,
    ) -> Result<Zeroizing<String>, FillError> {
        let Some(sealed) = proxy.sealed_password() else {
            return Ok(Zeroizing::default());
        };
        let sealed = hex::decode(sealed).map_err(|_| FillError::Unavailable)?;
        let context = context(team, proxy);
        // A sandbox asks as often as it connects: what fails is in the log of its requests.
        let opened = self.inner.vault.open(&context, &sealed).await.map_err(|error| {
            tracing::debug!(error = %Chain(&error), "the password of an egress proxy cannot be opened");
            FillError::Unavailable
        })?;
        let value = opened.map_err(|error| {
            tracing::debug!(error = %Chain(&error), "no key of the vault opens the password of an egress proxy");
            FillError::Unavailable
        })?;
        let bytes = value.to_bytes().ok_or(FillError::Unavailable)?;
        let text = std::str::from_utf8(&bytes).map_err(|_| FillError::Unavailable)?;
        Ok(Zeroizing::new(text.to_owned()))
    }
}
