//! Headers of requests that leave a sandbox, filled with what the sandbox must not see.

use skep_seal::Zeroizing;
use skep_telemetry::Chain;
use skep_types::{HeaderTemplate, SandboxId, SecretName, TemplatePart, ValueRequest};

use crate::{Control, SecretError};
use skep_store::Order;

/// Longest header that is filled, in bytes.
const LONGEST_HEADER: usize = 256 * 1024;

/// Failure to fill a header, or to open a password. The request must not leave.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// There is no such sandbox.
    #[error("no such sandbox")]
    NoSandbox,
    /// Its team has no such secret, or no longer.
    #[error("no secret `{0}`")]
    NoSecret(SecretName),
    /// The sandbox has no such identity token.
    #[error("no identity token `{0}`")]
    NoToken(String),
    /// The header would be too long.
    #[error("header is too long")]
    TooLong,
    /// The vault did not give the secret; it is in the log.
    #[error("vault cannot be read")]
    Unavailable,
}

impl Control {
    /// Fills the placeholders of a header for a request of this sandbox: secrets of its team as they
    /// are now, and tokens that are minted for it; or opens the password of its owner's proxy. For
    /// whoever sends the request or connects, outside the sandbox.
    ///
    /// # Errors
    ///
    /// [`FillError`]; the placeholder itself must never be sent.
    pub async fn fill_header(
        &self,
        sandbox: &SandboxId,
        wanted: impl Into<ValueRequest<'_>> + Send,
    ) -> Result<Zeroizing<String>, FillError> {
        let entry = self
            .inner
            .registry
            .find_anywhere(sandbox)
            .ok_or(FillError::NoSandbox)?;
        let order = &entry.order;
        match wanted.into() {
            ValueRequest::Header(template) => self.filled(order, template).await,
            ValueRequest::ProxyPassword(proxy) => self.proxy_password(&order.team, proxy).await,
        }
    }

    async fn filled(
        &self,
        order: &Order,
        template: &HeaderTemplate,
    ) -> Result<Zeroizing<String>, FillError> {
        let mut values = Vec::with_capacity(template.parts().len());
        for part in template.parts() {
            values.push(match part {
                TemplatePart::Text(text) => Zeroizing::new(text.clone()),
                TemplatePart::Secret(name) => {
                    let value = self
                        .secret_value(&order.team, name)
                        .await
                        .map_err(|error| refused(name, &error))?;
                    Zeroizing::new(value.reveal().to_owned())
                }
                TemplatePart::Token(name) => {
                    let audience = (order.identity)
                        .audience(name)
                        .ok_or_else(|| FillError::NoToken(name.clone()))?;
                    self.mint(order, audience).await.map_err(|error| {
                        tracing::error!(error = %Chain(&error), "an identity token cannot be minted");
                        FillError::Unavailable
                    })?
                }
            });
        }
        joined(&values)
    }
}

/// The values one after another. A text that grows leaves its old bytes behind, so it does not.
fn joined(values: &[Zeroizing<String>]) -> Result<Zeroizing<String>, FillError> {
    let length = values.iter().map(|value| value.len()).sum();
    if length > LONGEST_HEADER {
        return Err(FillError::TooLong);
    }
    let mut filled = Zeroizing::new(String::with_capacity(length));
    for value in values {
        filled.push_str(value);
    }
    Ok(filled)
}

fn refused(name: &SecretName, error: &SecretError) -> FillError {
    match error {
        SecretError::NotFound => FillError::NoSecret(name.clone()),
        SecretError::Taken
        | SecretError::TooMany { .. }
        | SecretError::Key(_)
        | SecretError::Sealed { .. }
        | SecretError::Sealing(_)
        | SecretError::BrokeOff
        | SecretError::Record(_) => {
            tracing::error!(error = %Chain(error), "a secret cannot be read");
            FillError::Unavailable
        }
    }
}
